"""Tests Dyno as a library: objects agree with the commands' output, and `import dyno` is fast."""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from html.parser import HTMLParser
from inspect import signature
from pathlib import Path
from typing import Any

import pandas
import pytest
from madeup import a_cell, of_rates, reads, written
from shell import Shell

import dyno
from dyno.contracts.model import UsageError
from dyno.options import RunRequest

FAST, SLOW = [1000.0, 1010.0, 990.0, 1004.0], [500.0, 505.0, 495.0, 502.0]


@pytest.fixture
def both(tmp_path: Path) -> Path:
    """Run file of two engines, one of which is twice as fast."""
    return written(reads(lmdb=FAST, sqlite=SLOW), tmp_path / "both.json")


class Tags(HTMLParser):
    """Checks that every element is closed in order, and collects the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_importing_dyno_loads_no_heavy_module(shell: Shell) -> None:
    ended = shell.sh(sys.executable, "-c", "import dyno, sys; dyno.__version__; print(*sys.modules)")
    loaded = {name for name in ended.out.split() if name.startswith("dyno.")}
    assert (loaded, ended.status) == (set(), 0)
    assert {"numpy", "click", "rich", "psutil", "msgspec"} & set(ended.out.split()) == set()


def test_public_names_resolve_and_unknown_ones_raise() -> None:
    assert {"run", "load", "compare", "check", "Result", "UsageError"} <= set(dir(dyno))
    assert all(getattr(dyno, name) is not None for name in dir(dyno))
    with pytest.raises(AttributeError, match="no attribute 'measure_all'"):
        dyno.measure_all  # noqa: B018


@pytest.mark.parametrize("first", ["", "import dyno.runner.plan; ", "import dyno.cli.run; "])
def test_run_is_callable_after_any_import(shell: Shell, first: str) -> None:
    program = f"{first}import dyno\ntry: dyno.run('nosuite')\nexcept dyno.UsageError as e: print(e)"
    ended = shell.sh(sys.executable, "-c", program)
    assert "nosuite is not known" in ended.out.replace("'", ""), ended.err


def test_run_accepts_every_field_of_a_request() -> None:
    own = {"path", "overwrite", "resume", "blocks", "work_dir", "observer"}
    from dyno.library import run

    assert set(signature(run).parameters) - own == {field.name for field in fields(RunRequest)}


def test_a_result_has_the_rows_of_the_table(both: Path) -> None:
    result = dyno.load(both)
    assert (result.suite, result.path, result.complete) == ("records", both, True)
    row = result.row("lmdb", "read")
    assert row.throughput is not None and row.throughput.median == pytest.approx(1002)
    assert [found.engine for found in result] == ["lmdb", "sqlite"]
    told = result.to_dict()["cells"]
    assert [(cell["engine"], cell["throughput"]["median"]) for cell in told] == [
        (found.engine, found.throughput and found.throughput.median) for found in result.rows
    ]
    assert "8 of 8 trials" in repr(result)
    with pytest.raises(LookupError, match="0 rows of duckdb"):
        result.row("duckdb", "read")


def test_pandas_and_arrow_tables_agree(both: Path) -> None:
    result = dyno.load(both)
    frame, arrow = result.to_pandas(), result.to_arrow()
    assert list(frame.columns) == arrow.column_names
    assert frame["throughput_median"].tolist() == arrow["throughput_median"].to_pylist()
    assert frame["samples"].tolist() == [4, 4]
    assert frame["response_p99_ns"].isna().all() and frame.attrs["suite"] == "records"
    each = result.to_pandas(samples=True)
    assert len(each) == 8 and each["started"].dtype.kind == "M"
    assert each.groupby("engine")["per_second"].median().to_dict() == {"lmdb": 1002, "sqlite": 501}


def test_comparison_equals_output_of_compare_command(both: Path, shell: Shell) -> None:
    found = dyno.compare(both, baseline="sqlite")
    (row,) = found
    assert (row.engine, row.baseline, row.kind, row.blocks) == ("lmdb", "sqlite", "faster", 4)
    assert row.ratio == pytest.approx(2.0, rel=0.02)
    printed = json.loads(shell.dyno("compare", both, "--baseline", "sqlite", "--json").out)
    assert found.to_dict() == printed
    assert row.text in repr(found) and row.text == printed["comparisons"][0]["text"]
    assert found.to_pandas().loc[0, "ratio"] == row.ratio
    assert isinstance(found.to_pandas(), pandas.DataFrame)


def test_several_runs_are_compared_with_the_first(both: Path, tmp_path: Path) -> None:
    names = "slower.json", "faster.json"
    runs = [
        written(reads(lmdb=[v * by for v in FAST], sqlite=SLOW), tmp_path / name)
        for by, name in zip((0.5, 2), names, strict=True)
    ]
    several = dyno.load(both).compare(*runs)
    assert [(row.engine, row.run, row.baseline) for row in several][:2] == [
        ("lmdb", str(runs[0]), str(both)),
        ("sqlite", str(runs[0]), str(both)),
    ]
    kinds = {row.run: row.kind for row in several if row.engine == "lmdb"}
    assert kinds == {str(runs[0]): "slower", str(runs[1]): "faster"}
    assert f"lmdb in {runs[1]} against {both}: " in repr(several)
    assert several.to_dict() == dyno.compare(both, *runs).to_dict()
    assert several.to_pandas()["run"].tolist() == [row.run for row in several]
    two = dyno.compare(both, other=runs[1])
    assert [row.run for row in two] == [str(runs[1])] * 2 and "in" not in repr(two).split()


def test_check_fails_only_for_slower_or_lost_rows(both: Path, tmp_path: Path) -> None:
    slower = written(reads(lmdb=[v / 3 for v in FAST], sqlite=SLOW), tmp_path / "slower.json")
    judged = dyno.check(slower, both)
    assert not judged.passed
    assert {row.engine: row.state for row in judged if isinstance(row, dyno.Change)} == {
        "lmdb": "slower",
        "sqlite": "fine",
    }
    assert dyno.check(both, both).passed
    (lost,) = dyno.check(written(reads(lmdb=FAST, sqlite=[None] * 4), tmp_path / "gone.json"), both).lost
    assert lost.startswith("sqlite, read: ")


def test_notebook_html_is_well_formed_and_escaped(tmp_path: Path) -> None:
    evil = a_cell("lmdb", note="<b>&")
    run = written(
        of_rates((evil, {"read": FAST}), (a_cell("sqlite", note="<b>&"), {"read": SLOW}), phases=["read"]),
        tmp_path / "e",
    )
    result = dyno.load(run)
    page = Tags(result._repr_html_())
    assert page.seen.count("table") == 1 and "lmdb" in page.text and "1,002" in page.text
    compared = Tags(result.compare()._repr_html_())
    assert "at least" in compared.text and "table" in compared.seen


def test_chart_is_svg_and_saves_as_png(both: Path, tmp_path: Path) -> None:
    drawn = dyno.load(both).plot("throughput", tmp_path / "c.svg", dark=True)
    assert drawn._repr_svg_().startswith("<svg") and (tmp_path / "c.svg").read_text() == drawn.svg
    assert drawn.save(tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UsageError, match=r"\.svg or \.png"):
        drawn.save(tmp_path / "c.pdf")


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda run: dyno.load(run.with_name("none.json")), "none.json"),
        (lambda run: dyno.compare(run, baseline="duck"), "engine duck is not known"),
        (lambda run: dyno.compare(run, metric="p98"), "metric p98 is not known"),
        (lambda run: dyno.compare(run, run, baseline="lmdb"), "baseline is for engines within a run"),
        (lambda run: dyno.load(run).plot("throughputs"), "throughputs is not known"),
        (lambda run: dyno.run("records", "sqlite", tier="forever"), "tier forever is not known"),
    ],
)
def test_invalid_call_raises_one_line_usage_error(both: Path, call: Any, line: str) -> None:
    with pytest.raises(UsageError) as caught:
        call(both)
    assert line in str(caught.value).replace("'", "") and "\n" not in str(caught.value)
