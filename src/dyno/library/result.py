"""What was measured, as objects: a run file read, its rows, its charts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dyno import results
from dyno.contracts.model import UsageError
from dyno.report.export import data_tables, documents, markdown
from dyno.report.tables.table import Row as Shown
from dyno.report.tables.table import groups
from dyno.stats.estimate import Estimate

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from dyno.library.comparing import Comparisons

FORMS = (".svg", ".png")


@dataclass(frozen=True)
class Row:
    """A line of the result's tables: what an engine did in one phase."""

    suite: str
    engine: str
    """As it was asked for, options included."""
    phase: str
    tier: str | None
    params: Mapping[str, Any]
    floor: bool
    """Of an engine that does nothing: what Dyno itself costs."""
    valid: bool
    why: str | None
    """Why there is no number; None where there is."""
    samples: int
    unit: str
    """What throughput counts: 'op', 'key'."""
    throughput: Estimate | None
    """Units a second: `median` over trials, and its 95 % interval from `low` to `high`."""
    latency_ns: Mapping[str, int | None]
    """`p50`, `p90`, `p95`, `p99`, `p999` and `max`; each None where operations were not timed one by one."""
    response_ns: Mapping[str, int | None]
    """The same from when an operation was due; None without a rate."""
    client_cpu_ns: float | None
    """CPU time of the client for each unit."""
    server_cpu_ns: float | None
    bytes_on_disk: int | None
    caveats: tuple[str, ...]
    """Codes."""
    doubts: tuple[str, ...]
    """Codes: what speaks against the number."""


@dataclass(frozen=True)
class Picture:
    """A chart, drawn."""

    name: str
    svg: str = field(repr=False)

    def save(self, path: str | Path, scale: float = 2.0) -> Path:
        """Writes an .svg, or a .png of `scale` times as many pixels. Raises UsageError for another ending."""
        from dyno.report.charts import draw

        file = Path(path)
        if file.suffix.lower() not in FORMS:
            raise UsageError(f"{file}: a chart wants a name in {' or '.join(FORMS)}")
        if results.is_run_file(file):
            raise UsageError(f"{file}: that is a run file, which is not replaced by a chart")
        file.write_bytes(self.svg.encode() if file.suffix.lower() == ".svg" else draw.png(self.svg, scale))
        return file

    def _repr_svg_(self) -> str:
        return self.svg


class Result:
    """A run, complete or not. It does not change: `load` reads the file again."""

    def __init__(self, run: results.Run) -> None:
        self._run = run

    @property
    def path(self) -> Path:
        """The run file."""
        return self._run.path

    @property
    def suite(self) -> str:
        return str(self._run.plan["suite"])

    @property
    def complete(self) -> bool:
        """Whether every trial has ended."""
        return self._run.complete

    @property
    def rows(self) -> tuple[Row, ...]:
        """In the order of the tables: by phase and tier, the best first, the floor last."""
        return tuple(_row(row) for group in groups(self._run) for row in group.rows)

    def row(self, engine: str, phase: str) -> Row:
        """The only row of an engine, as it was asked for, in a phase. Raises LookupError where there is none, or more
        than one, of several parameters or tiers."""
        found = [row for row in self.rows if (row.engine, row.phase) == (engine, phase)]
        if len(found) != 1:
            raise LookupError(f"{self.path}: {len(found)} rows of {engine} in {phase}")
        return found[0]

    def compare(
        self,
        other: Result | str | Path | None = None,
        *,
        baseline: str | None = None,
        metric: str | None = None,
        margin: float = 0.05,
    ) -> Comparisons:
        """Engines with each other; or a later run with this one. See `compare`."""
        from dyno.library.comparing import compare

        return compare(self, other, baseline=baseline, metric=metric, margin=margin)

    def plot(
        self,
        chart: str = "throughput",
        path: str | Path | None = None,
        *,
        phases: Sequence[str] = (),
        engines: Sequence[str] = (),
        tier: str | None = None,
        params: Mapping[str, Sequence[str]] | None = None,
        baseline: str | None = None,
        metric: str | None = None,
        width: int | None = None,
        dark: bool = False,
    ) -> Picture:
        """A chart of `dyno plot`, of all or of what is named; with `path`, it is saved there, too. Raises UsageError,
        also where the extra `report` is not installed."""
        from dyno.report.charts import plot

        choice = plot.check(self._run, plot.Choice(phases, tier, params or {}, engines, baseline))
        drawing = plot.drawing(self._run, plot.chart(self._run, chart, metric), choice, width)
        drawn = Picture(chart, drawing.svg(dark))
        if path is not None:
            drawn.save(path)
        return drawn

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `dyno show --json`: docs/show-json.md."""
        return documents.as_data(self._run)

    def to_pandas(self, samples: bool = False) -> pandas.DataFrame:
        """A line for each row, or each sample; the columns of docs/columns.md. What is not known is NA."""
        return data_tables.as_pandas(self._table(samples), self._run)

    def to_arrow(self, samples: bool = False) -> pyarrow.Table:
        """The same for Arrow."""
        return data_tables.as_arrow(self._table(samples), self._run)

    def to_markdown(self) -> str:
        """The tables of `dyno show --markdown`."""
        return documents.as_markdown(self._run)

    def _table(self, samples: bool) -> data_tables.Table:
        return (data_tables.samples if samples else data_tables.cells)(self._run)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __repr__(self) -> str:
        ended, planned = self._run.progress
        return f"<dyno.Result of {self.suite}: {len(self.rows)} rows, {ended} of {planned} trials, {self.path}>"

    def _repr_html_(self) -> str:
        return markdown.as_html(self._run)


def load(path: str | Path) -> Result:
    """Reads a run file, complete or not. Raises UsageError for what is none, or is damaged."""
    return Result(results.load(Path(path)))


def _row(shown: Shown) -> Row:
    found = shown.summary
    return Row(
        suite=found.cell.suite,
        engine=found.cell.asked,
        phase=found.phase,
        tier=found.cell.tier_name,
        params=dict(found.cell.params),
        floor=found.cell.floor,
        valid=found.valid,
        why=found.why,
        samples=len(found.samples),
        unit=found.unit,
        throughput=found.throughput,
        latency_ns=found.latency_ns,
        response_ns=found.response_ns,
        client_cpu_ns=found.client_cpu_ns,
        server_cpu_ns=found.server_cpu_ns,
        bytes_on_disk=found.bytes_on_disk,
        caveats=tuple(caveat.code for caveat in found.caveats),
        doubts=tuple(doubt.code for doubt in shown.doubts),
    )
