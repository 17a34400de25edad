"""The port of the objects suite: a database of ZODB over an engine's storage. No engine and no measuring may be put
here; what is done with the database is in `transactions`, alike for all engines.
"""

from __future__ import annotations

from typing import Any, Protocol

PORT = "objects"


class Objects(Protocol):
    """What a client works with. Engines implement it as a class called with `(engine,)`; each client has an instance
    of its own.
    """

    database: Any
    """The `ZODB.DB` over the storage, open: one for all clients that are threads of a process. None of a null engine.
    The engine opens it, and closes it when it is closed."""

    def forget(self) -> None:
        """Empties the caches that the storage itself has in this process, so that what is read next comes from the
        server or from its files. Nothing for a storage without any."""

    def close(self) -> None: ...
