"""Distances between sets of images, each with the protocol it was measured by."""
