"""Dyno: a dynamometer for data engines."""

__version__ = "0.1.0"
