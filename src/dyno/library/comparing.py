"""Comparisons as objects, with intervals and verdicts: within a run, of runs with a base, and the gate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dyno.contracts.model import VERSION, UsageError, Value
from dyno.contracts.value_types import JsonMapping, JsonObject
from dyno.report.export import check_import
from dyno.report.tables import comparison, profiles, sections, wording
from dyno.report.tables import versions as version_texts
from dyno.report.tables import why as why_texts
from dyno.report.tables.sections import Section
from dyno.report.tables.table import varying_params
from dyno.results import Run, load
from dyno.stats import compare as one
from dyno.stats import two_runs as two
from dyno.stats.metric import Metric
from dyno.stats.metric import metric as named
from dyno.stats.profile import list_profiles
from dyno.stats.two_runs import GateResult, gate
from dyno.stats.verdict import MARGIN
from dyno.stats.versions import compare_versions
from dyno.stats.why import Explained, Explanation, account_run, explain_run, explain_runs

if TYPE_CHECKING:
    import pandas


class HasRun(Protocol):
    """Protocol of `dyno.Result`, whose module imports this one."""

    _run: Run


RunSource = HasRun | str | Path


@dataclass(frozen=True)
class Comparison:
    """A row compared with its baseline."""

    phase: str
    tier: str | None
    params: Mapping[str, Value]
    metric: str
    engine: str
    baseline: str
    """The requested engine; between runs, the file of the first run."""
    kind: str
    """'faster', 'slower', 'alike' (no difference above the margin) or 'unclear'."""
    ratio: float | None
    """Ratio of speeds: above 1 is better, for times and memory too. None with fewer than three blocks."""
    low: float | None
    high: float | None
    """Upper end of the 99 % interval (98 % in a gate, more with several runs), which begins at `low`."""
    bound: float | None
    """Share of the baseline: the smallest difference if faster or slower, the largest if alike."""
    blocks: int
    more: int | None
    """If unclear: the approximate number of further samples that would decide."""
    text: str
    """The verdict in words."""
    baseline_tier: str | None
    """The baseline's tier. It differs from `tier` if reads are compared across tiers."""
    run: str
    """The file of the run that the row is in."""


@dataclass(frozen=True)
class Change(Comparison):
    """A row of the gate."""

    state: str
    """'slower' than the margin allows, 'fine' or 'unclear'."""


class Printed:
    """A result that is printed as tables with lines below them."""

    @property
    def sections(self) -> list[Section]:
        raise NotImplementedError

    @property
    def lines(self) -> list[str]:
        raise NotImplementedError

    def to_markdown(self) -> str:
        """Returns what the command prints with `--markdown`."""
        return sections.markdown(self.sections, self.lines)

    def _repr_html_(self) -> str:
        return sections.html(self.sections, self.lines)


class Comparisons(Printed, Sequence[Comparison]):
    """The result of `compare`: a sequence of comparisons, with its tables and notes."""

    _kind: type[Comparison] = Comparison

    def __init__(
        self,
        sections: Callable[[], list[Section]],
        lines: Callable[[], list[str]],
        data: Callable[[], dict[str, object]],
        rows: Callable[[JsonObject], list[JsonObject]],
    ) -> None:
        # Each form is computed on demand: it takes seconds for large runs, and a command prints only one.
        self._sections = sections
        self._lines = lines
        self._data = cache(data)
        self._rows_of = rows

    @cached_property
    def _rows(self) -> tuple[Comparison, ...]:
        names = [each.name for each in fields(self._kind)]
        return tuple(self._kind(**{name: row[name] for name in names}) for row in self._rows_of(self._data()))

    @cached_property
    def sections(self) -> list[Section]:
        return self._sections()

    @cached_property
    def lines(self) -> list[str]:
        return self._lines()

    def to_dict(self) -> JsonObject:
        """Returns the JSON of `dyno compare --json`: see docs/reference/compare-json.md."""
        return self._data()

    def to_pandas(self) -> pandas.DataFrame:
        """Returns a DataFrame with a line for each comparison: its fields, and a column `param_NAME` for each
        parameter. Raises UsageError without pandas."""
        with check_import("pandas", "A DataFrame"):
            import pandas
        rows = [asdict(row) for row in self._rows]
        params = [{f"param_{name}": value for name, value in row.pop("params").items()} for row in rows]
        return pandas.DataFrame([{**row, **own} for row, own in zip(rows, params, strict=True)])

    def __getitem__(self, at: Any) -> Any:
        return self._rows[at]

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        several = len({row.run for row in self._rows}) > 1
        return "\n".join(
            f"{row.phase}: {row.engine}{f' in {row.run}' * several} against {row.baseline}: {row.text}"
            for row in self._rows
        )


