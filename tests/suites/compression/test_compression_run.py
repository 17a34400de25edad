"""Tests what a run of the compression suite prints: a table with a line for each packer and batch size in the
terminal, in Markdown and on the page, with intervals and doubts; facts in every export; and the published table. One
run is real; tests that need exact figures insert them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from madeup import changed
from rich.console import Console
from shell import Shell

from dyno import published, results
from dyno.contracts.cell import Cell
from dyno.contracts.model import Tier, UsageError
from dyno.fields import Sample
from dyno.report import export
from dyno.report.page import build
from dyno.report.replicate import replica
from dyno.report.tables import sections, text, wide
from dyno.report.tables.table import groups
from dyno.report.tables.text import as_markdown
from dyno.results import Run
from dyno.stats.summary import summarize

pytestmark = pytest.mark.usefixtures("processes")

HEADS = "packer size count ratio batch gets/s ±_gets iters/s records/s ±_iterate compress/MB decompress/MB"
FACTS = {"stored_bytes", "entries", "ratio", "compress_cpu_ns_per_mb", "decompress_cpu_ns_per_mb", "library"}
SECOND = 10**9


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A shell with the run file of two packers and two batch sizes."""
    home = tmp_path_factory.mktemp("compression")
    shell = Shell(home, home / "work")
    params = ("packer=plain,zlib", "batch=1,8", "records=60", "gets=200", "iterations=3")
    flags = [word for param in params for word in ("-p", param)]
    ended = shell.dyno("run", "compression", *flags, "--samples", 1, "-o", shell.file)
    assert ended.status == 0, ended
    (home / "out").write_text(ended.out)
    return shell


@pytest.fixture(scope="module")
def measured(shell: Shell) -> Run:
    return results.load(shell.file)


@pytest.fixture(scope="module")
def run(measured: Run) -> Run:
    """A run of three trials with known rates, 10 % apart: 1,000 lookups a second, and 10 iterations of 60 records."""

    def known(_: str, sample: Sample) -> Sample:
        rate = {"insert": 500, "gets": 1_000, "iterate": 600}[sample.phase]
        elapsed = sample.items * SECOND // rate
        return replace(sample, elapsed_ns=elapsed, busy_ns=elapsed, ended_by="count")

    one = changed(measured, known).attempts
    attempts = [
        replace(
            found,
            block=block,
            samples=tuple(replace(s, elapsed_ns=int(s.elapsed_ns * factor)) for s in found.samples),
        )
        for block, factor in enumerate((1.0, 1 / 1.1, 1.1))
        for found in one
    ]
    plan = {**measured.recorded["plan"], "samples": 3}
    return replace(measured, recorded={**measured.recorded, "plan": plan}, attempts=tuple(attempts))


def printed(run: Run, width: int = 200, show: Callable[..., None] = text.render, **more: object) -> str:
    out = io.StringIO()
    show(run, Console(file=out, width=width, highlight=False), **more)
    return out.getvalue()


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def exported_cells(run: Run) -> list[Any]:
    """The cells of the run's export."""
    data: dict[str, Any] = export.as_data(run)
    return list(data["cells"])


def lines(out: str) -> list[list[str]]:
    """Returns the lines of the wide table, headings first."""
    found = out.splitlines()
    start = next(at for at, line in enumerate(found) if line.startswith("packer "))
    end = next(at for at, line in enumerate(found) if line.strip().startswith("floor (nullkv)"))
    return [cells_of(line) for line in found[start:end]]


def only(run: Run, selected: Callable[[Cell], bool], change: Callable[[Sample], Sample]) -> Run:
    """Returns the run with changed samples in the selected cells."""
    attempts = [
        replace(a, samples=tuple(map(change, a.samples))) if selected(run.cells[a.cell]) else a for a in run.attempts
    ]
    return replace(run, attempts=tuple(attempts))


def zlib8(cell: Cell) -> bool:
    return not cell.floor and (cell.params["packer"], cell.params["batch"]) == ("zlib", 8)


# -- the run ----------------------------------------------------------------------------------------------


def test_run_prints_one_line_per_packer_and_batch(shell: Shell) -> None:
    found = lines((shell.home / "out").read_text())
    # A run of one trial has no intervals.
    assert [head.replace(" ", "_") for head in found[0] if head != "remarks"] == [
        head for head in HEADS.split() if not head.startswith("±")
    ]
    assert [(line[0], line[4], line[2]) for line in found[1:]] == [
        ("plain", "1", "60"),
        ("plain", "8", "8"),
        ("zlib", "1", "60"),
        ("zlib", "8", "8"),
    ]


