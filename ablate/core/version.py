"""The version of this package; no other file holds it."""

VERSION = "0.2.0"
