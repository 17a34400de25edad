"""The run as tables for programs that do their own statistics: CSV, Parquet and, of samples, JSON.

Two tables: a row for each cell and phase, and a row for each sample. Their columns have one name and one type in
every run, whatever is unknown in it; docs/columns.md documents each, and a test holds the two together.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

from dyno.contracts.histogram import percentiles
from dyno.contracts.model import Caveat, UsageError
from dyno.contracts.sample import Sample
from dyno.host import installation
from dyno.report.export import json_stream
from dyno.report.tables.table import Row, groups
from dyno.results import Attempt, Run, damaged
from dyno.stats.doubts import machine
from dyno.stats.summary import client_cpu_ns, server_cpu_ns

SCHEMA = 1
LATENCIES = ("p50", "p90", "p95", "p99", "p999", "max")
USED = (
    *("user_ns", "system_ns", "voluntary_switches", "involuntary_switches", "major_faults"),
    *("asked_bytes", "read_bytes", "written_bytes"),
)
CPU = ("client_cpu_ns_per_item", "server_cpu_ns_per_item")
WALL = ("wall_ns", "pause_cpu_ns", "due")
TEXT, INTEGER, NUMBER, BOOLEAN, MOMENT, CODES = "text", "integer", "number", "boolean", "moment", "codes"
Columns = dict[str, str]


def _each(kind: str, *names: str) -> Columns:
    return dict.fromkeys(names, kind)


def _times(*names: str) -> Columns:
    return _each(INTEGER, *(f"{name}_{at}_ns" for name in names for at in LATENCIES))


# The parameters stand between what names a row and what was found.
NAMES: Columns = {**_each(TEXT, "suite", "engine", "phase", "tier"), "floor": BOOLEAN, "awake": BOOLEAN}
CELLS: Columns = {
    "valid": BOOLEAN,
    "why": TEXT,
    **_each(INTEGER, "samples", "operations", "items", "elapsed_ns"),
    **_each(NUMBER, "throughput_median", "throughput_low", "throughput_high"),
    "throughput_unit": TEXT,
    "metric": TEXT,
    "bytes": INTEGER,
    **_each(NUMBER, "bandwidth_median", "bandwidth_low", "bandwidth_high"),
    "reported_by": TEXT,
    **_each(INTEGER, *WALL),
    **_each(NUMBER, "offered_per_second", "served_per_second"),
    **_each(NUMBER, *CPU),
    **_times("latency", "response"),
    "temperature": TEXT,
    "bytes_on_disk": INTEGER,
    "write_amplification": NUMBER,
    "version": TEXT,
    **_each(CODES, "caveats", "doubts"),
}
SAMPLES: Columns = {
    **_each(INTEGER, "block", "attempt"),
    "started": MOMENT,
    "valid": BOOLEAN,
    "why": TEXT,
    **_each(INTEGER, "operations", "items", "errors", "elapsed_ns", "busy_ns"),
    "per_second": NUMBER,
    "unit": TEXT,
    "bytes": INTEGER,
    "bytes_per_second": NUMBER,
    "reported_by": TEXT,
    **_each(INTEGER, *WALL),
    **_each(NUMBER, *CPU),
    "bulk": BOOLEAN,
    "ended_by": TEXT,
    **_times("latency", "response", "late"),
    "temperature": TEXT,
    **_each(INTEGER, "file_bytes", "resident_bytes", "bytes_on_disk", "written_bytes", "payload_bytes"),
    **_each(INTEGER, *(f"{who}_{name}" for who in ("client", "server") for name in USED)),
    **_each(INTEGER, "device_read_bytes", "device_written_bytes"),
    "version": TEXT,
    **_each(CODES, "caveats", "doubts"),
}


@dataclass(frozen=True)
class Table:
    """Every row has a value for each column: None where it is not known."""

    name: str
    columns: Columns
    rows: Sequence[Mapping[str, Any]]


def cells(run: Run) -> Table:
    """A row for each cell and phase."""
    return _table("cells", CELLS, run, ({**_names(row), **_cell(row)} for row in _rows(run)))


def samples(run: Run) -> Table:
    """A row for each sample, those included that count for nothing: without figures, and with the reason."""
    found = (
        {**_names(row), **_sample(row, attempt, sample)}
        for row in _rows(run)
        for attempt in row.summary.attempts
        for sample in attempt.samples
        if sample.phase == row.summary.phase
    )
    try:
        return _table("samples", SAMPLES, run, found)
    except (TypeError, ValueError) as error:
        raise damaged(run.path, error) from None


def _rows(run: Run) -> list[Row]:
    return [row for group in groups(run) for row in group.rows]


def _table(name: str, columns: Columns, run: Run, rows: Iterable[Mapping[str, Any]]) -> Table:
    own, facts = _params(run), _facts(run)
    whole = {**NAMES, **own, **columns, **facts}
    kinds = {**own, **facts}
    awake = {"awake": bool(run.plan.get("awake"))}
    told = ({**row, **awake} for row in rows)
    return Table(name, whole, [{at: _as(kinds.get(at), row.get(at)) for at in whole} for row in told])


def _params(run: Run) -> Columns:
    """The type of a parameter that suits all its values: of one that is `max` here and 1000 there, text."""
    values: dict[str, list[Any]] = {}
    for cell in run.cells:
        for name, value in cell.params.items():
            values.setdefault(f"param_{name}", []).append(value)
    return {name: _kind(found) for name, found in values.items()}


def _facts(run: Run) -> Columns:
    """A column for each fact that a sample has: of words, or of numbers, which a median may leave whole or not."""
    values: dict[str, list[Any]] = {}
    for attempt in run.attempts:
        for sample in attempt.samples:
            for name, value in sample.facts.items():
                values.setdefault(f"fact_{name}", []).append(value)
    return {name: TEXT if any(isinstance(v, str) for v in found) else NUMBER for name, found in values.items()}


def _kind(values: Sequence[Any]) -> str:
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return BOOLEAN
    if kinds == {int} and all(-(2**63) <= value < 2**63 for value in values):
        return INTEGER
    return NUMBER if kinds <= {int, float} else TEXT


def _as(kind: str | None, value: Any) -> Any:
    """The value of a parameter or a fact as its column has it; of other columns, the value as it is."""
    if value is None:
        return None
    return str(value) if kind == TEXT else float(value) if kind == NUMBER else value


def _names(row: Row) -> dict[str, Any]:
    cell = row.summary.cell
    return {
        "suite": cell.suite,
        "engine": cell.asked,
        "phase": row.summary.phase,
        "tier": cell.tier_name,
        "floor": cell.floor,
        **{f"param_{name}": value for name, value in cell.params.items()},
        "doubts": [doubt.code for doubt in row.doubts],
    }


def _cell(row: Row) -> dict[str, Any]:
    summary, rate = row.summary, row.summary.throughput
    measured = {"throughput": rate, "bandwidth": summary.bandwidth}
    plain = ("bytes", "reported_by", *WALL, "offered_per_second", "served_per_second")
    return {
        "valid": summary.valid,
        "why": summary.why,
        "samples": len(summary.samples),
        "operations": summary.operations,
        "items": summary.items,
        "elapsed_ns": summary.elapsed_ns,
        **{
            f"{name}_{at}": value
            for name, found in measured.items()
            for at, value in (asdict(found).items() if found is not None else ())
        },
        "throughput_unit": None if rate is None else f"{summary.unit}/s",
        "metric": summary.about.metric,
        **{name: getattr(summary, name) for name in plain},
        **dict(zip(CPU, (summary.client_cpu_ns, summary.server_cpu_ns), strict=True)),
        **_spread("latency", summary.latency_ns),
        **_spread("response", summary.response_ns),
        "temperature": summary.temperature,
        "bytes_on_disk": summary.bytes_on_disk,
        "write_amplification": summary.write_amplification,
        "version": summary.version,
        "caveats": _codes(summary.caveats),
        **{f"fact_{name}": value for name, value in summary.facts.items()},
    }


def _sample(row: Row, attempt: Attempt, sample: Sample) -> dict[str, Any]:
    why = _why(row, attempt, sample)
    about = {
        "block": attempt.block,
        "attempt": attempt.attempt,
        "started": attempt.started,
        "valid": why is None,
        "why": why,
        "version": attempt.version,
        "caveats": _codes(attempt.caveats),
    }
    return {**about, **_figures(sample)} if why is None else about


def _why(row: Row, attempt: Attempt, sample: Sample) -> str | None:
    """Why a sample is not in the row's figures; None for one that is."""
    if sample.void is not None:
        return f"void: {sample.void}"
    if row.summary.why is not None:
        return row.summary.why
    later = any(a.block == attempt.block and a.attempt > attempt.attempt for a in row.summary.attempts)
    return f"{attempt.outcome}: a later attempt took its place" if later else None


