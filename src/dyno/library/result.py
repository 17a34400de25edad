"""`dyno.run`, and results as objects: a loaded run file, its rows, its charts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from datetime import datetime
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

from dyno import results
from dyno.contracts.model import UsageError, Value
from dyno.contracts.value_types import JsonObject
from dyno.library.stop_rule import STOP_RULE
from dyno.options import RunRequest
from dyno.report import export
from dyno.report.tables import text
from dyno.report.tables.table import Row as Shown
from dyno.report.tables.table import groups
from dyno.runner import parent, plan, work_directory
from dyno.runner.parent import ProgressListener
from dyno.stats.estimate import Estimate

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from dyno.library.comparing import Comparisons

FORMS = (".svg", ".png")


@dataclass(frozen=True)
class Row:
    """A row of the result's tables: an engine in one phase."""

    suite: str
    engine: str
    """The requested engine with its options."""
    phase: str
    tier: str | None
    params: Mapping[str, Value]
    floor: bool
    """True for a null engine, which shows Dyno's own cost."""
    valid: bool
    why: str | None
    """Why the row has no number; None if it has one."""
    samples: int
    unit: str
    """The item that the throughput counts: 'op', 'key'."""
    throughput: Estimate | None
    """Units per second: the median over trials and its 95 % interval."""
    latency_ns: Mapping[str, int | None]
    """`p50`, `p90`, `p95`, `p99`, `p999` and `max`; all None if operations were not timed one by one."""
    response_ns: Mapping[str, int | None]
    """Percentiles of the time from the moment at which an operation was due; None without a rate."""
    client_cpu_ns: float | None
    """The client's CPU time per unit."""
    server_cpu_ns: float | None
    client_peak_bytes: int | None
    """The most resident memory of the clients' processes in the phase."""
    server_peak_bytes: int | None
    bytes_on_disk: int | None
    caveats: tuple[str, ...]
    """Codes of remarks about fairness."""
    doubts: tuple[str, ...]
    """Codes of reasons to distrust the number."""


@dataclass(frozen=True)
class Picture:
    """A rendered chart."""

    name: str
    svg: str = field(repr=False)

    def save(self, path: str | Path, scale: float = 2.0) -> Path:
        """Writes an .svg file, or a .png file with `scale` times as many pixels per side. Raises UsageError for
        another suffix."""
        from dyno.report.charts import plot

        file = Path(path)
        if file.suffix.lower() not in FORMS:
            raise UsageError(f"{file}: expected a name that ends in {' or '.join(FORMS)}")
        if results.is_run_file(file):
            raise UsageError(f"{file}: this is a run file; give the chart another name")
        file.write_bytes(self.svg.encode() if file.suffix.lower() == ".svg" else plot.png(self.svg, scale))
        return file

    def _repr_svg_(self) -> str:
        return self.svg