class Check(Comparisons):
    """The result of `check`: the comparisons with their states, and whether the gate is passed."""

    _kind = Change
    passed: bool
    lost: tuple[str, ...]
    """Rows that had a number before and have none now, each described in words. They fail the gate."""


def compare(
    run: RunSource,
    other: RunSource | None = None,
    *others: RunSource,
    baseline: str | None = None,
    metric: str | None = None,
    margin: float = MARGIN,
    halves: bool = False,
    by: str | None = None,
) -> Comparisons:
    """Compares the engines of a run, or runs with the first. Raises UsageError.

    Without `other`, compares the engines of `run` with `baseline` (None: the fastest of each phase). With `other`,
    compares this later run, and all `others`, with `run`. With `halves`, compares the second half of a run's blocks
    with the first. With `by="version"`, compares the versions of each engine of `run` in release order; `baseline` is
    then a version (None: the oldest). `metric`: None for the phase's own. `margin`: the share up to which a
    difference is alike.
    """
    used = None if metric is None else named(metric)
    later = [each for each in (other, *others) if each is not None]
    if baseline is not None and (later or halves):
        raise UsageError("a baseline is for engines within a run; of several runs the first one is the baseline")
    if halves and later:
        raise UsageError(f"halves: expected a single run, got {1 + len(later)}")
    if by is not None:
        if by != VERSION:
            raise UsageError(f"by: expected {VERSION}, got {by!r}")
        if later or halves:
            raise UsageError(f"by {VERSION}: compares the versions within a single run")
        return _compare_versions(_run(run), baseline, used, margin)
    base = _run(run)
    if not later and not halves:
        return _compare_within(base, baseline, used, margin)
    if halves:
        base, *runs = two.halves(base)
    else:
        base, *runs = (base, *map(_run, later))
    return _compare_runs(base, runs, used, margin)


def check(
    run: RunSource, against: RunSource, *, metric: str | None = None, margin: float = MARGIN, strict: bool = False
) -> Check:
    """Applies the gate of `dyno check`. It fails if a row of `run` is slower than in `against` by more than the
    margin, has lost its number, or has a weaker tier because the user's server was changed. With `strict`, it also
    fails if a row is unclear. Raises UsageError."""
    by = None if metric is None else named(metric)
    before, after = _run(against), _run(run)
    pairs = two.without_weakened(two.compare_runs(before, after, by, margin))
    judged = gate(pairs, margin)
    states = [row.state for row in judged]
    passed = "slower" not in states and not pairs.lost and not (strict and "unclear" in states)
    summary = comparison.summary(states, len(pairs.lost), margin, strict, by)
    how = wording.explain_ratios(pairs.paired, comparison.GATE_LEVEL, by)
    at_margin = comparison.at_margin(judged, margin)
    result = Check(
        lambda: [comparison.list_differences(pairs), *comparison.list_gate_results(judged, varying_params(after))],
        lambda: [
            *comparison.list_lost_rows([pairs]),
            *comparison.conditions(after),
            how,
            *at_margin,
            *_explain_same_cpu_time(judged, after),
            *_explain_failed(judged, before, after, margin),
            summary,
        ],
        lambda: comparison.gate_data(pairs, margin, judged, passed),
        lambda data: _changes(data, [pairs]),
    )
    result.passed = passed
    result.lost = tuple(f"{row.cell.asked}, {row.phase}: {why}" for row, why in pairs.lost)
    return result


class Why(Printed):
    """The result of `why`: where the time of each row's items goes, and why rows differ."""

    def __init__(self, runs: Sequence[Run], tables: Sequence[Explained], reasons: Sequence[Explanation]) -> None:
        self._runs = runs
        self._tables = tables
        self._reasons = reasons

    @cached_property
    def sections(self) -> list[Section]:
        """The tables, with sentences below each. The profiles are the last run's."""
        run = self._runs[-1]
        changing = varying_params(run)
        found = [*why_texts.list_accounts(self._tables, changing), *profiles.list_sections(run, changing)]
        if len(self._runs) > 1:
            found += profiles.list_changes(self._runs[0], run, changing)
        return found

    @cached_property
    def reasons(self) -> list[str]:
        """A sentence or two on each difference."""
        return [line for reason in self._reasons for line in why_texts.explain_in_phase(reason)]

    def to_dict(self) -> JsonObject:
        """Returns the JSON of `dyno why --json`: see docs/reference/why-json.md."""
        paths = [str(run.path) for run in self._runs]
        return why_texts.why_data(paths, self._tables, self._reasons, list_profiles(self._runs[-1]))

    @cached_property
    def lines(self) -> list[str]:
        """Sentences below all tables."""
        between = self.reasons if len(self._runs) > 1 else []
        lines = [*between, why_texts.MEANS, why_texts.ELSEWHERE]
        if self._runs[-1].profiled:
            lines += [profiles.MEANS, *profiles.list_missing(self._runs[-1])]
        return lines

    def __repr__(self) -> str:
        return "\n".join(self.reasons)


