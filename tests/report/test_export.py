"""Tests that other programs can read the exports (Parquet, CSV, JSON, Markdown), and that these agree with
`dyno show`. Columns keep their names and types in every run, an invalid row has no figures, and a file is written
completely or not at all.
"""

from __future__ import annotations

import base64
import csv
import dataclasses
import io
import json
import re
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import pyarrow
import pytest
from hdrh.histogram import HdrHistogram
from pyarrow import parquet
from shell import TESTS, Shell, is_one_line

from dyno import fields, results
from dyno.contracts.decoded_types import Value
from dyno.contracts.model import UsageError
from dyno.fields import FIELDS, LATENCIES, USED, Sample
from dyno.host import installation
from dyno.host.usage import Usage
from dyno.report import export
from dyno.report.tables import sections
from dyno.report.tables.table import groups
from dyno.report.tables.text import as_markdown
from dyno.results import Attempt, Run

pytestmark = pytest.mark.usefixtures("processes")

RUN = TESTS / "data" / "run-schema-3.json"
TYPES = {
    fields.TEXT: pyarrow.string(),
    fields.INTEGER: pyarrow.int64(),
    fields.NUMBER: pyarrow.float64(),
    fields.BOOLEAN: pyarrow.bool_(),
    export.MOMENT: pyarrow.timestamp("us"),
    export.CODES: pyarrow.list_(pyarrow.string()),
}
TABLES = {"cells": export.cells, "samples": export.samples}


@pytest.fixture
def run() -> Run:
    return results.load(RUN)


def written(run: Run, name: str) -> pyarrow.Table:
    return parquet.read_table(io.BytesIO(export.as_parquet(TABLES[name](run), run)))


