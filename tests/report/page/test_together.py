"""Tests the page of several runs: it begins with the differences, compares the rows in common, and shows their costs
by prices."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from madeup import a_cell, of_rates, written
from shell import Shell, is_one_line

from dyno import results
from dyno.report.page.build import build, compare_with_first
from dyno.results import Run

SLOW, FAST = [100.0, 101.0, 99.0, 100.5, 99.5], [200.0, 202.0, 198.0, 201.0, 199.0]


def a_run(file: Path, rates: list[float], cpu: str, version: str = "1", engine: str = "sqlite", **plan: Any) -> Run:
    made = of_rates((a_cell(engine), {"read": rates}), phases=["read"], host={"cpu": {"model": cpu}})
    trials = tuple(
        replace(attempt, version=version, started=f"2026-01-0{1 + (cpu != 'A')}T00:00:0{attempt.block}+00:00")
        for attempt in made.attempts
    )
    header = {**made.recorded, "plan": {**made.recorded["plan"], **plan}}
    return results.load(written(replace(made, attempts=trials, recorded=header), file))


def said(page: str) -> str:
    start = page.index("<main")
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page[start : page.index('id="overview"')])).split())


def test_page_begins_with_differences_and_faster_rows(tmp_path: Path) -> None:
    runs = [a_run(tmp_path / "old.json", SLOW, "A"), a_run(tmp_path / "new.json", FAST, "B", version="2")]
    text = said(build(runs))
    assert "new.json against old.json: 1 of 1 rows faster" in text
    assert "cpu.model A B" in text and "sqlite version 1 2" in text
    assert re.search(r"100 op/s 200 op/s .*faster by at least", text)
    assert text.index("What differs") < text.index("100 op/s")
    # Rows without competitors in their own file are compared with the other file.
    alone = "sqlite (process): read 100 op/s"
    assert alone not in text
    assert alone in said(build(runs[:1]))


def test_only_matching_rows_are_compared(tmp_path: Path) -> None:
    one = a_run(tmp_path / "a.json", SLOW, "A")
    for name, other, why in (
        ("engine", a_run(tmp_path / "b.json", FAST, "A", engine="lmdb"), "no engine with the same phase"),
        ("awake", a_run(tmp_path / "c.json", FAST, "A", awake=True), "--awake"),
    ):
        (pair,) = compare_with_first([one, other], ["a", "b"])
        assert pair.sections == () and why in pair.lines[0], name
        assert "sqlite (process): read 100 op/s" in said(build([one, other])), "which each says of itself"
    assert compare_with_first([one, a_run(tmp_path / "d.json", FAST, "A", suite="arrays")], ["a", "d"]) == []


PRICES = """
currency = "EUR"
[machines.old]
hour = 0.36
[machines."B"]
month = 1460
"""


def test_costs_of_rows_follow_prices_of_machines(tmp_path: Path, shell: Shell) -> None:
    a_run(shell.home / "old.json", SLOW, "A")
    a_run(shell.home / "new.json", FAST, "B")
    (shell.home / "p.toml").write_text(PRICES)
    ended = shell.dyno("report", "old.json", "new.json", "-o", "r.html", "--prices", "p.toml")
    assert ended.status == 0, ended.err
    text = said((shell.home / "r.html").read_text())
    # A million operations take 10,000 s at 0.36 an hour, and 5,000 s at 2 an hour.
    assert "old.json read sqlite 100 op/s" in text and "1.00 EUR 262.80 EUR" in text
    assert "new.json read sqlite 200 op/s" in text and "2.78 EUR 1,460.00 EUR" in text
    shown = " ".join(shell.dyno("show", "new.json", "--prices", "p.toml").out.split())
    assert "2.78 EUR 1,460.00 EUR" in shown


def test_price_column_without_values_is_omitted(shell: Shell) -> None:
    a_run(shell.home / "r.json", SLOW, "A")
    (shell.home / "p.toml").write_text("[prices.sqlite]\nmonth = 60\n")
    shown = shell.dyno("show", "r.json", "--prices", "p.toml").out.partition("Cost by")[2]
    head, row = shown.splitlines()[1:3]
    assert "a month" in head and "60.00" in row
    assert "a million" not in head and "bandwidth" not in head


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("[machines.old]\nhour = 1\nmonth = 2\n", "machines.old: expected the price of an hour or of a month"),
        ("[machines.old]\nyear = 1\n", "machines.old: expected the price of an hour or of a month"),
        ("[machines.old]\nhour = -1\n", "machines.old: hour = -1"),
        ("machines = 1\n", "has no prices"),
        ("[machines.other]\nhour = 1\n", "nor for its machine (old or old.json or A)"),
    ],
)
def test_invalid_machine_prices_are_refused(table: str, why: str, shell: Shell) -> None:
    a_run(shell.home / "old.json", SLOW, "A")
    (shell.home / "p.toml").write_text(table)
    for command in (("show",), ("report", "-o", "r.html")):
        ended = shell.dyno(*command, "old.json", "--prices", "p.toml")
        assert ended.status == 2 and is_one_line(ended.err) and why in ended.err, ended.err
    assert not (shell.home / "r.html").exists()