def test_stored_size_falls_with_compression_and_batch_size(measured: Run) -> None:
    found = {
        (cell["params"]["packer"], cell["params"]["batch"]): cell["facts"]
        for cell in exported_cells(measured)
        if cell["phase"] == "gets" and not cell["floor"]
    }
    sizes = [found[key]["stored_bytes"] for key in (("plain", 1), ("zlib", 1), ("zlib", 8))]
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == 3
    assert found["plain", 1]["ratio"] == 1 and found["zlib", 8]["ratio"] == pytest.approx(sizes[0] / sizes[2])


def test_facts_are_in_run_file_and_every_export(shell: Shell, measured: Run) -> None:
    header = json.loads(shell.file.read_text().splitlines()[0])
    assert [column["title"] for column in header["layout"]["columns"]] == [
        head for head in HEADS.split() if not head.startswith("±")
    ]
    for cell in exported_cells(measured):
        assert set(cell["facts"]) == (set() if cell["floor"] else FACTS)
    for table in (export.cells(measured), export.samples(measured)):
        kinds = {name: kind for name, kind in table.columns.items() if name.startswith("fact_")}
        assert kinds == {f"fact_{name}": "text" if name == "library" else "number" for name in FACTS}
        rows = list(csv.DictReader(io.StringIO(export.as_csv(table))))
        assert {
            row["fact_library"] != "" for row in rows if row["param_packer"] == "zlib" and row["floor"] == "False"
        } == {True}
        assert {row["fact_ratio"] for row in rows if row["floor"] == "True"} == {""}


def test_fact_is_trial_median_or_common_value(run: Run) -> None:
    titles: list[dict[str, Any]] = [
        {"n": 1, "x": 1.5, "w": "a", "half": 1},
        {"n": 9, "x": None, "w": "a", "half": 2},
        {"n": 4, "x": 2.5, "w": "b"},
    ]
    parts = [replace(a, samples=tuple(replace(s, facts=titles[a.block]) for s in a.samples)) for a in run.attempts]
    (row, *_) = summarize(replace(run, attempts=tuple(parts)))
    assert row.facts == {"n": 4, "x": None, "w": None, "half": None}
    two = summarize(replace(run, attempts=tuple(part for part in parts if part.block < 2)))[0].facts
    assert two == {"n": 5, "x": None, "w": "a", "half": 1.5}