class Result:
    """A run, complete or not. It is immutable: `load` reads the file again."""

    def __init__(self, run: results.Run) -> None:
        self._run = run

    @property
    def path(self) -> Path:
        """Path of the run file."""
        return self._run.path

    @property
    def suite(self) -> str:
        """Name of the suite."""
        return self._run.plan.suite

    @property
    def complete(self) -> bool:
        """Whether every trial has ended."""
        return self._run.complete

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows in the order of the tables: by phase and tier, the best first, null engines last."""
        return tuple(_row(row) for group in groups(self._run) for row in group.rows)

    def row(self, engine: str, phase: str) -> Row:
        """Returns the only row of a requested engine in a phase. Raises LookupError if there is no such row, or if
        there are several with other parameters or tiers."""
        rows = [row for row in self.rows if (row.engine, row.phase) == (engine, phase)]
        if len(rows) != 1:
            raise LookupError(f"{self.path}: {len(rows)} rows of {engine} in {phase}")
        return rows[0]

    def compare(
        self,
        other: Result | str | Path | None = None,
        *others: Result | str | Path,
        baseline: str | None = None,
        metric: str | None = None,
        margin: float = 0.05,
        by: str | None = None,
    ) -> Comparisons:
        """Compares engines or versions with each other, or later runs with this one. See `compare`."""
        from dyno.library.comparing import compare

        return compare(self, other, *others, baseline=baseline, metric=metric, margin=margin, by=by)

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
        """Draws a chart of `dyno plot`, of all rows or of the named ones. `path`: file to save it to. Raises
        UsageError, also if the extra `report` is not installed."""
        from dyno.report.charts import plot

        choice = plot.check(self._run, plot.Choice(phases, tier, params or {}, engines, baseline))
        drawing = plot.draw_chart(self._run, plot.chart(self._run, chart, metric), choice, width)
        picture = Picture(chart, drawing.svg(dark))
        if path is not None:
            picture.save(path)
        return picture

    def to_dict(self) -> JsonObject:
        """Returns the JSON of `dyno show --json`: see docs/reference/show-json.md."""
        return export.as_data(self._run)

    def to_pandas(self, samples: bool = False) -> pandas.DataFrame:
        """Returns a DataFrame with a line for each row, or with `samples` for each sample. Its columns are those of
        docs/reference/columns.md. Unknown values are NA."""
        return export.as_pandas(self._table(samples), self._run)

    def to_arrow(self, samples: bool = False) -> pyarrow.Table:
        """Returns the content of `to_pandas` as an Arrow table."""
        return export.as_arrow(self._table(samples), self._run)

    def to_markdown(self) -> str:
        """Returns the tables of `dyno show --markdown`."""
        return text.as_markdown(self._run)

    def _table(self, samples: bool) -> export.Table:
        return (export.samples if samples else export.cells)(self._run)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __repr__(self) -> str:
        ended, planned = self._run.progress
        return f"<dyno.Result of {self.suite}: {len(self.rows)} rows, {ended} of {planned} trials, {self.path}>"

    def _repr_html_(self) -> str:
        return text.as_html(self._run)


def load(path: str | Path) -> Result:
    """Reads a run file, complete or not. Raises UsageError for another file or a damaged one."""
    return Result(results.load(Path(path)))


def _row(shown: Shown) -> Row:
    summary, cell = shown.summary, shown.summary.cell
    known: dict[str, Any] = {each.name: getattr(summary, each.name, None) for each in fields(Row)}
    known |= {"suite": cell.suite, "engine": cell.asked, "tier": cell.tier_name, "params": dict(cell.params)}
    known |= {"floor": cell.floor, "samples": len(summary.samples)}
    known["caveats"] = tuple(caveat.code for caveat in summary.caveats)
    known["doubts"] = tuple(doubt.code for doubt in shown.doubts)
    return Row(**known)


P = ParamSpec("P")


@dataclass(frozen=True)
class Arguments(RunRequest):
    """The arguments of `dyno.run`: the run options, and arguments that only this function has."""

    _: KW_ONLY
    path: str | Path | None = None
    overwrite: bool = False
    resume: bool = False
    blocks: int | None = None
    work_dir: str | Path | None = None
    observer: ProgressListener | None = None


def _take_parameters_of(
    kind: Callable[P, Arguments],
) -> Callable[[Callable[[Arguments], Result]], Callable[P, Result]]:
    """Decorator that makes the function take the parameters of `Arguments` rather than an instance."""

    def decorate(function: Callable[[Arguments], Result]) -> Callable[P, Result]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> Result:
            return function(kind(*args, **kwargs))

        call.__signature__ = signature(kind).replace(return_annotation=Result)  # type: ignore[attr-defined]
        return call

    return decorate


@_take_parameters_of(Arguments)
def run(arguments: Arguments) -> Result:
    """Measures engines with a suite, each trial in a fresh process.

    The arguments are the flags of `dyno run`, with the same defaults. Times are in seconds, sizes in bytes, and
    `until` is a share (0.05) or a text ('5%'). An engine is a text as on the command line
    ('sqlite:journal_mode=wal'), or a mapping of `name` and options. `path` is the run file; if it is None, the file
    is SUITE-DATE-TIME.json in the current directory. `work_dir` is the directory for the engines' data. Raises
    UsageError before any trial, and OSError if the results can't be saved.
    """
    path = None
    if arguments.path is not None:
        path = Path(arguments.path)
    if arguments.resume and path is not None:
        chosen = plan.make_resumed(arguments, path)
    else:
        chosen = plan.make(arguments)
    file = path or Path(f"{chosen.suite}-{datetime.now():%Y%m%d-%H%M%S}.json")
    if arguments.work_dir is not None:
        root = Path(arguments.work_dir)
    else:
        root = work_directory.default_root()
    observer, most = arguments.observer, arguments.blocks
    return Result(
        parent.execute(chosen, file, root, observer, arguments.resume, arguments.overwrite, STOP_RULE, most)
    )
