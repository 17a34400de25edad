"""Imports some libraries early. A trial has only one engine's libraries in its process, but these tests load all of
them, and some don't fit when loaded last.
"""

from collections.abc import Iterator
from contextlib import suppress

import pytest
from stores import SHARING

with suppress(ImportError):
    # The C++ library of _mysql_connector needs space in static TLS, which is small. Python's OpenSSL must be loaded
    # before the library's own.
    import ssl  # noqa: F401

    import _mysql_connector  # noqa: F401


@pytest.fixture(scope="session", autouse=True)
def shared() -> Iterator[None]:
    """Ends the servers that the tests share, because a test process may be killed without running its
    exit handlers.
    """
    with SHARING:
        yield
