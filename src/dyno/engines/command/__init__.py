"""Programs as engines, and the floor of starting one."""

ENGINES = ("command_line", "null_command")
"""The engines that the module `engines` declares."""
