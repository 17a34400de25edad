"""Redis and Valkey: engines, port and server."""
