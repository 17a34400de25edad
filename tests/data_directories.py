"""Data directories of PostgreSQL and MariaDB that the tests copy: creating one takes PostgreSQL two seconds. Commands
in processes of their own, such as the tutorials', create theirs."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from dyno.engines.mysql.server_mariadb import MariaDB
from dyno.engines.postgresql.server import PostgreSQL

TEMPLATES = "DYNO_TEST_TEMPLATES"
"""Environment variable: the directory of data directories to copy."""


def copy_data_directories() -> None:
    """Lets the servers that this process starts copy a data directory from os.environ[TEMPLATES]."""
    for kind, name in ((PostgreSQL, "_initialize"), (MariaDB, "_create")):
        setattr(kind, name, _copying(getattr(kind, name)))


def _copying(create: Callable[[Any], None]) -> Callable[[Any], None]:
    """Wraps the method that creates a server's data directory. Servers of one program share a template."""

    def create_or_copy(server: Any) -> None:
        name = f"{type(server).__name__} {server._path}".replace("/", "_")
        template = Path(os.environ[TEMPLATES], name)
        if template.exists():
            _copy(template, server.data)
        else:
            create(server)
            # Renamed when complete, because another process may look for it.
            written = Path(tempfile.mkdtemp(dir=template.parent), name)
            _copy(server.data, written)
            with suppress(OSError):
                written.rename(template)

    return create_or_copy


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", source, target], check=True)
