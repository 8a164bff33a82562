"""The version of this package: the one place that holds it."""

VERSION = "0.2.0"
