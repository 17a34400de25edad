"""Loads first what would find no room later: a trial has one engine's libraries in its process, these have all."""

from contextlib import suppress

with suppress(ImportError):
    # The C++ library that it needs wants room in static TLS, which is small; Python's OpenSSL comes before its own.
    import ssl  # noqa: F401

    import _mysql_connector  # noqa: F401