def _figures(sample: Sample) -> dict[str, Any]:
    plain = ("operations", "items", "errors", "elapsed_ns", "busy_ns", "per_second", "unit", "bulk", "ended_by")
    moved = ("bytes", "bytes_per_second", "reported_by", *WALL)
    sizes = ("temperature", "bytes_on_disk", "written_bytes", "payload_bytes")
    used = {"client": sample.client, "server": sample.server, "device": sample.device}
    return {
        **{name: getattr(sample, name) for name in (*plain, *moved, *sizes)},
        **dict(zip(CPU, (client_cpu_ns(sample), server_cpu_ns(sample)), strict=True)),
        **_spread("latency", percentiles([sample.histogram])),
        **_spread("response", percentiles([sample.response])),
        **_spread("late", percentiles([sample.late])),
        **(sample.residency or {}),
        **{f"{who}_{name}": value for who, found in used.items() for name, value in (found or {}).items()},
        **{f"fact_{name}": value for name, value in sample.facts.items()},
    }


def _spread(name: str, found: Mapping[str, int | None]) -> dict[str, int | None]:
    return {f"{name}_{at}_ns": found[at] for at in LATENCIES}


def _codes(caveats: Sequence[Caveat]) -> list[str]:
    return [caveat.code for caveat in caveats]


