"""Programs as engines, and the floor of starting one."""

ENGINES = ("command", "spawn")
"""The engines that the module `engines` declares."""
