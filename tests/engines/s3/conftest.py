"""A directory for the engines of S3."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def home(work: Path) -> Path:
    home = work / "home"
    home.mkdir(parents=True)
    return home
