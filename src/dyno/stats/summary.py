"""Summary of each cell and phase of a run: median over trials, interval, percentiles, or the reason for having no
number."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from dyno import fields
from dyno.contracts.cell import Cell
from dyno.contracts.histogram import percentiles
from dyno.contracts.model import Caveat, Fact, Phase
from dyno.fields import FIELDS, Sample
from dyno.results import Attempt, Run, damaged_file_error
from dyno.stats.agreement import judged_attempts
from dyno.stats.cache import cache_by_run
from dyno.stats.estimate import Estimate, estimate
from dyno.stats.load_limit import SERVER_STEP_NS, LoadLimit, load_limit
from dyno.stats.searched import Searched, search_of, why_no_figure

if TYPE_CHECKING:
    from dyno.contracts.decoded_types import Point, Residency
    from dyno.contracts.model import Fact

NOT_YET = "not measured yet"
# Resolution of CPU times: of a process's own, and of another process's (the kernel's clock ticks, usually 100 per
# second).
CLIENT_STEP_NS = 1_000
MOST_FAILED = 0.01
"""Share of failed operations (mean over trials) above which a row has no number. Latencies and throughput include
only operations that succeeded, and would not describe the rest. 1 % can't move a p99 far."""
LEAST_STEPS = 5
"""Minimum CPU time, in steps of its resolution. User and kernel time are each rounded down at both ends of a phase.
That is an error of up to one step, twice, with a standard deviation of 0.6 of a step, too much for a shorter time."""
FLOOR_REACH = 0.25
"""Maximum reach of a null engine's interval. It may be wide, because no engine is ranked against a null engine, and
all are far slower."""
P = ParamSpec("P")
T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


