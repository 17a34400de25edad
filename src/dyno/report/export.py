"""A run for other programs: the stable JSON of `dyno show --json`, and tables as CSV, Parquet and, for samples, JSON.

There are two tables: one with a row for each cell and phase, and one with a row for each sample. A column has the
same name and type in every run. Keys and columns are documented in docs/reference/show-json.md,
docs/reference/columns.md and docs/reference/measured-quantities.md, which a test compares with this module.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, to_builtins

from dyno import fields
from dyno.contracts.cell import Cell
from dyno.contracts.histogram import percentiles
from dyno.contracts.model import Caveat, UsageError
from dyno.contracts.value_types import JsonObject
from dyno.fields import BOOLEAN, FIELDS, HISTOGRAMS, INTEGER, NUMBER, TEXT, Sample
from dyno.host import installation
from dyno.report.show_json import CPU, AbsentPhase, CapacityFound, CellRow, CostOfRow, Rate, Show
from dyno.report.tables.table import Row, groups
from dyno.results import Attempt, Run, damaged_file_error
from dyno.stats.account import PARTS, TOTAL, make_account
from dyno.stats.costs import Cost, Prices, costs
from dyno.stats.doubts import machine
from dyno.stats.estimate import Estimate
from dyno.stats.searched import Searched
from dyno.stats.summary import absences, client_cpu_ns, group_values, server_cpu_ns

if TYPE_CHECKING:
    import pandas
    import pyarrow

SCHEMA = 1
CPU_COLUMNS = ("client_cpu_ns_per_item", "server_cpu_ns_per_item")
MOMENT, CODES = "moment", "codes"
Columns = dict[str, str]
ORDER = (
    *("operations", "items", "errors", "elapsed_ns", "busy_ns", "per_second", "unit", "bytes", "bytes_per_second"),
    *("reported_by", "wall_ns", "pause_cpu_ns", "due", "offered", "cpu", "bulk", "ended_by", "histogram", "response"),
    *("late", "temperature", "residency", "bytes_on_disk", "written_bytes", "payload_bytes", "write_amplification"),
    *("client", "server", "device", "client_peak_bytes", "server_peak_bytes"),
)
"""Order of the measured and computed quantities in both tables. Quantities that are not listed come last."""
# Columns of quantities that are computed from measured ones.
COMPUTED_OF_CELLS: Mapping[str, Columns] = {
    "per_second": dict.fromkeys(("throughput_median", "throughput_low", "throughput_high"), NUMBER)
    | dict.fromkeys(("throughput_unit", "metric"), TEXT),
    "bytes_per_second": dict.fromkeys(("bandwidth_median", "bandwidth_low", "bandwidth_high"), NUMBER),
    "offered": dict.fromkeys(("offered_per_second", "served_per_second"), NUMBER),
    "cpu": dict.fromkeys(CPU_COLUMNS, NUMBER),
    "write_amplification": {"write_amplification": NUMBER},
    "account": {f"account_{part}_ns": NUMBER for part in (TOTAL, *PARTS)},
}
COMPUTED_OF_SAMPLES: Mapping[str, Columns] = {
    "per_second": {"per_second": NUMBER},
    "bytes_per_second": {"bytes_per_second": NUMBER},
    "cpu": dict.fromkeys(CPU_COLUMNS, NUMBER),
}


def _columns(table: str, computed: Mapping[str, Columns]) -> Columns:
    """Returns the columns of the table's measured and computed quantities, in their order."""
    known = {**{each.name: each.columns_of(table) for each in FIELDS}, **computed}
    return {column: kind for name in dict.fromkeys((*ORDER, *known)) for column, kind in known.get(name, {}).items()}


# The columns of the parameters are between NAMES and the figures.
NAMES: Columns = {**dict.fromkeys(("suite", "engine", "phase", "tier"), TEXT), "floor": BOOLEAN, "awake": BOOLEAN}
REMARKS: Columns = {"version": TEXT, "caveats": CODES, "doubts": CODES}
CELLS: Columns = {"valid": BOOLEAN, "why": TEXT, "samples": INTEGER}
CELLS |= _columns(fields.CELLS, COMPUTED_OF_CELLS) | REMARKS
SAMPLES: Columns = {"block": INTEGER, "attempt": INTEGER, "started": MOMENT, "valid": BOOLEAN, "why": TEXT}
SAMPLES |= _columns(fields.SAMPLES, COMPUTED_OF_SAMPLES) | REMARKS