def about(run: Run) -> dict[str, Any]:
    """What travels with a table: where it comes from, and what speaks against all of it."""
    return {
        "schema": SCHEMA,
        "suite": run.plan["suite"],
        "created": run.header.get("created"),
        "dyno": run.header.get("dyno"),
        "machine": run.header.get("host"),
        "machine_doubts": [asdict(finding) for finding in machine(run)],
        "plan": dict(run.plan),
    }


def as_json(table: Table, run: Run) -> Iterator[str]:
    """A piece at a time."""
    return json_stream.pieces({**about(run), table.name: iter(table.rows)})


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What makes a spreadsheet take a text for a formula (OWASP, "CSV Injection")."""


def _inert(value: Any) -> Any:
    """A text that a spreadsheet would evaluate, with an apostrophe before it; a number stays one."""
    live = isinstance(value, str) and value.startswith(_FORMULA) and not _NUMBER.fullmatch(value)
    return f"'{value}" if live else value


def as_csv(table: Table) -> str:
    """Codes joined by a semicolon; unknown is empty. Text that a spreadsheet would evaluate has an apostrophe before
    it."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(_inert, table.columns))
    for row in table.rows:
        # Each code, as some spreadsheets part cells at semicolons.
        cells = (
            ";".join(map(_inert, row[name])) if kind == CODES else _inert(row[name])
            for name, kind in table.columns.items()
        )
        writer.writerow(cells)
    return out.getvalue()


def as_parquet(table: Table, run: Run) -> bytes:
    """Raises UsageError without pyarrow."""
    found = as_arrow(table, run)
    from pyarrow import parquet

    out = io.BytesIO()
    parquet.write_table(found, out, compression="zstd")
    return out.getvalue()


def as_arrow(table: Table, run: Run) -> Any:
    """A `pyarrow.Table`, with what `about` says as its metadata, by names that begin with `dyno.`. Raises UsageError
    without pyarrow."""
    try:
        import pyarrow
    except ImportError:
        raise UsageError(f"Parquet needs pyarrow, which is not installed: {installation.extra('parquet')}") from None
    types = {
        TEXT: pyarrow.string(),
        INTEGER: pyarrow.int64(),
        NUMBER: pyarrow.float64(),
        BOOLEAN: pyarrow.bool_(),
        MOMENT: pyarrow.timestamp("us"),
        CODES: pyarrow.list_(pyarrow.string()),
    }
    said = {
        f"dyno.{'version' if name == 'dyno' else name}": value if isinstance(value, str) else json.dumps(value)
        for name, value in about(run).items()
        if value is not None
    }
    schema = pyarrow.schema([(name, types[kind]) for name, kind in table.columns.items()], said)
    moments = [name for name, kind in table.columns.items() if kind == MOMENT]
    try:
        rows = [{**row, **{name: _moment(row[name]) for name in moments}} for row in table.rows]
        return pyarrow.Table.from_pylist(rows, schema)
    # What is of another type than the run file's format says.
    except (TypeError, ValueError, OverflowError) as error:
        raise damaged(run.path, error) from None


def as_pandas(table: Table, run: Run) -> Any:
    """A `pandas.DataFrame`, what is not known as NA, and with what `about` says as its `attrs`. Raises UsageError
    without pandas."""
    try:
        import pandas
    except ImportError:
        raise UsageError(
            f"A DataFrame needs pandas, which is not installed: {installation.extra('parquet')}"
        ) from None
    types = {INTEGER: "Int64", NUMBER: "float64", BOOLEAN: "boolean", TEXT: "object", CODES: "object"}
    columns = {}
    for name, kind in table.columns.items():
        values = [row[name] for row in table.rows]
        if kind == MOMENT:
            columns[name] = pandas.Series([_moment(value) for value in values], dtype="datetime64[us]")
        else:
            columns[name] = pandas.Series(values, dtype=types[kind])
    frame = pandas.DataFrame(columns)
    frame.attrs = about(run)
    return frame


def _moment(text: str) -> datetime:
    """In UTC and without a zone, which readers of Parquet want further libraries for."""
    return datetime.fromisoformat(text).astimezone(timezone.utc).replace(tzinfo=None)
