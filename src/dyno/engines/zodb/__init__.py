"""ZODB storages: engines, the database on top of them, and the ZEO server. RelStorage has its own package."""

ENGINES = ("demostorage", "filestorage", "mappingstorage", "neo", "relstorage_oracle", "zeo")
"""The engines that the module `engines` declares."""