@dataclass(frozen=True)
class Table:
    """A table in which every row has a value for each column; unknown values are None."""

    name: str
    columns: Columns
    rows: Sequence[Mapping[str, Any]]


def cells(run: Run) -> Table:
    """Returns a row for each cell and phase."""
    return _table("cells", CELLS, run, ({**_names(row), **_cell_row(row, run)} for row in _rows(run)))


def samples(run: Run) -> Table:
    """Returns a row for each sample."""
    rows = (
        {**_names(row), **_sample(row, attempt, sample)}
        for row in _rows(run)
        for attempt in row.summary.attempts
        for sample in attempt.samples
        if sample.phase == row.summary.phase
    )
    try:
        return _table("samples", SAMPLES, run, rows)
    except (TypeError, ValueError) as error:
        raise damaged_file_error(run.path, error) from None


def _rows(run: Run) -> list[Row]:
    return [row for group in groups(run) for row in group.rows]


def _table(name: str, columns: Columns, run: Run, rows: Iterable[Mapping[str, object]]) -> Table:
    """Returns a table with columns of the parameters and of the samples' facts. Their types suit all values: a column
    is text for 'max' and 1000. Columns of numeric facts are of floats, because medians may have fractions."""
    values = group_values((f"param_{name}", value) for cell in run.cells for name, value in cell.params.items())
    params = {param: _kind(of) for param, of in values.items()}
    items = (item for attempt in run.attempts for sample in attempt.samples for item in sample.facts.items())
    is_text = group_values((f"fact_{fact}", isinstance(figure, str)) for fact, figure in items)
    facts = {fact: TEXT if any(texts) else NUMBER for fact, texts in is_text.items()}
    every, converted = {**NAMES, **params, **columns, **facts}, {**params, **facts}
    convert: Mapping[str | None, Callable[[Any], object]] = {TEXT: str, NUMBER: float}
    table = []
    for row in rows:
        whole = {**row, "awake": run.plan.awake}
        for at, kind in converted.items():
            if kind in convert and whole.get(at) is not None:
                whole[at] = convert[kind](whole[at])
        table.append({at: whole.get(at) for at in every})
    return Table(name, every, table)


def _kind(values: Sequence[Any]) -> str:
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return BOOLEAN
    if kinds == {int} and all(-(2**63) <= value < 2**63 for value in values):
        return INTEGER
    if kinds <= {int, float}:
        return NUMBER
    return TEXT


def _names(row: Row) -> dict[str, object]:
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


def _cell_row(row: Row, run: Run) -> dict[str, object]:
    summary, rate = row.summary, row.summary.throughput
    estimates = {"throughput": rate, "bandwidth": summary.bandwidth}
    return {
        "valid": summary.valid,
        "why": summary.why,
        "samples": len(summary.samples),
        **_figures(fields.CELLS, {each.name: getattr(summary, each.key, None) for each in FIELDS}),
        **{
            f"{name}_{end}": value
            for name, estimate in estimates.items()
            for end, value in (asdict(estimate).items() if estimate is not None else ())
        },
        "throughput_unit": None if rate is None else f"{summary.unit}/s",
        "metric": summary.about.metric,
        "offered_per_second": summary.offered_per_second,
        "served_per_second": summary.served_per_second,
        **dict(zip(CPU_COLUMNS, (summary.client_cpu_ns, summary.server_cpu_ns), strict=True)),
        "write_amplification": summary.write_amplification,
        **{f"account_{part}_ns": ns for part, ns in _account_ns(row, run).items()},
        "version": summary.version,
        "caveats": [caveat.code for caveat in summary.caveats],
        **{f"fact_{name}": value for name, value in summary.facts.items()},
    }


def _sample(row: Row, attempt: Attempt, sample: Sample) -> dict[str, object]:
    """Returns the values of a sample. If it is not in the row's figures, it has the reason instead of figures."""
    if sample.void is None:
        why = row.summary.why
    else:
        why = f"void: {sample.void}"
    if why is None and any(a.block == attempt.block and a.attempt > attempt.attempt for a in row.summary.attempts):
        why = f"{attempt.outcome}: a later attempt took its place"
    about = {
        "block": attempt.block,
        "attempt": attempt.attempt,
        "started": attempt.started,
        "valid": why is None,
        "why": why,
        "version": attempt.version,
        "caveats": [caveat.code for caveat in attempt.caveats],
    }
    if why is not None:
        return about
    values = {each.name: getattr(sample, each.name) for each in FIELDS}
    values |= {name: percentiles([values[name]]) for name in HISTOGRAMS if isinstance(values[name], bytes)}
    return {
        **about,
        **_figures(fields.SAMPLES, values),
        "per_second": sample.per_second,
        "bytes_per_second": sample.bytes_per_second,
        **dict(zip(CPU_COLUMNS, (client_cpu_ns(sample), server_cpu_ns(sample)), strict=True)),
        **{f"fact_{name}": value for name, value in sample.facts.items()},
    }


