"""Tests that the docs say how an expert would run each engine: Dyno's settings with reasons, the expert's settings,
and the difference between them.

The difference is a ratio with its interval, or the reason why it is missing. The docs name the expert's source.
"""

from __future__ import annotations

import re

import pytest
from pages import read, rows, sections

from dyno import registry
from dyno.contracts.engine import EngineSpec

HEADING = "As its expert would run it"
COLUMNS = "| What | Set to | Why | What an expert would set | Ratio |"
FIGURE = r"\d+(?:,\d{3})*(?:\.\d+)?"
RATIO = re.compile(rf"{FIGURE} \({FIGURE}–{FIGURE}\)|^not measured: \S")
YEAR = re.compile(r"\b20\d\d\b")


def measured() -> list[EngineSpec]:
    """Each of Dyno's own engines that stores data."""
    return [
        spec
        for spec in registry.engines()
        if not spec.floor and spec.tiers and spec.opener.__module__.startswith("dyno.engines.")
    ]


@pytest.mark.parametrize("spec", measured(), ids=lambda spec: spec.name)
def test_every_engine_has_an_experts_settings(spec: EngineSpec) -> None:
    page = sections(sections(read("reference/engines/index.md"))[spec.name], 3)
    assert HEADING in page, f"docs/reference/engines/index.md, {spec.name}: no '### {HEADING}'"
    text = page[HEADING]
    assert COLUMNS in text, f"docs/reference/engines/index.md, {spec.name}: no table {COLUMNS}"
    table = rows(text)
    assert table
    for row in table:
        assert len(row) == 5 and all(row), f"{spec.name}: {row}"
        assert RATIO.search(row[4]), f"{spec.name}, {row[0]}: neither a ratio with its interval nor why not: {row[4]}"
    # The text below the table.
    assert YEAR.search(text.rpartition("|\n")[2]), (
        f"docs/reference/engines/index.md, {spec.name}: no source with its year"
    )


def test_null_and_synthetic_engines_have_no_expert() -> None:
    names = {spec.name for spec in measured()}
    assert {"lmdb", "leveldb", "rocksdb", "sqlite", "duckdb", "memory", "postgresql"} <= names
    assert not names & {"null", "nullkv", "synthetic"}