def test_run_file_without_layout_and_facts_is_read(measured: Run, tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    first, *rest = [json.loads(line) for line in measured.path.read_text().splitlines()]
    del first["layout"]
    for line in rest:
        for sample in line["samples"]:
            del sample["facts"]
    old.write_text("".join(json.dumps(line) + "\n" for line in [first, *rest]))
    found = results.load(old)
    assert all(sample.facts == {} for attempt in found.attempts for sample in attempt.samples)
    assert wide.tables(found, groups(found)) == [] and "gets  tier process" in printed(found, whole=True)


def test_a_malformed_layout_is_damage(measured: Run, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    first, *rest = measured.path.read_text().splitlines()
    header = {**json.loads(first), "layout": {"columns": [{"title": "x"}]}}
    bad.write_text("\n".join([json.dumps(header), *rest]) + "\n")
    with pytest.raises(UsageError, match="is damaged"):
        results.load(bad)


# -- the table --------------------------------------------------------------------------------------------


def test_columns_show_phase_figures_with_intervals(run: Run) -> None:
    heads, *found = lines(printed(run))
    assert [head.replace(" ", "_") for head in heads] == [*HEADS.split(), "remarks"]
    shown = {
        (cell["params"]["packer"], cell["params"]["batch"], cell["phase"]): cell for cell in exported_cells(run)[::-1]
    }
    for line in found:
        said = dict(zip(heads, line, strict=False))
        gets, iterate = (
            shown[said["packer"], int(said["batch"]), phase]["throughput"] for phase in ("gets", "iterate")
        )
        assert (said["gets/s"], said["iters/s"], said["records/s"]) == ("1,000", "10", "600")
        for rate, name in ((gets, "± gets"), (iterate, "± iterate")):
            reach = max(rate["high"] - rate["median"], rate["median"] - rate["low"]) / rate["median"]
            assert said[name] == f"{reach * 100:.0f} %"


def test_doubt_is_printed_on_its_line_with_phase(run: Run) -> None:
    slow = only(run, zlib8, lambda s: replace(s, ended_by="budget") if s.phase == "gets" else s)
    out = printed(slow)
    remarks = {tuple(line[:1] + line[4:5]): line[-1] for line in lines(out)[1:]}
    assert "gets: budget" in remarks["zlib", "8"] and "budget" not in remarks["zlib", "1"]
    assert "budget: the time budget ended the phase" in out, "its meaning"
    both = only(run, zlib8, lambda s: replace(s, ended_by="budget"))
    assert "budget" in lines(printed(both))[-1][-1].split(", ")


def test_doubts_of_unshown_phases_are_left_out(run: Run) -> None:
    slow = only(run, zlib8, lambda s: replace(s, ended_by="budget") if s.phase == "insert" else s)
    assert "budget" not in printed(slow)
    assert "budget" in printed(slow, by_phase=True)


def test_void_phase_has_reason_but_no_number(run: Run) -> None:
    void = only(run, zlib8, lambda s: replace(s, void="got 1, expected 2", facts={}) if s.phase == "gets" else s)
    out = printed(void)
    line = lines(out)[-1]
    assert line[5] == "void" and "600" in line, "the other phase has its own"
    assert "lmdb, gets, tier process: void: got 1, expected 2" in out


def test_table_per_tier_has_an_engine_column(run: Run) -> None:
    more = [replace(cell, engine="other", tier=Tier.POWER) for cell in run.cells]
    same = [replace(cell, engine="third") for cell in run.cells]
    attempts = [replace(a, cell=a.cell + at * len(more)) for at in range(3) for a in run.attempts]
    several = replace(run, cells=(*run.cells, *same, *more), attempts=tuple(attempts))
    process, power = wide.tables(several, groups(several))
    assert (process.tier, power.tier) == (Tier.PROCESS, Tier.POWER)
    assert process.heads[0] == "engine" and [line.cell.engine for line in process.lines[:2]] == ["lmdb", "third"]
    assert {line.cell.engine for line in power.lines} == {"other"}


def test_a_narrow_terminal_keeps_every_column(run: Run) -> None:
    out = printed(run, width=82)
    flat = " ".join(out.split())
    assert [head for head in HEADS.split() if head.replace("_", " ") not in flat] == []
    assert max(map(len, out.split("In short")[0].splitlines())) <= 82


def test_by_phase_prints_the_tables_by_phase(shell: Shell) -> None:
    status, out, err = shell.dyno("show", shell.file, "--by-phase")
    assert status == 0, err
    for phase in ("insert", "gets", "iterate"):
        assert f"\n{phase}  tier process" in out
    assert shell.dyno("show", shell.file, "--by-phase", "--json").status == 2


def test_markdown_and_the_page_have_the_same_table(run: Run) -> None:
    (own,) = wide.tables(run, groups(run))
    markdown, page = as_markdown(run), build.build([run])
    for line in own.lines:
        cells = [cell.replace(" ", "\N{NO-BREAK SPACE}") for cell in line.cells]
        assert f"| {' | '.join(cells)} |" in markdown.replace(" | |", " |")
        assert all(f">{cell}<" in page for cell in line.cells)
    assert own.floor in page and own.floor in markdown
    assert '<details class="overview"' not in page, "one engine has no further overview"


# -- the published table ----------------------------------------------------------------------------------


def test_published_lines_stand_beside_measured_ones(run: Run) -> None:
    experiment = published.experiment("acid-batch-2013")
    assert len(experiment.lines) == 27
    out = printed(run, 220, lambda r, console: sections.render(replica.sections(experiment, r), console))
    first = next(line for line in out.splitlines() if line.startswith("zlib"))
    theirs, ours = (cells_of(half) for half in first.split("│"))
    assert theirs == ["zlib", "1", "665.24kb", "777", "1.76", "42760.74", "133.30", "50555.17"]
    assert ours[1:] and ours[3:6] == ["1,000", "10", "600"]
    assert "not measured" in next(line for line in out.splitlines() if line.startswith("snappy"))
    assert experiment.notes[0] in out


def test_published_ratios_follow_from_the_published_sizes() -> None:
    """The table was typed by hand: ratios that don't follow from the sizes are typing errors."""
    by_packer: dict[str, list[Sequence[float]]] = {}
    for line in published.experiment("acid-batch-2013").lines:
        size = float(str(line.figures["size"]).removesuffix("kb"))
        by_packer.setdefault(str(line.params["packer"]), []).append((size, float(line.figures["ratio"])))
    ((plain, _), *_) = by_packer["plain"]
    for pairs in by_packer.values():
        for size, ratio in pairs:
            assert plain / size == pytest.approx(ratio, abs=0.006)