def _figures(table: str, values: Mapping[str, object]) -> dict[str, object]:
    """Returns the values of the measured quantities that the table shows, by column."""
    shown = (each for each in FIELDS if table in each.shown)
    return {column: figure for each in shown for column, figure in each.figures(values[each.name]).items()}


def describe_run(run: Run) -> dict[str, object]:
    """Returns the metadata of a table: origin, plan, machine, and doubts about the whole run."""
    return {
        "schema": SCHEMA,
        "suite": run.plan.suite,
        "created": run.header.created,
        "dyno": run.header.dyno,
        "machine": run.recorded["host"],
        "machine_doubts": [asdict(finding) for finding in machine(run)],
        "plan": run.recorded["plan"],
    }


def table_json(table: Table, run: Run) -> str:
    return json.dumps({**describe_run(run), table.name: table.rows}, indent=2) + "\n"


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""First characters of a text that spreadsheets evaluate as a formula (OWASP, "CSV Injection")."""


def _inert(value: object) -> Any:
    """Prefixes a text that a spreadsheet would evaluate with an apostrophe; numbers stay as they are."""
    live = isinstance(value, str) and value.startswith(_FORMULA) and not _NUMBER.fullmatch(value)
    if live:
        return f"'{value}"
    return value


def as_csv(table: Table) -> str:
    """Returns the table as CSV. Codes are joined by semicolons, and unknown values are empty. A text that a
    spreadsheet would evaluate is prefixed with an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(_inert, table.columns))
    for row in table.rows:
        # Each code is checked separately, because some spreadsheets split cells at semicolons.
        cells = (
            ";".join(map(_inert, row[name])) if kind == CODES else _inert(row[name])
            for name, kind in table.columns.items()
        )
        writer.writerow(cells)
    return out.getvalue()


@contextmanager
def check_import(module: str, purpose: str) -> Iterator[None]:
    """Raises UsageError if the module, which the extra `parquet` installs, can't be imported."""
    try:
        yield
    except ImportError:
        extra = installation.extra_command("parquet")
        raise UsageError(f"{purpose} needs {module}, which is not installed: {extra}") from None


def as_parquet(table: Table, run: Run) -> bytes:
    """Returns the table as a Parquet file. Raises UsageError without pyarrow."""
    arrow, out = as_arrow(table, run), io.BytesIO()
    from pyarrow import parquet

    parquet.write_table(arrow, out, compression="zstd")
    return out.getvalue()


def as_arrow(table: Table, run: Run) -> pyarrow.Table:
    """Returns a `pyarrow.Table`. Its metadata is that of `describe_run`, with the prefix `dyno.`. Raises UsageError
    without pyarrow."""
    with check_import("pyarrow", "Parquet"):
        import pyarrow
    types = {
        TEXT: pyarrow.string(),
        INTEGER: pyarrow.int64(),
        NUMBER: pyarrow.float64(),
        BOOLEAN: pyarrow.bool_(),
        MOMENT: pyarrow.timestamp("us"),
        CODES: pyarrow.list_(pyarrow.string()),
    }
    metadata = {
        f"dyno.{'version' if name == 'dyno' else name}": value if isinstance(value, str) else json.dumps(value)
        for name, value in describe_run(run).items()
        if value is not None
    }
    schema = pyarrow.schema([(name, types[kind]) for name, kind in table.columns.items()], metadata)
    moments = [name for name, kind in table.columns.items() if kind == MOMENT]
    try:
        rows = [{**row, **{name: _moment(row[name]) for name in moments}} for row in table.rows]
        return pyarrow.Table.from_pylist(rows, schema)
    # A value has another type than the run file's format declares.
    except (TypeError, ValueError, OverflowError) as error:
        raise damaged_file_error(run.path, error) from None


