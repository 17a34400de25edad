"""Python functions as engines, and the floor of calling one."""

ENGINES = ("call", "noop")
"""The engines that the module `engines` declares."""
