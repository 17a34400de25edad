"""ZODB storages: engines, the database over them, and the ZEO server. RelStorage has its own package."""
