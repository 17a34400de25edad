"""Engines that do nothing: the floors of suites."""

ENGINES = ("null", "nullkv")
"""The engines that the module `engines` declares."""
