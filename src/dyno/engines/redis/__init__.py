"""Redis and Valkey: engines, port and server."""

ENGINES = ("redis", "valkey")
"""The engines that the module `engines` declares."""
