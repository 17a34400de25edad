"""Engines that measure block devices and files with fio and dd."""

ENGINES = ("fio", "fio_null")
"""The engines that the module `engines` declares."""
