"""Distances between sets of images, each with the protocol of its measurement."""
