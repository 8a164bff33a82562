"""Sections of a report that give the evidence, one a file."""
