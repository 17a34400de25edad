"""ZODB storages: engines, the database on top of them, and the ZEO server. RelStorage has its own package."""
