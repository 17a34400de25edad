"""A client of a server of ZEO's, for the engines whose database is behind one.

What is done with the storage, and how the server is started, may not be put here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ANSWER_SECONDS = 30
"""For which a client waits for a server that is not there, before an operation is an error: its default."""


def storage(server: Any, home: Path, cache_mib: int) -> Any:
    """The storage in `home` of a `dyno.engines.zodb.server_zeo.ZEO`, which runs. Each client has a cache of its
    own."""
    from ZEO import ClientStorage

    name = server.storage(home)
    with _temporary_files_in(home):
        return ClientStorage.ClientStorage(
            str(server.address),
            storage=name,
            cache_size=cache_mib << 20,
            wait_timeout=ANSWER_SECONDS,
            # Those that the server has: both are on this machine.
            blob_dir=str(server.blobs(name)),
            shared_blob_dir=True,
        )


@contextmanager
def _temporary_files_in(home: Path) -> Iterator[None]:
    """The cache is a temporary file, gone with its client: on the disk that the trial has, as /tmp may be memory."""
    import tempfile

    before, tempfile.tempdir = tempfile.tempdir, str(home)
    try:
        yield
    finally:
        tempfile.tempdir = before
