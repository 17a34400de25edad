"""The files below a directory in which somebody goes on: what is taken away meanwhile is left out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def files(*folders: Path) -> list[Path]:
    """Nothing of a directory that is not there, or is no more."""
    return list(each(*folders))


def each(*folders: Path) -> Iterator[Path]:
    """As they are come to."""
    # By `Path.rglob` it is an error that a directory goes meanwhile.
    for folder in folders:
        for at, _, names in os.walk(folder):
            yield from (Path(at, name) for name in names)
