"""The files below a directory in which somebody goes on: what is taken away meanwhile is left out."""

from __future__ import annotations

import os
from pathlib import Path


def files(*folders: Path) -> list[Path]:
    """Nothing of a directory that is not there, or is no more."""
    # By `Path.rglob` it is an error that a directory goes meanwhile.
    return [Path(at, name) for folder in folders for at, _, names in os.walk(folder) for name in names]