def read(run: Run, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = written(run, name).to_pylist()
    return found


def with_param(run: Run, name: str, *values: Value) -> Run:
    """Returns the run with these values of a parameter, assigned to its cells in turn."""
    cells = [
        dataclasses.replace(c, params={**c.params, name: values[at % len(values)]}) for at, c in enumerate(run.cells)
    ]
    return dataclasses.replace(run, cells=tuple(cells))


def at_first(run: Run, engine: str, phase: str, **changed: Any) -> Run:
    """Returns the run with one sample changed: that of the engine's first block."""
    of = next(at for at, cell in enumerate(run.cells) if cell.asked == engine)

    def sample(attempt: Attempt, found: Sample) -> Sample:
        ours = (attempt.cell, attempt.block, found.phase) == (of, 0, phase)
        return dataclasses.replace(found, **changed) if ours else found

    attempts = [dataclasses.replace(a, samples=tuple(sample(a, s) for s in a.samples)) for a in run.attempts]
    return dataclasses.replace(run, attempts=tuple(attempts))


# -- columns --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_columns_keep_names_and_types_without_values(run: Run, name: str) -> None:
    """A run without servers has no values in their columns and many others."""
    schema = written(run, name).schema
    params = {f"param_{param}" for param in run.cells[0].params}
    known = {**export.NAMES, **(export.CELLS if name == "cells" else export.SAMPLES)}
    assert set(schema.names) == params | set(known)
    assert {at: schema.field(at).type for at in known} == {at: TYPES[kind] for at, kind in known.items()}


@pytest.mark.parametrize("name", TABLES)
def test_unmeasured_run_has_all_columns(run: Run, name: str) -> None:
    nothing = dataclasses.replace(run, attempts=())
    assert written(nothing, name).schema.equals(written(run, name).schema)
    head = next(csv.reader(io.StringIO(export.as_csv(TABLES[name](nothing)))))
    assert head == written(run, name).schema.names


@pytest.mark.parametrize(
    ("values", "kind", "shown"),
    [
        ((1000, 2000), pyarrow.int64(), {1000, 2000}),
        ((1000, 2.5), pyarrow.float64(), {1000.0, 2.5}),
        ((True, False), pyarrow.bool_(), {True, False}),
        ((1000, "max"), pyarrow.string(), {"1000", "max"}),
        ((1000, True), pyarrow.string(), {"1000", "True"}),
        ((2**63, 1), pyarrow.float64(), {2.0**63, 1.0}),
    ],
    ids=("integers", "numbers", "booleans", "a word", "a boolean", "large"),
)
def test_parameter_column_type_fits_all_values(
    run: Run, values: tuple[Value, ...], kind: pyarrow.DataType, shown: set[object]
) -> None:
    for name in TABLES:
        found = written(with_param(run, "rate", *values), name)
        assert found.schema.field("param_rate").type == kind
        assert set(found["param_rate"].to_pylist()) == shown


def test_every_usage_counter_has_a_column() -> None:
    assert [f.name for f in dataclasses.fields(Usage)] == list(USED)


def documented(heading: str) -> dict[str, str]:
    """Returns the columns of a table and their types, as documented in docs/reference/columns.md."""
    page = (TESTS.parent / "docs" / "reference" / "columns.md").read_text()
    section = re.split(r"^## ", page.partition(f"## {heading}\n")[2], flags=re.MULTILINE)[0]
    lines = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")]
    return {name: kind.strip() for names, kind in lines for name in re.findall(r"`([^`]+)`", names)}


def measured(table: str) -> dict[str, str]:
    """Returns the columns of a table that docs/reference/measured-quantities.md documents, and their types."""
    return {column: kind for field in FIELDS for column, kind in field.columns_of(table).items()}


def test_every_column_is_documented_with_its_type() -> None:
    assert documented("In both tables") == {**export.NAMES, "param_*": "see below"}
    assert {**documented("A row for each cell and phase"), **measured(fields.CELLS)} == export.CELLS
    assert {**documented("A row for each sample"), **measured(fields.SAMPLES)} == export.SAMPLES


def test_metadata_is_documented(run: Run) -> None:
    said = documented("What goes with the rows")
    assert {name.strip("`") for name in said.values()} == set(export.describe_run(run))
    ours = {name.decode() for name in written(run, "cells").schema.metadata if name.startswith(b"dyno.")}
    assert set(said) == ours


# -- rows -----------------------------------------------------------------------------------------------------


def test_cell_rows_equal_those_of_json(run: Run) -> None:
    rows = read(run, "cells")
    cells = json.loads(export.as_json(run))["cells"]
    assert len(rows) == len(cells) == len(run.cells) * len(run.plan.phases)
    for row, cell in zip(rows, cells, strict=True):
        same = (*("suite", "engine", "phase", "tier", "floor", "valid", "why", "samples", "operations", "items"),)
        more = ("elapsed_ns", "temperature", "bytes_on_disk", "write_amplification", "version")
        assert {name: row[name] for name in (*same, *more)} == {name: cell[name] for name in (*same, *more)}
        assert {name: row[f"throughput_{name}"] for name in ("median", "low", "high", "unit")} == cell["throughput"]
        for kind in ("latency", "response"):
            assert {at: row[f"{kind}_{at}_ns"] for at in LATENCIES} == cell[f"{kind}_ns"]
        assert {who: row[f"{who}_cpu_ns_per_item"] for who in ("client", "server")} == cell["cpu_ns_per_item"]
        assert {name: row[f"param_{name}"] for name in cell["params"]} == cell["params"]
        for remarks in ("caveats", "doubts"):
            assert row[remarks] == [remark["code"] for remark in cell[remarks]]


def test_sample_rows_equal_the_run_file(run: Run) -> None:
    rows = {(r["engine"], r["tier"], r["phase"], r["block"]): r for r in read(run, "samples")}
    assert len(rows) == sum(len(attempt.samples) for attempt in run.attempts)
    for attempt in run.attempts:
        cell = run.cells[attempt.cell]
        for sample in attempt.samples:
            row = rows[cell.asked, cell.tier_name, sample.phase, attempt.block]
            plain = (
                "operations",
                "items",
                "errors",
                "elapsed_ns",
                "busy_ns",
                "per_second",
                "unit",
                "bulk",
                "ended_by",
            )
            sizes = ("temperature", "bytes_on_disk", "written_bytes", "payload_bytes")
            assert {name: row[name] for name in (*plain, *sizes)} == {n: getattr(sample, n) for n in (*plain, *sizes)}
            assert (row["valid"], row["why"], row["attempt"]) == (True, None, attempt.attempt)
            assert row["started"] == datetime.fromisoformat(attempt.started).replace(tzinfo=None)
            assert [row[f"client_{name}"] for name in USED] == [(sample.client or {}).get(n) for n in USED]
            assert row["server_user_ns"] is row["server_read_bytes"] is None
            assert row["device_read_bytes"] == (sample.device or {}).get("read_bytes")
            assert row["resident_bytes"] == (sample.residency and sample.residency["resident_bytes"])
            assert row["caveats"] == [caveat.code for caveat in attempt.caveats]
            if sample.histogram is None:
                assert [row[f"latency_{at}_ns"] for at in LATENCIES] == [None] * 6
            else:
                decoded = HdrHistogram.decode(base64.b64encode(sample.histogram))
                at = decoded.get_percentile_to_value_dict([50.0, 99.0, 99.9])
                count = decoded.get_total_count()
                needed = (1, 500, 5_000)
                known = [ns if count >= least else None for ns, least in zip(at.values(), needed, strict=True)]
                assert [row[f"latency_{n}_ns"] for n in ("p50", "p99", "p999")] == known
                assert row["latency_max_ns"] == decoded.get_max_value()


def test_cell_figures_follow_from_their_samples(run: Run) -> None:
    samples = read(run, "samples")
    for row in read(run, "cells"):
        ours = [s for s in samples if all(s[n] == row[n] for n in ("engine", "tier", "phase"))]
        assert len(ours) == row["samples"] == run.plan.samples
        assert median(s["per_second"] for s in ours) == pytest.approx(row["throughput_median"])
        assert sum(s["operations"] for s in ours) == row["operations"]
        used = [s["client_cpu_ns_per_item"] for s in ours]
        assert (median(used) if None not in used else None) == row["client_cpu_ns_per_item"]
        assert all(s["doubts"] == row["doubts"] for s in ours)


def test_server_usage_and_lateness_have_columns(run: Run) -> None:
    histogram = next(s.histogram for a in run.attempts for s in a.samples if s.histogram)
    used = {name: at for at, name in enumerate(USED)}
    found = at_first(run, "sqlite", "mixed", server=used, response=histogram, late=histogram)
    (row,) = (r for r in read(found, "samples") if r["server_read_bytes"] is not None)
    assert [row[f"server_{name}"] for name in USED] == list(range(len(USED)))
    assert row["late_p50_ns"] == row["response_p50_ns"] is not None


FIGURES = {at for at, kind in export.SAMPLES.items() if kind in (fields.INTEGER, fields.NUMBER)} - {
    "block",
    "attempt",
}


def test_invalid_row_has_reason_but_no_figures(run: Run) -> None:
    """One wrong answer voids the samples of all blocks."""
    spoilt = at_first(run, "sqlite", "mixed", void="record 3: got None")
    for name, count in (("cells", 1), ("samples", 3)):
        bad = [row for row in read(spoilt, name) if not row["valid"]]
        assert [(row["engine"], row["phase"], row["why"]) for row in bad] == [
            ("sqlite", "mixed", "void: record 3: got None")
        ] * count
        for row in bad:
            assert [at for at in FIGURES & set(row) if row[at] is not None] == []
            assert row.get("samples", 0) == 0
    assert all(row["per_second"] for row in read(spoilt, "samples") if row["valid"])


def test_samples_of_retried_trials_are_invalid(run: Run) -> None:
    first = run.attempts[0]
    again = dataclasses.replace(
        run,
        attempts=(
            dataclasses.replace(first, outcome="crash"),
            dataclasses.replace(first, attempt=1),
            *run.attempts[1:],
        ),
    )
    rows = read(again, "samples")
    assert len(rows) == len(read(run, "samples")) + len(first.samples)
    bad = [row for row in rows if not row["valid"]]
    assert {(row["block"], row["attempt"], row["why"]) for row in bad} == {
        (first.block, 0, "crash: a later attempt took its place")
    }
    assert len(bad) == len(first.samples) and all(row["operations"] is None for row in bad)


@pytest.mark.parametrize(
    "changed",
    [{"histogram": "junk"}, {"device": {"read_bytes": "much"}}, {"device": {"read_bytes": 2**70}}, {"ended_by": 5}],
    ids=str,
)
def test_value_unfit_for_its_column_is_damage(run: Run, changed: Mapping[str, Any]) -> None:
    found = at_first(run, "lmdb", "mixed", **changed)
    later = dataclasses.replace(
        run, attempts=(dataclasses.replace(run.attempts[0], started="later"), *run.attempts[1:])
    )
    for run in (found, later):
        with pytest.raises(UsageError, match=r"is damaged: \w+") as caught:
            read(run, "samples")
        assert "\n" not in str(caught.value)


# -- by other programs ----------------------------------------------------------------------------------------


def test_metadata_identifies_the_run(run: Run) -> None:
    for name in TABLES:
        said = {key.decode(): value.decode() for key, value in written(run, name).schema.metadata.items()}
        assert (said["dyno.suite"], said["dyno.created"]) == ("records", run.header.created)
        assert (said["dyno.schema"], said["dyno.version"]) == ("1", run.header.dyno)
        assert json.loads(said["dyno.machine"]) == run.recorded["host"]
        assert json.loads(said["dyno.plan"]) == run.recorded["plan"]
        assert json.loads(said["dyno.machine_doubts"]) == export.as_data(run)["machine_doubts"]


def test_duckdb_reads_both_tables(run: Run, tmp_path: Path) -> None:
    for name in TABLES:
        (tmp_path / f"{name}.parquet").write_bytes(export.as_parquet(TABLES[name](run), run))
    with duckdb.connect() as base:
        cells, samples = f"'{tmp_path / 'cells.parquet'}'", f"'{tmp_path / 'samples.parquet'}'"
        named = "engine, tier, phase"
        found = base.execute(f"SELECT {named}, median(per_second) FROM {samples} WHERE valid GROUP BY ALL").fetchall()
        wanted = base.execute(f"SELECT {named}, throughput_median FROM {cells}").fetchall()
        assert {tuple(row[:3]): row[3] for row in found} == pytest.approx({tuple(row[:3]): row[3] for row in wanted})
        assert len(base.execute(f"SELECT * FROM {samples}").fetchall()) == len(export.samples(run).rows)
        few = base.execute(f"SELECT engine FROM {cells} WHERE list_contains(doubts, 'few')").fetchall()
        assert len(few) == (len(wanted) if run.plan.samples < 3 else 0)


def test_csv_and_json_samples_equal_parquet_rows(run: Run) -> None:
    spoilt = with_param(at_first(run, "lmdb", "mixed", void='got "a|b"\nexpected c,d'), "rate", 1000.0, "max")
    table = export.samples(spoilt)
    rows = [
        {**row, "started": row["started"].isoformat(timespec="milliseconds") + "+00:00"}
        for row in read(spoilt, "samples")
    ]
    assert json.loads(export.table_json(table, spoilt))["samples"] == rows
    text = list(csv.DictReader(io.StringIO(export.as_csv(table)), strict=True))
    assert text == [{name: plain(value) for name, value in row.items()} for row in rows]


def plain(value: object) -> str:
    return "" if value is None else ";".join(value) if isinstance(value, list) else str(value)


def test_json_of_samples_identifies_the_run(run: Run) -> None:
    found = json.loads(export.table_json(export.samples(run), run))
    assert {name: found[name] for name in export.describe_run(run)} == json.loads(
        json.dumps(export.describe_run(run))
    )
    assert found["machine"] == run.recorded["host"]


# -- Markdown -------------------------------------------------------------------------------------------------


def test_markdown_begins_with_plan_and_machine(run: Run) -> None:
    title, _, *facts = as_markdown(run).splitlines()[:5]
    assert title == "**records**: sqlite, lmdb. 3 of 3 trials of each row; median and 95 % interval over trials."
    asked, machine, measured = facts
    assert asked.startswith("- plan: `records=100 value_size=150 ") and asked.endswith("seed 1")
    assert machine.startswith("- machine: AMD EPYC, 2 cores, ")
    assert measured.startswith("- measured: 2026-11-25, dyno 0.1.0, the native loop (")


def tables(shown: str) -> list[list[list[str]]]:
    found = re.findall(r"(?:^\|.*\n)+", shown, re.MULTILINE)
    return [[[c.strip(" ") for c in line.split("|")[1:-1]] for line in table.splitlines()] for table in found]


def test_markdown_figures_are_right_aligned_with_unbroken_units(run: Run) -> None:
    for head, rule, *lines in tables(as_markdown(with_param(run, "records", 200, 300))):
        sides = dict(zip(head, rule, strict=True))
        assert {name for name, side in sides.items() if side == ":---"} == {"engine", "remarks"}
        assert {side for name, side in sides.items() if name not in ("engine", "remarks")} == {"---:"}
        assert "records" in head
        for line in lines:
            assert not any(" " in cell for cell, side in zip(line, rule, strict=True) if side == "---:")
    assert tables(as_markdown(with_param(run, "txn", 5, "all")))[0][1][:3] == [":---", ":---", "---:"]


def test_markdown_omits_empty_columns_except_the_interval(run: Run) -> None:
    for head, _, *lines in tables(as_markdown(run)):
        columns = dict(zip(head, zip(*lines, strict=True), strict=True))
        assert "95 %" in columns
        assert [name for name, cells in columns.items() if set(cells) == {"–"} and name != "95 %"] == []
    shown = {group.phase: table[0] for group, table in zip(groups(run), tables(as_markdown(run)), strict=True)}
    assert "p50" in shown["rand-key"] and "p50" not in shown["insert-blind-indices"], "a bulk phase"


def test_markdown_has_reasons_and_doubts_in_full(run: Run) -> None:
    spoilt = at_first(run, "lmdb", "mixed", void="got <object at 0>,\nnot *this* of __main__ and value_size")
    shown = as_markdown(spoilt)
    why = r"void: got \<object at 0>, not \*this\* of \__main_\_ and value_size"
    assert f"\n- no number: lmdb, mixed, tier process: {why}\n" in shown
    assert "\n- tier process: survives SIGKILL of the engine's process\n" in shown
    for doubt in json.loads(export.as_json(run))["machine_doubts"]:
        assert f"\n- this machine: {doubt['text']}\n" in shown


def test_markdown_of_incomplete_run_says_so(run: Run) -> None:
    assert "Not complete" not in as_markdown(run)
    cut = as_markdown(dataclasses.replace(run, attempts=run.attempts[:-1]))
    assert f"**Not complete**: {len(run.attempts) - 1} of {len(run.attempts)} trials have ended" in cut


@pytest.mark.parametrize("text", ["a_b", "1.5 µs", "sqlite:journal_mode=wal"])
def test_markdown_leaves_plain_text_unescaped(text: str) -> None:
    assert sections.plain(text) == text


# -- the command ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "form"),
    [
        (("-o", "x.json"), ("--json",)),
        (("-o", "x.CSV"), ("--csv",)),
        (("-o", "x.md"), ("--markdown",)),
        (("--csv", "-o", "x"), ("--csv",)),
        (("--json", "-o", "x.csv"), ("--json",)),
        (("--samples", "-o", "x.csv"), ("--csv", "--samples")),
        (("--samples", "-o", "x.json"), ("--json", "--samples")),
    ],
    ids=" ".join,
)
def test_output_file_equals_printed_output(shell: Shell, words: tuple[str, ...], form: tuple[str, ...]) -> None:
    ended = shell.dyno("show", RUN, *words)
    assert ended == (0, "", f"Written to {words[-1]}\n")
    printed = shell.dyno("show", RUN, *form)
    assert (printed.status, printed.err) == (0, "")
    assert (shell.home / words[-1]).read_text() == printed.out
    assert [path.name for path in shell.home.iterdir()] == [words[-1]], "nothing is left beside it"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("-o", "x.parquet"), "cells"),
        (("--parquet", "-o", "x"), "cells"),
        (("--samples", "-o", "x.parquet"), "samples"),
    ],
    ids=str,
)
def test_parquet_is_written_to_a_file(shell: Shell, run: Run, words: tuple[str, ...], name: str) -> None:
    assert shell.dyno("show", RUN, *words) == (0, "", f"Written to {words[-1]}\n")
    assert parquet.read_table(shell.home / words[-1]).equals(written(run, name))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--parquet",), "--parquet needs -o FILE: it is not for a terminal or a pipe"),
        (("--csv", "--parquet", "-o", "x"), "--json, --csv, --markdown and --parquet exclude each other"),
        (("--samples",), "--samples needs --json, --csv or --parquet"),
        (("--samples", "--markdown"), "--samples needs --json, --csv or --parquet"),
        (("-o", "x.html"), "-o x.html: expected a name in .json, .csv, .md or .parquet, or a flag for the format"),
        (("-o", "no/x.csv"), "can't write no/x.csv: No such file or directory"),
        (("--csv", "-o", "."), "can't write .: it is a directory"),
    ],
    ids=str,
)
def test_invalid_output_is_a_one_line_error(shell: Shell, words: tuple[str, ...], said: str) -> None:
    assert shell.dyno("show", RUN, *words) == (2, "", f"dyno: {said}\n")
    assert list(shell.home.iterdir()) == []


