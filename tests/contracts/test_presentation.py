"""Tests the file layout.toml beside a suite's module."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dyno.contracts.presentation import Axis, Column, Layout

SUITE = "from dyno.contracts.suite import Suite\nclass Sorting(Suite):\n    name = 'sorting'\n"
TABLE = """
[layout]
columns = [{ title = "items/s", of = "rate", name = "sort", kind = "rate" }]
[[charts]]
name = "speed"
title = "Speed"
reading = "Up is faster."
x = { of = "param", name = "items" }
y = { of = "metric", name = "throughput" }
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A package with a suite, whose name is that of the test."""
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / request.node.name
    package.mkdir()
    (package / "__init__.py").write_text(SUITE)
    return package


def suite(package: Path) -> Any:
    return importlib.import_module(package.name).Sorting()


def test_suite_loads_table_and_charts_from_layout_file(package: Path) -> None:
    (package / "layout.toml").write_text(TABLE)
    assert suite(package).layout == Layout((Column("items/s", "rate", "sort", "rate"),))
    (chart,) = suite(package).charts
    assert (chart.x, chart.y) == (Axis("param", "items"), Axis("metric", "throughput"))


def test_missing_layout_file_means_no_table_or_charts(package: Path) -> None:
    assert (suite(package).layout, suite(package).charts) == (None, ())


def test_suite_attribute_overrides_layout_file(package: Path) -> None:
    (package / "layout.toml").write_text(TABLE)
    (package / "__init__.py").write_text(f"{SUITE}    charts = ()\n")
    assert suite(package).charts == () and suite(package).layout is not None


def test_wrong_value_type_in_layout_names_its_path(package: Path) -> None:
    (package / "layout.toml").write_text(TABLE.replace('"sort"', "3"))
    with pytest.raises(msgspec.ValidationError, match=r"columns\[0\]\.name"):
        suite(package).layout  # noqa: B018
