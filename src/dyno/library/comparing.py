"""Ratios with intervals and verdicts, as objects: within a run, of two runs, and the gate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from dyno.contracts.model import UsageError
from dyno.host import installation
from dyno.report.tables import comparison, sections, wording
from dyno.report.tables.sections import Section
from dyno.report.tables.table import varying
from dyno.results import Run, load
from dyno.stats import compare as one
from dyno.stats import two_runs as two
from dyno.stats.gate import gate
from dyno.stats.metric import Metric
from dyno.stats.metric import metric as named
from dyno.stats.verdict import MARGIN, Verdict

if TYPE_CHECKING:
    import pandas

T = TypeVar("T")


class HasRun(Protocol):
    """A `dyno.Result`, whose module imports this one."""

    _run: Run


RunSource = HasRun | str | Path


@dataclass(frozen=True)
class Comparison:
    """A row as seen from another one, its baseline."""

    phase: str
    tier: str | None
    params: Mapping[str, Any]
    metric: str
    engine: str
    baseline: str
    """An engine as it was asked for; of two runs, the file of the earlier one."""
    kind: str
    """'faster', 'slower', 'alike' (no difference over the margin) or 'unclear'."""
    ratio: float | None
    """Of speeds, so that over 1 is faster, of times too; None from under three blocks."""
    low: float | None
    high: float | None
    """The 99 % interval; of a gate that of 98 %."""
    bound: float | None
    """The least difference of what is faster or slower; the largest of what is alike. A share."""
    blocks: int
    more: int | None
    """Of 'unclear': about so many more samples would tell."""
    text: str
    """The verdict in words."""
    baseline_tier: str | None
    """Another than `tier` where reads are compared across tiers."""


@dataclass(frozen=True)
class Change(Comparison):
    """A row of a gate."""

    state: str
    """'slower' than the margin allows, 'fine' or 'unclear'."""


@dataclass(frozen=True)
class ComparisonList(Generic[T]):
    """What was found, and what makes something of it that can be shown."""

    found: Sequence[T]
    row: Callable[[T], Comparison]
    sections: Callable[[], list[Section]]
    lines: Callable[[], list[str]]
    data: Callable[[], dict[str, Any]]


class Comparisons(Sequence[Comparison]):
    """What `compare` finds: a sequence of comparisons, which says how they were made."""

    def __init__(self, told: ComparisonList[Any]) -> None:
        # Of two large runs each of these takes seconds, and a command shows one of them.
        self._told = told

    @cached_property
    def _rows(self) -> tuple[Comparison, ...]:
        return tuple(map(self._told.row, self._told.found))

    @cached_property
    def sections(self) -> list[Section]:
        return self._told.sections()

    @cached_property
    def lines(self) -> list[str]:
        return self._told.lines()

    @cached_property
    def _data(self) -> dict[str, Any]:
        return self._told.data()

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `dyno compare --json`: docs/compare-json.md."""
        return self._data

    def to_pandas(self) -> pandas.DataFrame:
        """A line for each comparison, with its fields as columns, and a column `param_NAME` for each parameter.
        Raises UsageError without pandas."""
        try:
            import pandas
        except ImportError:
            raise UsageError(
                f"A DataFrame needs pandas, which is not installed: {installation.extra('parquet')}"
            ) from None
        return pandas.DataFrame([_flat(row) for row in self._rows])

    def to_markdown(self) -> str:
        """The tables of `dyno compare --markdown`."""
        return sections.markdown(self.sections, self.lines)

    def __getitem__(self, at: Any) -> Any:
        return self._rows[at]

    def __len__(self) -> int:
        return len(self._told.found)

    def __iter__(self) -> Iterator[Comparison]:
        return iter(self._rows)

    def __repr__(self) -> str:
        return "\n".join(f"{row.phase}: {row.engine} against {row.baseline}: {row.text}" for row in self._rows)

    def _repr_html_(self) -> str:
        return sections.html(self.sections, self.lines)


class Check(Comparisons):
    """What `check` finds: the comparisons, each with its state, and whether the gate is passed."""

    passed: bool
    lost: tuple[str, ...]
    """Rows that had a number before and have none now, each in words: they fail the gate."""