def test_show_never_overwrites_a_run_file(shell: Shell) -> None:
    shell.file.write_bytes(RUN.read_bytes())
    ended = shell.dyno("show", RUN, "-o", shell.file)
    assert ended.status == 2 and "that is a run file" in ended.err and is_one_line(ended.err)
    assert shell.file.read_bytes() == RUN.read_bytes()
    header, *trials = RUN.read_text().splitlines(keepends=True)
    documents = json.loads(header)
    spaced = (
        json.dumps(documents) + "\n" + "".join(trials),
        "  \t" + header,
        json.dumps({"schema": documents.pop("schema"), **documents}) + "\n",
        json.dumps(json.loads(header), indent=2) + "\n",
    )
    for text in spaced:
        shell.file.write_text(text)
        ended = shell.dyno("show", RUN, "--json", "-o", shell.file)
        assert ended.status == 2 and "that is a run file" in ended.err
        assert shell.file.read_text() == text


def test_output_file_is_replaced_atomically_through_links(shell: Shell) -> None:
    """A process that has opened the old file can still read it, and a link still leads to the file."""
    old, link = shell.home / "old.csv", shell.home / "link.csv"
    old.write_text("old")
    link.symlink_to("old.csv")
    with old.open() as file:
        assert shell.dyno("show", RUN, "-o", link).status == 0
        assert file.read() == "old"
    assert link.is_symlink() and old.read_text() == shell.dyno("show", RUN, "--csv").out


def test_a_pipe_is_written_to_and_not_replaced(shell: Shell) -> None:
    status, out, _ = shell.sh("sh", "-c", f"{sys.executable} -m dyno show {RUN} --csv -o /dev/stdout | cat")
    assert (status, out) == (0, shell.dyno("show", RUN, "--csv").out)


def test_missing_pyarrow_names_its_install_command(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "pyarrow.py").write_text("raise ImportError")
    shell.plugins = [tmp_path / "gone"]
    ended = shell.dyno("show", RUN, "-o", "x.parquet")
    told = f"dyno: Parquet needs pyarrow, which is not installed: {installation.extra_command('parquet')}\n"
    assert ended == (2, "", told)
    assert not (shell.home / "x.parquet").exists()
    assert shell.dyno("show", RUN, "--csv").status == 0
