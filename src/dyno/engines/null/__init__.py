"""Engines that do nothing: the floors of suites."""