def compare(
    run: RunSource,
    other: RunSource | None = None,
    *,
    baseline: str | None = None,
    metric: str | None = None,
    margin: float = MARGIN,
    halves: bool = False,
) -> Comparisons:
    """Engines within a run, seen from `baseline` (None: the fastest of each phase); or `other`, a later run, seen
    from `run`; or with `halves` the second half of a run's blocks seen from the first. `metric` None: what fits the
    phase. `margin`: a share; what is shown to differ by no more is alike. Raises UsageError."""
    by = None if metric is None else named(metric)
    if baseline is not None and (other is not None or halves):
        raise UsageError("a baseline is for engines within a run; of two runs the first one is the baseline")
    if halves and other is not None:
        raise UsageError("halves are of one run")
    before = _run(run)
    if halves:
        return _between(*two.halves(before), by, margin)
    return _within(before, baseline, by, margin) if other is None else _between(before, _run(other), by, margin)


def check(
    run: RunSource, against: RunSource, *, metric: str | None = None, margin: float = MARGIN, strict: bool = False
) -> Check:
    """The gate of `dyno check`: fails if a row of `run` is shown slower than in `against` by more than the margin,
    has no number any more, or stands at a weaker tier since the user's server was changed; with `strict`, also if
    a row can't be told. Raises UsageError."""
    by = None if metric is None else named(metric)
    before, after = _run(against), _run(run)
    found = two.without_weakened(two.between(before, after, by, margin))
    judged = gate(found, margin)
    states = [row.state for row in judged]
    passed = "slower" not in states and not found.lost and not (strict and "unclear" in states)
    summary = comparison.summary(states, len(found.lost), margin, strict)
    made = Check(
        ComparisonList(
            judged,
            lambda row: Change(*(*_change(row.change, before, row.verdict, wording.gated), row.state)),
            lambda: [comparison.changed(before, after, found.differences), *comparison.gated(judged, varying(after))],
            lambda: [
                *comparison.gone(found),
                *comparison.conditions(after),
                comparison.how(found.paired, comparison.GATE_LEVEL),
                summary,
            ],
            lambda: {**comparison.between_data(before, after, found, margin, judged), "passed": passed},
        )
    )
    made.passed = passed
    made.lost = tuple(f"{row.cell.asked}, {row.phase}: {why}" for row, why in found.lost)
    return made


def _run(source: RunSource) -> Run:
    return load(Path(source)) if isinstance(source, (str, Path)) else source._run


def _within(run: Run, baseline: str | None, by: Metric | None, margin: float) -> Comparisons:
    baseline = one.check_baseline(run, baseline)
    found = [*one.tables(run, by), *one.across(run, by)]

    def row(c: one.Comparison) -> Comparison:
        place = c.phase, c.engine.tier_name, dict(c.engine.params), c.metric.name, c.engine.asked
        return Comparison(*place, c.baseline.asked, *(*_verdict(c.verdict), c.baseline.tier_name))

    how = f"{comparison.WITHIN} {comparison.equal(margin)}"
    return Comparisons(
        ComparisonList(
            [c for table in found for c in one.against(table, baseline, margin)],
            row,
            lambda: comparison.within(run, found, baseline, margin),
            lambda: [*wording.answers(run), *comparison.conditions(run), how],
            lambda: comparison.within_data(run, found, baseline, margin),
        )
    )


def _between(before: Run, after: Run, by: Metric | None, margin: float) -> Comparisons:
    found = two.between(before, after, by, margin)
    how = f"{comparison.how(found.paired)} {comparison.equal(margin)}"
    return Comparisons(
        ComparisonList(
            found.changes,
            lambda change: Comparison(*_change(change, before)),
            lambda: [
                comparison.changed(before, after, found.differences),
                *comparison.between(found, varying(after)),
            ],
            lambda: [*comparison.gone(found), *comparison.conditions(after), how],
            lambda: comparison.between_data(before, after, found, margin),
        )
    )


def _change(
    found: two.Change, before: Run, verdict: Verdict | None = None, text: Callable[[Verdict], str] = wording.verdict
) -> tuple[Any, ...]:
    """`verdict`: the gate's, in place of the change's own."""
    cell = found.after.cell
    place = found.after.phase, cell.tier_name, dict(cell.params), found.metric.name, cell.asked
    return *place, str(before.path), *_verdict(verdict or found.verdict, text), found.before.cell.tier_name


def _verdict(found: Verdict, text: Callable[[Verdict], str] = wording.verdict) -> tuple[Any, ...]:
    """The last fields of a comparison."""
    figures = found.ratio, found.low, found.high, found.bound, found.blocks, found.more
    return found.kind, *figures, text(found)


def _flat(row: Comparison) -> dict[str, Any]:
    whole = asdict(row)
    params = whole.pop("params")
    return {**whole, **{f"param_{name}": value for name, value in params.items()}}
