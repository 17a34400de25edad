"""The port `objects`: a ZODB database over an engine's storage. `transactions` uses it in the same way for every
engine. No engine and no measuring belong here."""

from __future__ import annotations

from typing import Any, Protocol

PORT = "objects"
HEAD = b"%016d.%09d."
"""The start of an object's content: its number and version."""
HEAD_BYTES = len(HEAD % (0, 0))


class Objects(Protocol):
    """Engines implement it as a class called with `(engine,)`; each client has its own instance."""

    database: Any
    """The open `ZODB.DB` over the storage, shared by clients that are threads of a process; None for a null engine.
    The engine opens and closes it."""

    def forget(self) -> None:
        """Empties the storage's own caches in this process, so that the next read goes to the server or the files.
        Does nothing for a storage without caches."""

    def close(self) -> None: ...