def as_pandas(table: Table, run: Run) -> pandas.DataFrame:
    """Returns a `pandas.DataFrame` in which unknown values are NA. Its `attrs` are the metadata of `describe_run`.
    Raises UsageError without pandas."""
    with check_import("pandas", "A DataFrame"):
        import pandas
    types = {INTEGER: "Int64", NUMBER: "float64", BOOLEAN: "boolean", MOMENT: "datetime64[us]"}
    columns = {}
    for name, kind in table.columns.items():
        values = [_moment(row[name]) if kind == MOMENT else row[name] for row in table.rows]
        columns[name] = pandas.Series(values, dtype=types.get(kind, "object"))
    frame = pandas.DataFrame(columns)
    frame.attrs = describe_run(run)
    return frame


def _moment(text: str) -> datetime:
    """Returns the time in UTC, without a zone, because some readers of Parquet need further libraries for zones."""
    return datetime.fromisoformat(text).astimezone(timezone.utc).replace(tzinfo=None)


# -- JSON of `dyno show` ------------------------------------------------------------------------------------


def as_data(run: Run, prices: Prices | None = None) -> JsonObject:
    """Returns the run as plain JSON; unknown values are None. With `prices`, it includes the costs of rows."""
    if prices is None:
        charges = None
    else:
        charges = [_cost(cost, prices.currency) for cost in costs(run, prices)]
    show = Show(
        schema=SCHEMA,
        suite=run.plan.suite,
        complete=run.complete,
        created=run.header.created,
        commit=run.header.commit,
        dyno=run.header.dyno,
        plan=run.recorded["plan"],
        host=run.recorded["host"],
        machine_doubts=machine(run),
        cells=[_cell(row, run) for row in _rows(run)],
        absent=[AbsentPhase(**_place(absence.cell, absence.phase), why=absence.why) for absence in absences(run)],
        costs=charges,
    )
    data: JsonObject = to_builtins(show)
    return data


def as_json(run: Run, prices: Prices | None = None) -> str:
    return json.dumps(as_data(run, prices), indent=2) + "\n"


def compact(value: object) -> str:
    """Returns JSON without white space and without escapes for non-ASCII letters."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _place(cell: Cell, phase: str) -> dict[str, Any]:
    params = dict(cell.params)
    return {"suite": cell.suite, "engine": cell.asked, "phase": phase, "params": params, "tier": cell.tier_name}


def _cost(cost: Cost, currency: str) -> CostOfRow:
    return CostOfRow(
        **_place(cost.row.cell, cost.row.phase),
        million=cost.million,
        month=cost.month,
        machines=UNSET if cost.machines is None else list(cost.machines),
        month_most=UNSET if cost.machines is None else cost.month_most,
        currency=currency,
    )


def _capacity(search: Searched) -> CapacityFound:
    capacity = search.capacity
    return CapacityFound(
        kind=capacity.kind,
        per_second=capacity.rate,
        low=capacity.low,
        high=capacity.high,
        limit=None if capacity.limit is None else capacity.limit.text,
        maximum=search.maximum,
        wall_s=search.wall_s,
        forecast_s=search.forecast_s,
        bound_s=search.bound_s,
        lost=list(search.lost),
        probes=list(search.probes),
    )


def _rate(estimate: Estimate | None, unit: str) -> Rate | None:
    if estimate is None:
        return None
    return Rate(estimate.median, estimate.low, estimate.high, f"{unit}/s")


def _account_ns(row: Row, run: Run) -> dict[str, float]:
    """Returns where the time of an item goes, by part; empty if it is unknown."""
    account = make_account(run, row.summary)
    if account is None:
        return {}
    return {TOTAL: account.mean_total_ns, **account.mean_parts_ns}


def _cell(row: Row, run: Run) -> CellRow:
    summary = row.summary
    known = {name: getattr(summary, name) for name in CellRow.__struct_fields__ if hasattr(summary, name)}
    loops = [attempt.loop for attempt in summary.attempts if attempt.loop is not None]
    known |= {
        **_place(summary.cell, summary.phase),
        "floor": summary.cell.floor,
        "samples": len(summary.samples),
        "throughput": _rate(summary.throughput, summary.unit),
        "account_ns": _account_ns(row, run),
        "metric": summary.about.metric,
        "capacity": UNSET if summary.searched is None else _capacity(summary.searched),
        "bandwidth": _rate(summary.bandwidth, "B"),
        "cpu_ns_per_item": CPU(summary.client_cpu_ns, summary.server_cpu_ns),
        "loop": loops[-1] if loops else None,
        "caveats": list(summary.caveats),
        "doubts": [Caveat(doubt.code, doubt.text) for doubt in row.doubts],
    }
    return CellRow(**known)
