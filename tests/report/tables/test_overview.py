"""Tests the overview that `dyno run` and `dyno show` print first: a table for each tier, sorted by rank, with marks
for leaders and doubtful figures."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from madeup import Rates, a_cell, changed, of_rates, recorded, repeated
from rich.console import Console
from shell import TESTS, Shell

from dyno.contracts.cell import Cell
from dyno.contracts.decoded_types import Fact
from dyno.contracts.model import Tier
from dyno.report.tables import overview, sections, text
from dyno.report.tables.notes import differing_settings
from dyno.results import Run

STEADY = (1.0, 1.01, 1 / 1.01, 1.0, 1.0)


def rates(value: float, noise: Rates = STEADY) -> list[float]:
    return [1e6 * value * each for each in noise if each is not None]


def printed(run: Run, width: int = 120, whole: bool = False, alone: bool = True) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False)
    if alone:
        sections.render(overview.sections(run), console, aligned=False)
    else:
        text.render(run, console, whole=whole)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def lines(run: Run, *engines: str, width: int = 120) -> list[list[str]]:
    """Returns the words of each line that begins with the name of one of these engines, in printed order."""
    return [line.split() for line in printed(run, width) if line.split() and line.split()[0] in engines]


ENGINES = ("lmdb", "sqlite", "leveldb")


def three(**given: tuple[float, float]) -> Run:
    return of_rates(
        *((a_cell(name), dict(zip(("fill", "read"), map(rates, both), strict=True))) for name, both in given.items())
    )


def test_rows_sort_by_rank_with_phase_winners_marked() -> None:
    run = three(sqlite=(1, 1), lmdb=(3, 2), leveldb=(2, 4))
    found = lines(run, *ENGINES)
    assert sorted(line[0] for line in found[:2]) == ["leveldb", "lmdb"] and found[2][0] == "sqlite"
    marks = {line[0]: [cell.endswith("*") for cell in line[1:]] for line in found}
    assert marks == {"lmdb": [True, False], "leveldb": [False, True], "sqlite": [False, False]}
    assert any(line.strip().startswith("* the fastest") for line in printed(run))


@pytest.mark.parametrize(
    ("tier", "text"),
    [
        (Tier.VOLATILE, "tier volatile, not crash-safe: lost with the process"),
        (
            Tier.PROCESS,
            "tier process, safe from a crash of the process alone: survives SIGKILL of the engine's process",
        ),
        (
            Tier.POWER,
            "tier power, crash-safe, a loss of power included: flushed to the device before it is acknowledged",
        ),
    ],
)
def test_tier_heading_explains_crash_safety(tier: Tier, text: str) -> None:
    run = of_rates((a_cell("lmdb", tier), {"fill": rates(1)}), phases=("fill",))
    assert any(line.startswith(text) for line in printed(run))


def test_confidence_is_explained_once_if_engines_are_compared() -> None:
    apart = of_rates(*((a_cell(n), {"fill": rates(v)}) for n, v in (("lmdb", 2), ("sqlite", 1))), phases=("fill",))
    found = printed(apart, alone=False)
    assert sum(line.startswith("  99 % sure: of 100 such runs") for line in found) == 1
    assert re.search("99 % sure of [^;]*; 5 samples of each", " ".join(map(str.strip, found)))
    alone = of_rates((a_cell("lmdb"), {"fill": rates(1)}), phases=("fill",))
    assert not any("99 %" in line for line in printed(alone, alone=False))


def test_differing_settings_of_engine_rows_show_effective_values() -> None:
    """Effective settings are shown because few readers know the defaults of a row without options."""
    cells = [Cell("records", "sqlite", options, Tier.PROCESS, {}) for options in ({}, {"set": "synchronous=normal"})]
    run = of_rates(*((cell, {"fill": rates(1)}) for cell in (*cells, a_cell("lmdb"))), phases=("fill",))
    effective: list[dict[str, Fact]] = [
        {"synchronous": "off", "wal": True},
        {"synchronous": "normal", "wal": True},
        {"sync": False},
    ]
    run = replace(run, attempts=tuple(replace(each, settings=effective[each.cell]) for each in run.attempts))
    found = printed(run, alone=False)
    at = found.index("Settings that differ")
    assert found[at + 1 : at + 3] == [
        "  sqlite: synchronous is off with sqlite and normal with sqlite:set.synchronous=normal",
        "",
    ]


def test_setting_absent_from_a_row_is_not_unknown() -> None:
    cells = [Cell("objects", "relstorage", {"db": db}, Tier.PROCESS, {}) for db in ("sqlite", "postgresql")]
    run = of_rates(*((cell, {"fill": rates(1)}) for cell in cells), phases=("fill",))
    effective: list[dict[str, Fact]] = [{"synchronous": "full", "cache_mib": None}, {"cache_mib": 16}]
    run = replace(run, attempts=tuple(replace(each, settings=effective[each.cell]) for each in run.attempts))
    lines = differing_settings(run)
    assert lines[0] == "relstorage: synchronous is full with relstorage:db=sqlite"
    assert lines[1].endswith("is not known with relstorage:db=sqlite and 16 with relstorage:db=postgresql")


def test_tied_engines_are_both_marked_fastest() -> None:
    given = {"lmdb": (1.0, 1.02, 0.98, 1.0, 1.01), "sqlite": (0.99, 1.0, 1.0, 1.01, 0.98)}
    run = of_rates(*((a_cell(name), {"fill": rates(1, noise)}) for name, noise in given.items()), phases=("fill",))
    assert [line[1].endswith("*") for line in lines(run, *ENGINES)] == [True, True]


def test_too_few_blocks_mark_no_leader() -> None:
    short = tuple((a_cell(name), {"fill": rates(value)[:2]}) for name, value in (("lmdb", 9), ("sqlite", 1)))
    run = of_rates(*short, phases=("fill",))
    assert not any("*" in line for line in printed(run))


def test_single_engine_is_not_marked_as_leader() -> None:
    assert not any("*" in line for line in printed(three(lmdb=(1, 1))))


def timed(run: Run) -> Run:
    """The run with latencies of which one in a hundred is 7 µs or longer."""
    histogram = recorded(*[1_000] * 98, *[7_000] * 2)
    return changed(run, lambda name, sample: replace(sample, histogram=histogram))


def test_closed_loop_p99_columns_follow_throughput_columns() -> None:
    run = timed(three(sqlite=(1, 1), lmdb=(3, 2)))
    heads = next(line for line in printed(run) if "fill" in line)
    assert re.split("  +", heads) == ["engine", "fill", "read", "fill p99", "read p99"]
    assert all(line[-4:] == ["7.00", "µs", "7.00", "µs"] for line in lines(run, *ENGINES))


def test_few_operations_raise_no_doubt_in_overview() -> None:
    run = three(sqlite=(1, 1), lmdb=(3, 2))
    brief = changed(run, lambda name, sample: replace(sample, histogram=repeated(1_000, 20)))
    assert lines(brief, *ENGINES) == lines(run, *ENGINES)


def test_tiers_have_tables_of_their_own() -> None:
    run = of_rates(
        (a_cell("lmdb", Tier.POWER), {"fill": rates(1)}),
        (a_cell("lmdb", Tier.PROCESS), {"fill": rates(3)}),
        phases=("fill",),
    )
    heads = [line for line in printed(run) if line.startswith("tier ")]
    assert [head.partition(",")[0] for head in heads] == ["tier power", "tier process"]


def test_differing_parameters_follow_the_engine_name() -> None:
    run = of_rates(
        *((a_cell("lmdb", txn=txn), {"fill": rates(txn)}) for txn in (1, 10)),
        phases=("fill",),
    )
    assert [line[:2] for line in lines(run, "lmdb")] == [["lmdb", "txn=1"], ["lmdb", "txn=10"]]


def test_wide_table_wraps_and_repeats_engine_names() -> None:
    phases = [f"phase-{number}" for number in range(12)]
    run = of_rates(*((a_cell(name), dict.fromkeys(phases, rates(2))) for name in ("lmdb", "sqlite")), phases=phases)
    shown = printed(run, 60)
    assert max(map(len, shown)) <= 60 or not any(line.startswith("lmdb") for line in shown if len(line) > 60)
    assert len(lines(run, "lmdb", width=60)) > 1
    cells = [cell for line in lines(run, "lmdb", width=60) for cell in line[1:]]
    assert len(cells) == len(phases)


def test_phase_alias_is_shown_and_mapped_to_name() -> None:
    run = three(lmdb=(1, 1), sqlite=(2, 2))
    run = replace(run, recorded={**run.recorded, "phases": [{"name": "read", "alias": "get"}, {"name": "fill"}]})
    shown = printed(run)
    assert ["engine", "fill", "get"] in [line.split() for line in shown]
    assert any("get is read" in line for line in shown)
    whole = printed(run, alone=False)
    assert any("fill and get together" in line for line in whole)


@pytest.mark.parametrize("whole", [False, True])
def test_intervals_appear_only_with_flag_all(whole: bool) -> None:
    shown = printed(three(lmdb=(1, 1), sqlite=(2, 2)), 200, whole, alone=False)
    assert any("[95 %]" in line for line in shown) is whole
    assert any(" --all" in line for line in shown) is not whole


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("flags", [(), ("--all",)])
def test_unmeasured_table_is_one_line(flags: tuple[str, ...], tmp_path: Path) -> None:
    whole = (TESTS / "data" / "run-schema-3.json").read_bytes().splitlines(keepends=True)
    (tmp_path / "r.json").write_bytes(whole[0])
    ended = Shell(tmp_path, tmp_path / "work").dyno("show", "r.json", *flags)
    assert ended.status == 0, ended.err
    assert "othing was measured" in ended.out
    # The output names the engine, but has no empty table.
    lines = [line.split() for line in ended.out.splitlines()]
    assert not any(line[:1] == ["engine"] for line in lines)
    assert "lmdb" in ended.out
