"""The Python door: what a notebook needs, as functions that return objects which show themselves.

`import ablate` gives these functions; this folder holds them.
"""