def why(
    run: RunSource, other: RunSource | None = None, *, baseline: str | None = None, margin: float = MARGIN
) -> Why:
    """Explains the differences between the engines of a run, or between two runs: the parts of an item's time that
    make them, and what was ruled out. Raises UsageError.

    Without `other`, engines are compared with `baseline` (None: the fastest of each phase). With `other`, this later
    run is compared with `run`.
    """
    base = _run(run)
    if other is None:
        tables = explain_run(base, one.check_baseline(base, baseline), margin)
        return Why([base], tables, [each for table in tables for each in table.explanations])
    if baseline is not None:
        raise UsageError("a baseline is for engines within a run; of two runs the first one is the baseline")
    later = _run(other)
    return Why([base, later], account_run(later), explain_runs(base, later, margin))


def _explain_same_cpu_time(judged: Sequence[GateResult], after: Run) -> list[str]:
    """Returns lines on the rows that the clock alone calls slower, with the command that measures both in turns."""
    lines = comparison.explain_same_cpu_time(judged)
    if lines and after.header.definition is None:
        # Few gates need the page's modules.
        from dyno.report.page.payload import command

        once = " ".join(command(after))
        rounds = f"for round in $(seq {after.blocks}); do for side in before after; do"
        lines.append(f'  {rounds} {once} -o "$side.json" --blocks 1 --resume; done; done')
    return lines


def _explain_failed(judged: Sequence[GateResult], before: Run, after: Run, margin: float) -> list[str]:
    """Returns why the failed rows are slower."""
    failed = {id(row.change.after) for row in judged if row.state == "slower"}
    if not failed:
        return []
    reasons = [each for each in explain_runs(before, after, margin) if id(each.row) in failed and each.named]
    return [line for each in reasons for line in why_texts.explain_in_phase(each)]


def _run(source: RunSource) -> Run:
    if isinstance(source, (str, Path)):
        return load(Path(source))
    return source._run


def _compare_within(run: Run, baseline: str | None, by: Metric | None, margin: float) -> Comparisons:
    baseline = one.check_baseline(run, baseline)
    tables = [*one.tables(run, by), *one.tables_across_tiers(run, by)]
    how = f"{wording.how_within(by, baseline is not None)} {comparison.equal(margin)}"
    return Comparisons(
        lambda: comparison.compare_within(run, tables, baseline, margin),
        lambda: [*wording.answers(run), *comparison.conditions(run), how],
        lambda: comparison.within_data(run, tables, baseline, margin),
        lambda data: [{**row, "run": data["run"]} for row in data["comparisons"]],
    )


def _compare_versions(run: Run, baseline: str | None, by: Metric | None, margin: float) -> Comparisons:
    of = compare_versions(run, by, baseline, margin)
    return Comparisons(
        lambda: version_texts.list_sections(run, of),
        lambda: [
            *version_texts.summarize_versions(run, of),
            *comparison.conditions(run),
            *version_texts.explain(by, margin),
        ],
        lambda: version_texts.versions_data(run, of, margin),
        lambda data: [{**row, "run": data["run"]} for series in data["series"] for row in series["comparisons"]],
    )


def _compare_runs(base: Run, runs: Sequence[Run], by: Metric | None, margin: float) -> Comparisons:
    times = Counter(run.path.resolve() for run in (base, *runs))
    twice = [run.path for run in runs if times[run.path.resolve()] > 1]
    if len(runs) > 1 and twice:
        raise UsageError(f"{twice[0]} is named twice: each run is compared with the first, so name it once")
    pairs = two.with_base(base, runs, by, margin)
    how = comparison.explain_ratios(pairs, by)
    changing = list(dict.fromkeys(name for run in runs for name in varying_params(run)))
    return Comparisons(
        lambda: [*map(comparison.list_differences, pairs), *comparison.compare_runs(pairs, changing)],
        lambda: [
            *comparison.list_lost_rows(pairs),
            *comparison.conditions(base),
            " ".join([*how, comparison.equal(margin)]),
        ],
        lambda: comparison.with_base_data(pairs, margin),
        lambda data: _changes(data, pairs),
    )


def _changes(data: JsonMapping, pairs: Sequence[two.Between]) -> list[JsonObject]:
    """Returns the rows of the JSON of runs with a base, each with its baseline and its run."""
    return [
        {
            **row,
            "baseline": str(pair.before.path),
            "baseline_tier": change.before.cell.tier_name,
            "run": str(pair.after.path),
        }
        for of_run, pair in zip(data.get("runs", [data]), pairs, strict=True)
        for row, change in zip(of_run["changes"], pair.changes, strict=True)
    ]
