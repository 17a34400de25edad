"""A directory for the engines of S3, which are reached without a proxy."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def home(work: Path) -> Path:
    home = work / "home"
    home.mkdir(parents=True)
    return home


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
