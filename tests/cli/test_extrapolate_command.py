"""Tests `dyno extrapolate` as a shell runs it: its output, and input that it refuses in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from madeup import a_cell, of_rates, reads, written
from shell import Shell, is_one_line

pytestmark = pytest.mark.usefixtures("processes")

VALUES = (1, 2, 4, 8, 16, 32)


@pytest.fixture
def extrapolate(shell: Shell, tmp_path: Path) -> Any:
    """Runs the command on two run files: in r.json, a phase takes a second at any size; one.json has no parameter."""
    rows = [(a_cell("sqlite", much=value), {"read": (1_000.0,) * 3}) for value in VALUES]
    written(of_rates(*rows, phases=["read"]), tmp_path / "r.json")
    written(reads(sqlite=(100.0,) * 3), tmp_path / "one.json")
    shell.home = tmp_path
    return lambda *words: shell.dyno("extrapolate", *words)


def test_output_shows_curve_and_marks_extrapolated_values(extrapolate: Any) -> None:
    ended = extrapolate("r.json", "--to", "much=64,1_440", "--hold-out", "32")
    assert ended.status == 0, ended.err
    for said in (
        "how its time grows with much",
        "1 – 16",
        "32 held out",
        "64, extrapolated",
        "at 1440, not forecast: sqlite: ",
    ):
        assert said in ended.out
    assert "Extrapolated, not measured" in " ".join(ended.out.split())


def test_only_varying_parameter_is_the_default(extrapolate: Any) -> None:
    data = json.loads(extrapolate("r.json", "--json").out)
    (growth,) = data["growths"]
    assert data["parameter"] == "much" and len(growth["measured"]) == 6 and growth["extrapolated"] == []
    assert growth["exponent"]["value"] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("r.json", "--to", "mush=3"), "did you mean much?"),
        (("r.json", "--to", "clients=3"), "clients has one value in this run, 1: a forecast takes 4 or more"),
        (("r.json", "--to", "rate=3"), "rate has one value in this run, max"),
        (("r.json", "--to", "much=x"), "expected numbers above 0, got 'x'"),
        (("r.json", "--to", "much=0"), "expected numbers above 0, got '0'"),
        (("r.json", "--hold-out", "-1"), "expected numbers above 0, got '-1'"),
        (("one.json",), "no parameter has several values"),
        (("none.json",), "none.json"),
    ],
)
def test_invalid_request_is_refused_in_one_line(extrapolate: Any, words: tuple[str, ...], said: str) -> None:
    ended = extrapolate(*words)
    assert ended.status == 2 and is_one_line(ended.err) and said in ended.err
