"""Loads first what would find no room later: a trial has one engine's libraries in its process, these have all."""

from collections.abc import Iterator
from contextlib import suppress

import pytest
from stores import SHARING

with suppress(ImportError):
    # The C++ library that it needs wants room in static TLS, which is small; Python's OpenSSL comes before its own.
    import ssl  # noqa: F401

    import _mysql_connector  # noqa: F401


@pytest.fixture(scope="session", autouse=True)
def shared() -> Iterator[None]:
    """Ends the servers that the tests share. Not at exit: a process of tests may be ended without one."""
    with SHARING:
        yield
