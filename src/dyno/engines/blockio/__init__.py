"""Block devices and files by fio and dd."""

ENGINES = ("fio", "fio_null")
"""The engines that the module `engines` declares."""