def group_values(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Returns the values of each key, in the order of the pairs."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


EMPTY_PERCENT, SAME_PERCENT = 5.0, 50.0
"""Percentages of a trial's answers from which on they are suspicious if they are empty, or the same."""
MOST_SUSPICIOUS_PERCENT = 50.0
"""Percentage of suspicious answers of a row that is compared."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Many answers of a row are empty, or the same, as if a cache gave them. They prove little work."""

    code: str
    """The doubt: `empty` or `same-answer`."""
    percent: float
    """Share of the answers, in the worst trial."""


@dataclass(frozen=True, slots=True)
class CellSummary:
    """One row of the table: a cell and a phase."""

    cell: Cell
    phase: str
    about: Phase
    """The suite's declaration of the phase."""
    reported_by: str | None
    """The outside tool that did and measured the work; several names if the trials had several tools. None if Dyno
    timed it."""
    valid: bool
    why: str | None
    """Reason for having no number: void, crash, errors. None for a valid row."""
    samples: tuple[Sample, ...]
    """Samples that count; empty for an invalid row."""
    blocks: tuple[int, ...]
    """Block of each sample."""
    unit: str
    throughput: Estimate | None
    bandwidth: Estimate | None
    """Bytes per second; None if the suite doesn't count bytes."""
    operations: int | None
    items: int | None
    elapsed_ns: int | None
    wall_ns: int | None
    pause_cpu_ns: int | None
    bytes: int | None
    due: int | None
    offered_per_second: float | None
    """Operations that were due, and operations that succeeded, per second of the wall clock; None in a closed
    loop."""
    served_per_second: float | None
    latency_ns: dict[str, int | None]
    latency_by_kind_ns: dict[str, dict[str, int | None]]
    """Latencies by kind, for a phase that mixes kinds of operations: a median of reads and writes together says
    little."""
    latency_by_part_ns: dict[str, dict[str, int | None]]
    """Latencies by named part, in the suite's order; empty if operations have no parts."""
    latency_by_machine_ns: dict[str, dict[str, int | None]]
    response_ns: dict[str, int | None]
    """Times from the moment when an operation was due; all None in a closed loop."""
    late_ns: dict[str, int | None]
    """Delays caused by the harness itself; all None in a closed loop."""
    series: list[list[Point]]
    bytes_on_disk: int | None
    temperature: str
    """Temperature of the trials: 'lukewarm' if at least one trial was, 'none' if the phase requests none."""
    resident_percent: float | None
    """For a cold phase: the percentage of its files that was in the page cache when it began, in the worst trial."""
    client: dict[str, int | None] | None
    """Usage of the client's processes, as medians over trials."""
    server: dict[str, int | None] | None
    """Usage of the server's processes, as medians over trials; None without a server."""
    client_peak_bytes: int | None
    """The most resident memory of the clients' processes in the phase, as the median over trials."""
    server_peak_bytes: int | None
    """The same of the server's processes; None without a server."""
    client_cpu_ns: float | None
    """CPU time of the clients per item, in user mode and in the kernel, as the median over trials. None if any trial
    lacks it."""
    server_cpu_ns: float | None
    """CPU time of the server per item, like `client_cpu_ns`."""
    counters: dict[str, int]
    """Growth of the engine's own counters during the phase, as medians over trials, of those that all trials
    have."""
    write_amplification: float | None
    """Bytes sent to the device per byte that the application stored, as the median over trials."""
    facts: dict[str, Fact]
    """The suite's facts after the phase: medians over trials for numbers, and words if all trials agree."""
    trial_facts: dict[str, Fact]
    """The suite's facts about the whole trial, summarized in the same way."""
    version: str | None
    settings: Mapping[str, Fact] | None
    caveats: tuple[Caveat, ...]
    limit: LoadLimit | None
    """None unless the load generator was the row's limit. If it was, the row is in no comparison."""
    attempts: tuple[Attempt, ...]
    """Every attempt at the cell, including failed ones."""
    suspicions: tuple[Suspicion, ...] = ()
    """What makes the answers suspicious."""
    searched: Searched | None = None
    """The search for the cell's capacity, which then is the `throughput`; the samples are of one probe. None in a run
    without limits."""

    @property
    def suspicion(self) -> Suspicion | None:
        """The suspicion for which the row is in no comparison; None if its answers prove enough work."""
        return next((each for each in self.suspicions if each.percent > MOST_SUSPICIOUS_PERCENT), None)


@dataclass(frozen=True, slots=True)
class Absence:
    """A phase that makes no sense for a cell's engine."""

    cell: Cell
    phase: str
    why: str


def absences(run: Run) -> list[Absence]:
    """Returns the cells and phases of the plan that are not in the summary because they make no sense."""
    absent = {
        (attempt.cell, phase): Absence(run.cells[attempt.cell], phase, why)
        for attempt in run.attempts
        for phase, why in attempt.absent.items()
    }
    return list(absent.values())


@cache_by_run
def summarize(run: Run) -> tuple[CellSummary, ...]:
    """Returns a summary of every cell and phase of the plan, in the plan's order, measured or not. Phases that make
    no sense for their engine are left out. Raises UsageError for a damaged run file."""
    absent = {(id(absence.cell), absence.phase) for absence in absences(run)}
    attempts = group_values((attempt.cell, attempt) for attempt in judged_attempts(run))
    try:
        return tuple(
            _summary(run, at, tuple(attempts.get(at, ())), run.phases[phase])
            for phase in run.plan.phases
            for at, cell in enumerate(run.cells)
            if (id(cell), phase) not in absent
        )
    except (TypeError, ValueError) as error:
        # Only of a run that was not loaded from a file: loading checks histograms.
        raise damaged_file_error(run.path, error) from None


def _summary(run: Run, at: int, attempts: tuple[Attempt, ...], declared: Phase) -> CellSummary:
    phase = declared.name
    last: Collection[Attempt] = {a.block: a for a in attempts}.values()
    search = search_of(run, attempts)
    if search is not None:
        last = []
        if search.shown is not None:
            last = [search.shown]
    by_block = [(a.block, sample) for a in last for sample in a.samples if sample.phase == phase]
    every = [sample for _, sample in by_block]
    # A wrong answer voids the row, however its trial ended.
    void = (s.void for attempt in attempts for s in attempt.samples if s.phase == phase and s.void is not None)
    why = next((f"void: {reason}" for reason in void), None) or _why_not(list(last), every, phase)
    if search is not None and (why is None or why == NOT_YET):
        why = why_no_figure(search, run.limits)
    counted: tuple[Sample, ...] = ()
    blocks: tuple[int, ...] = ()
    if why is None:
        counted = tuple(every)
        blocks = tuple(block for block, _ in by_block)
    # Facts are shown even without a number, for example how many requests of a burst were throttled.
    described = () if why is not None and why.startswith("void") else tuple(every)
    rates = [rate for sample in counted if (rate := sample.per_second) is not None]
    bandwidths = [sample.bytes_per_second for sample in counted if sample.per_second is not None]
    version, settings, caveats = next(
        ((a.version, a.settings, a.caveats) for a in last if a.version is not None), (None, None, ())
    )
    throughput = estimate(rates) if rates else None
    limit = None
    if search is None:
        limit = load_limit(counted, run.header.host)
    else:
        throughput = search.throughput
    bandwidth = None
    # If any rate is unknown or zero, there is none.
    if bandwidths and all(bandwidths):
        bandwidth = estimate([rate for rate in bandwidths if rate])
    figures = _summarize_fields(counted)
    figures |= {
        "reported_by": " and ".join(sorted({s.reported_by for s in every if s.reported_by is not None})) or None,
        "latency_by_kind_ns": _percentiles_of_each(declared.kinds, [s.by_kind for s in counted]),
        "latency_by_part_ns": _percentiles_of_each(declared.parts, [s.by_part for s in described]),
        "latency_by_machine_ns": _percentiles_of_each((), [s.by_machine for s in counted]),
    }
    return CellSummary(
        cell=run.cells[at],
        phase=phase,
        about=declared,
        valid=why is None,
        why=why,
        samples=counted,
        blocks=blocks,
        unit=next((sample.unit for sample in every), "op"),
        throughput=throughput,
        bandwidth=bandwidth,
        offered_per_second=_middle([_on_the_wall(s, s.due) for s in counted]),
        served_per_second=_middle([_on_the_wall(s, s.operations - s.errors) for s in counted]),
        client_cpu_ns=_middle([client_cpu_ns(s) for s in counted if s.items > 0]),
        server_cpu_ns=_middle([server_cpu_ns(s) for s in counted if s.items > 0]),
        # None if nothing was sent to the device, or more was dropped than sent, as when files are removed.
        write_amplification=_middle(
            [w / s.payload_bytes if (w := s.written_bytes or 0) > 0 and s.payload_bytes else None for s in counted]
        ),
        facts=_facts([s.facts for s in described]),
        trial_facts=_facts([a.facts for a in last if a.facts]),
        version=version,
        settings=settings,
        caveats=caveats,
        limit=limit,
        suspicions=tuple(_find_suspicions(counted)),
        attempts=attempts,
        searched=search,
        **figures,
    )


def _summarize_fields(samples: Sequence[Sample]) -> dict[str, Any]:
    """Returns the summaries of the measured quantities that the samples alone decide, by key."""
    return {
        each.key: _SUMMARIES[each.summary]([getattr(sample, each.name) for sample in samples])
        for each in FIELDS
        if each.summary in _SUMMARIES
    }


def _resident_percent(residencies: Sequence[Residency | None]) -> float | None:
    shares = list[float]()
    for each in residencies:
        if each is None:
            continue
        resident_bytes = each["resident_bytes"]
        if not each["file_bytes"] or resident_bytes is None:
            return None
        shares.append(resident_bytes / each["file_bytes"] * 100)
    return max(shares, default=None)


def _median_counters(usages: Sequence[Mapping[str, int | None] | None]) -> dict[str, int | None] | None:
    """Returns the median of each counter over the trials. None if any trial lacks it."""
    known = [usage for usage in usages if usage is not None]
    if not known or len(known) < len(usages):
        return None
    columns = {name: [value for usage in known if (value := usage.get(name)) is not None] for name in known[0]}
    return {name: int(median(of)) if len(of) == len(known) else None for name, of in columns.items()}


def _median_shared(tables: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Returns the median of each name that all tables have."""
    if not tables:
        return {}
    names = [name for name in tables[0] if all(name in table for table in tables)]
    return {name: int(median(table[name] for table in tables)) for name in names}


_SUMMARIES: Mapping[str, Callable[[list[Any]], Any]] = {
    fields.TOTAL: lambda values: sum(values) if values else None,
    fields.MEDIAN: lambda values: int(median(values)) if values and None not in values else None,
    fields.MEDIAN_OF_KNOWN: lambda values: (
        int(median(known)) if (known := [value for value in values if value is not None]) else None
    ),
    fields.PERCENTILES: percentiles,
    fields.MEDIANS: _median_counters,
    fields.SHARED_MEDIANS: _median_shared,
    fields.WORST_SHARE: _resident_percent,
    fields.EACH: lambda values: [list(value) for value in values],
    fields.AGREED: lambda values: "lukewarm" if len(set(values)) > 1 else next(iter(values), "none"),
}


def client_cpu_ns(sample: Sample) -> float | None:
    """Returns the CPU time of a sample's clients per item that the throughput counts, in ns."""
    return _cpu_ns(sample.client, sample.items, CLIENT_STEP_NS)


def server_cpu_ns(sample: Sample) -> float | None:
    """Returns the CPU time of the server per item, in ns; None if the phase lasted only a few clock ticks."""
    return _cpu_ns(sample.server, sample.items, SERVER_STEP_NS)


def _cpu_ns(used: Mapping[str, int | None] | None, items: int, step_ns: int) -> float | None:
    if used is not None:
        parts = [used.get(name) for name in ("user_ns", "system_ns")]
    else:
        parts = [None]
    whole = None
    if None not in parts:
        whole = sum(part or 0 for part in parts)
    if whole is None or whole < LEAST_STEPS * step_ns or items <= 0:
        return None
    return whole / items


def _middle(figures: Sequence[float | None]) -> float | None:
    """Returns the median; None if any figure is unknown."""
    known = [figure for figure in figures if figure is not None]
    if known and len(known) == len(figures):
        return float(median(known))
    return None


def _percentiles_of_each(
    declared: Iterable[str], tables: Sequence[Mapping[str, bytes | None]]
) -> dict[str, dict[str, int | None]]:
    """Returns percentiles by name, in the suite's order. Names that the suite doesn't declare come last."""
    names = {name for table in tables for name in table}
    ordered = [*(name for name in declared if name in names), *sorted(names - set(declared))]
    return {name: percentiles(table.get(name) for table in tables) for name in ordered}


def _on_the_wall(sample: Sample, operations: int | None) -> float | None:
    """Returns the operations of an open loop per second of the wall clock; None for one call, which has no rate."""
    if sample.due is None or sample.bulk or operations is None or not sample.wall_ns:
        return None
    return operations / sample.wall_ns * 1e9


def _facts(trials: Sequence[Mapping[str, Fact]]) -> dict[str, Fact]:
    """Returns every fact of any trial, in the trials' order: the median of numbers, or the word that all trials
    share. A fact is None if a trial lacks it, or if words differ."""
    facts: dict[str, Fact] = {}
    for name in dict.fromkeys(name for trial in trials for name in trial):
        values = [trial.get(name) for trial in trials]
        known = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
        if len(known) == len(values):
            middle = median(known)
            whole = middle == int(middle) and all(isinstance(value, int) for value in known)
            facts[name] = int(middle) if whole else middle
        elif len(set(values)) == 1:
            facts[name] = values[0]
        else:
            facts[name] = None
    return facts


def _find_suspicions(samples: Sequence[Sample]) -> Iterator[Suspicion]:
    """Yields what makes the answers of trials suspicious: see the suite `sql`. A single answer is always the same."""
    for code, what, limit in (("empty", "empty", EMPTY_PERCENT), ("same-answer", "same", SAME_PERCENT)):
        shares = [0.0]
        for sample in samples:
            some, judged = sample.facts.get(f"answers_{what}"), sample.facts.get("answers_judged")
            if type(some) is int and type(judged) is int and judged > 1:
                shares.append(100 * some / judged)
        if max(shares) > limit:
            yield Suspicion(code, max(shares))


def _why_not(last: Sequence[Attempt], samples: Sequence[Sample], phase: str) -> str | None:
    """Returns why the cell has no number for the phase; None if it has one. One wrong answer in one trial voids the
    row; crashes only count if no trial reached the phase."""
    for attempt in last:
        if attempt.outcome == "wrong":
            return f"void: {attempt.why}"
    if not last:
        return NOT_YET
    if not samples:
        ended = last[0]
        where = ""
        if ended.phase:
            where = f" in {ended.phase}"
        return f"{ended.outcome}{where}: {ended.why}"
    if all(sample.items <= 0 for sample in samples):
        never_due = all(sample.due == 0 for sample in samples)
        nothing = "nothing was done"
        if never_due:
            nothing = "no operation was due: measure for longer, by --duration"
        return f"error: {samples[0].first_error or nothing}"
    # The mean over trials, because a trial that fails fast has many more operations. An outside tool repeats
    # transactions that the server aborts: these are counted as errors, but are not failures.
    share = fmean(0 if s.reported_by or not s.operations else s.errors / s.operations for s in samples)
    if share > MOST_FAILED:
        first = next(sample.first_error for sample in samples if sample.errors)
        most = f"over {MOST_FAILED * 100:g} % a row has no number"
        return f"error: {share * 100:.1f} % of the operations failed ({most}); the first: {first}"
    return None


# -- whether a run has enough samples -----------------------------------------------------------------------


def widest(run: Run, until: float) -> str | None:
    """Returns a text about the row with the widest interval; None if every interval reaches at most `until` from its
    median.

    Null engines and rows without a number don't count. Checking after each block, and stopping at a lucky one, costs
    some confidence. From six blocks on the loss is small, as `benchmarks/certainty.py` shows.
    """
    rows = [row for row in summarize(run) if row.valid and not row.cell.floor]
    wide = max(rows, key=_reach, default=None)
    if wide is None or _reach(wide) <= until:
        return None
    text = "too few samples"
    if not math.isinf(_reach(wide)):
        text = f"±{_reach(wide) * 100:.1f} %"
    return f"{wide.cell.asked} in {wide.phase}: {text}, wanted ±{until * 100:g} %"


def unsure_floors(run: Run) -> set[int]:
    """Returns the numbers of the null engines' cells whose intervals are so wide that they need another trial."""
    rows = [row for row in summarize(run) if row.valid and row.cell.floor and _reach(row) > FLOOR_REACH]
    return {at for at, cell in enumerate(run.cells) if any(cell is row.cell for row in rows)}


def _reach(row: CellSummary) -> float:
    reach = None
    if row.throughput is not None:
        reach = row.throughput.reach
    if reach is None:
        return math.inf
    return reach
