"""What a run says about each cell and phase: a median over trials, an interval, percentiles, and why not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from dyno.contracts.histogram import percentiles
from dyno.contracts.model import Caveat, Fact, Phase
from dyno.contracts.sample import Cell, Sample
from dyno.results import Attempt, Run, damaged
from dyno.stats.estimate import Estimate, estimate
from dyno.stats.run_cache import cached

NOT_YET = "not measured yet"
# In which the kernel tells a process of its own CPU time, and of another's (its ticks: 100 a second as a rule).
CLIENT_STEP_NS, SERVER_STEP_NS = 1_000, 10_000_000
MOST_FAILED = 0.01
"""The share of failed operations, the mean over trials, above which a row has no number: latencies and throughput are
of operations that succeeded, and would say nothing of the rest. A p99 stays within what 1 % can move."""
LEAST_STEPS = 5
"""Of fewer, what is rounded is too large a part. Times of user mode and of the kernel are each rounded down, at both
ends of a phase: that is one step either way, twice; 0.6 of a step as a standard deviation."""


@dataclass(frozen=True, slots=True)
class CellSummary:
    """One row of the table: a cell and a phase."""

    cell: Cell
    phase: str
    about: Phase
    """What the suite says of the phase."""
    reported_by: str | None
    """The outside tool that did and measured the work; of several, all of them. None for what Dyno timed itself."""
    valid: bool
    why: str | None
    """Why there is no number: void, crash, errors; None for a valid row."""
    samples: tuple[Sample, ...]
    """The samples that count: none for a row that is not valid."""
    blocks: tuple[int, ...]
    """Of the samples."""
    unit: str
    throughput: Estimate | None
    bandwidth: Estimate | None
    """Bytes a second; None where the suite does not tell what operations move."""
    items: int | None
    elapsed_ns: int | None
    bytes: int | None
    """What the operations of one trial moved."""
    wall_ns: int | None
    """From the first call to the last return, Dyno's pauses in it."""
    pause_cpu_ns: int | None
    due: int | None
    """Operations that were due; None in a closed loop."""
    offered_per_second: float | None
    """Operations that were due, and that succeeded, a second of the wall clock; None in a closed loop."""
    served_per_second: float | None
    latency_ns: dict[str, int | None]
    latency_by_kind_ns: dict[str, dict[str, int | None]]
    """For a phase that mixes kinds of operations: one median of reads and writes says little of either."""
    latency_by_part_ns: dict[str, dict[str, int | None]]
    """Each named part of the latencies, in the suite's order; empty where operations do not tell them apart."""
    response_ns: dict[str, int | None]
    """From when an operation was due; all None in a closed loop."""
    late_ns: dict[str, int | None]
    """By how much the harness itself was late; all None in a closed loop."""
    operations: int | None
    bytes_on_disk: int | None
    temperature: str
    """'lukewarm' where one trial was; 'none' where the phase asks for none."""
    resident_percent: float | None
    """Of a cold phase: what was in the page cache when it began, in the worst trial."""
    client: dict[str, int | None] | None
    """What the client's processes used, by the median over trials of each."""
    server: dict[str, int | None] | None
    """The same of the engine's server; None where it has none."""
    client_cpu_ns: float | None
    """CPU time of the clients for each item, in user mode and in the kernel: the median over trials. None where a
    trial does not know its own."""
    server_cpu_ns: float | None
    """The same of the engine's server; None, too, where it has none."""
    write_amplification: float | None
    """Bytes sent to the device for each byte that the application gave to be stored, by the median over trials."""
    facts: dict[str, Fact]
    """What the suite tells of the store after the phase: the median over trials of each; of words, what all say."""
    trial_facts: dict[str, Fact]
    """The same of the trial as a whole."""
    version: str | None
    settings: Mapping[str, Any] | None
    caveats: tuple[Caveat, ...]
    attempts: tuple[Attempt, ...]
    """Every attempt at the cell, failed ones included."""


@dataclass(frozen=True, slots=True)
class Absence:
    """A phase that makes no sense for a cell's engine."""

    cell: Cell
    phase: str
    why: str


def absences(run: Run) -> list[Absence]:
    """Cells and phases that are in the plan and not in the summary, since no trial could have them."""
    found = {
        (attempt.cell, phase): Absence(run.cells[attempt.cell], phase, why)
        for attempt in run.attempts
        for phase, why in attempt.absent.items()
    }
    return list(found.values())


def summarize(run: Run) -> list[CellSummary]:
    """A summary of every cell and phase of the plan, in the plan's order, measured or not.

    Without those that make no sense for their engine. Raises UsageError for a run file that is damaged.
    """
    return list(_summaries(run))


@cached
def _summaries(run: Run) -> tuple[CellSummary, ...]:
    absent = {(id(found.cell), found.phase) for found in absences(run)}
    attempts: dict[int, list[Attempt]] = defaultdict(list)
    for attempt in run.attempts:
        attempts[attempt.cell].append(attempt)
    try:
        return tuple(
            _summary(cell, tuple(attempts[at]), run.phases[phase])
            for phase in run.plan["phases"]
            for at, cell in enumerate(run.cells)
            if (id(cell), phase) not in absent
        )
    except (TypeError, ValueError) as error:
        # A histogram that can't be decoded: it is not looked at before.
        raise damaged(run.path, error) from None


def _summary(cell: Cell, attempts: tuple[Attempt, ...], declared: Phase) -> CellSummary:
    phase = declared.name
    last = {a.block: a for a in attempts}.values()
    found = [(a.block, sample) for a in last for sample in a.samples if sample.phase == phase]
    every = [sample for _, sample in found]
    why = _void(attempts, phase) or _why_not(list(last), every, phase)
    counted = tuple(every) if why is None else ()
    # What a suite tells of its store stands without a number too: how many requests of a burst were throttled.
    described = () if why is not None and why.startswith("void") else tuple(every)
    rates = [rate for sample in counted if (rate := sample.per_second) is not None]
    about = next((a for a in last if a.version is not None), None)
    sizes = [s.bytes_on_disk for s in counted if s.bytes_on_disk is not None]
    caveats = about.caveats if about else ()
    tools = {sample.reported_by for sample in every if sample.reported_by is not None}
    return CellSummary(
        cell=cell,
        phase=phase,
        about=declared,
        reported_by=" and ".join(sorted(tools)) or None,
        valid=why is None,
        why=why,
        samples=counted,
        blocks=tuple(block for block, _ in found) if why is None else (),
        unit=every[0].unit if every else "op",
        throughput=estimate(rates) if rates else None,
        bandwidth=_known([s.bytes_per_second for s in counted if s.per_second is not None]),
        items=int(median(s.items for s in counted)) if counted else None,
        elapsed_ns=int(median(s.elapsed_ns for s in counted)) if counted else None,
        bytes=_whole([s.bytes for s in counted]),
        wall_ns=_whole([s.wall_ns for s in counted]),
        pause_cpu_ns=_whole([s.pause_cpu_ns for s in counted]),
        due=_whole([s.due for s in counted]),
        offered_per_second=_middle([_on_the_wall(s, s.due) for s in counted]),
        served_per_second=_middle([_on_the_wall(s, s.operations - s.errors) for s in counted]),
        latency_ns=percentiles(s.histogram for s in counted),
        latency_by_kind_ns={
            kind: percentiles(s.by_kind.get(kind) for s in counted)
            for kind in _ordered(declared.kinds, {kind for s in counted for kind in s.by_kind})
        },
        latency_by_part_ns={
            part: percentiles(s.by_part.get(part) for s in described)
            for part in _ordered(declared.parts, {part for s in described for part in s.by_part})
        },
        response_ns=percentiles(s.response for s in counted),
        late_ns=percentiles(s.late for s in counted),
        operations=sum(s.operations for s in counted) if counted else None,
        bytes_on_disk=int(median(sizes)) if sizes else None,
        temperature=_temperature(counted),
        resident_percent=_resident_percent(counted),
        client=_used([s.client for s in counted]),
        server=_used([s.server for s in counted]),
        client_cpu_ns=_middle([client_cpu_ns(s) for s in counted if s.items > 0]),
        server_cpu_ns=_middle([server_cpu_ns(s) for s in counted if s.items > 0]),
        write_amplification=_write_amplification(counted),
        facts=_facts([s.facts for s in described]),
        trial_facts=_facts([a.facts for a in last if a.facts]),
        version=about.version if about else None,
        settings=about.settings if about else None,
        caveats=caveats,
        attempts=attempts,
    )


def _temperature(samples: Sequence[Sample]) -> str:
    found = {sample.temperature for sample in samples}
    return "lukewarm" if len(found) > 1 else next(iter(found), "none")


def _resident_percent(samples: Sequence[Sample]) -> float | None:
    found = [sample.residency for sample in samples if sample.residency]
    if not found or any(not r["file_bytes"] or r["resident_bytes"] is None for r in found):
        return None
    return max(float(r["resident_bytes"] / r["file_bytes"] * 100) for r in found)


def _used(usages: Sequence[Mapping[str, int | None] | None]) -> dict[str, int | None] | None:
    """The median of each counter over the trials; None for one that a trial does not know."""
    known = [usage for usage in usages if usage is not None]
    if not known or len(known) < len(usages):
        return None
    columns = {name: [value for usage in known if (value := usage.get(name)) is not None] for name in known[0]}
    return {name: int(median(found)) if len(found) == len(known) else None for name, found in columns.items()}


def client_cpu_ns(sample: Sample) -> float | None:
    """CPU time of a sample's clients for each item that its throughput counts."""
    return _cpu_ns(sample.client, sample.items, CLIENT_STEP_NS)


def server_cpu_ns(sample: Sample) -> float | None:
    """The same of its server: in a phase of few ticks there is none."""
    return _cpu_ns(sample.server, sample.items, SERVER_STEP_NS)


def _cpu_ns(used: Mapping[str, int | None] | None, items: int, step_ns: int) -> float | None:
    parts = [used.get(name) for name in ("user_ns", "system_ns")] if used is not None else [None]
    whole = None if None in parts else sum(part or 0 for part in parts)
    return None if whole is None or whole < LEAST_STEPS * step_ns or items <= 0 else whole / items


def _middle(figures: Sequence[float | None]) -> float | None:
    """The median; None where one of them is not known."""
    known = [figure for figure in figures if figure is not None]
    return float(median(known)) if known and len(known) == len(figures) else None


def _write_amplification(samples: Sequence[Sample]) -> float | None:
    """None where nothing was sent to the device: an engine in memory does not amplify by nothing. Nor where more
    was taken back than sent: the pages of files that were removed."""
    pairs = [(s.written_bytes, s.payload_bytes) for s in samples]
    ratios = [written / payload for written, payload in pairs if written and written > 0 and payload]
    return float(median(ratios)) if ratios and len(ratios) == len(pairs) else None


def _ordered(declared: Iterable[str], found: Collection[str]) -> list[str]:
    """In the suite's order; what it does not declare, after it."""
    return [*(name for name in declared if name in found), *sorted(set(found) - set(declared))]


def _known(rates: Sequence[float | None]) -> Estimate | None:
    """None where one of them is not known, or nothing moved."""
    known = [rate for rate in rates if rate]
    return estimate(known) if known and len(known) == len(rates) else None


def _whole(figures: Sequence[int | None]) -> int | None:
    middle = _middle(figures)
    return None if middle is None else int(middle)


def _on_the_wall(sample: Sample, operations: int | None) -> float | None:
    """Operations of an open loop in a second of the wall clock."""
    if sample.due is None or operations is None or not sample.wall_ns:
        return None
    return operations / sample.wall_ns * 1e9


def _facts(found: Sequence[Mapping[str, Fact]]) -> dict[str, Fact]:
    """Each that any of them has, in their order."""
    names = dict.fromkeys(name for facts in found for name in facts)
    return {name: _fact([facts.get(name) for facts in found]) for name in names}


def _fact(values: Sequence[Fact]) -> Fact:
    """None where a trial does not know it, and for words that are not the same in all."""
    known = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if len(known) == len(values):
        middle = median(known)
        return int(middle) if middle == int(middle) and all(isinstance(value, int) for value in known) else middle
    return values[0] if len(set(values)) == 1 else None


def _void(attempts: Sequence[Attempt], phase: str) -> str | None:
    """A wrong answer, whatever came of the trial that got it."""
    found = (s.void for a in attempts for s in a.samples if s.phase == phase and s.void is not None)
    return next((f"void: {void}" for void in found), None)


def _why_not(last: Sequence[Attempt], samples: Sequence[Sample], phase: str) -> str | None:
    """Why the cell shows no number for the phase; None where it does.

    One wrong answer in one trial voids it. A trial that never got there by crashing, only if all of them did.
    """
    for attempt in last:
        if attempt.outcome == "wrong":
            return f"void: {attempt.why}"
    if not last:
        return NOT_YET
    if not samples:
        ended = last[0]
        where = f" in {ended.phase}" if ended.phase else ""
        return f"{ended.outcome}{where}: {ended.why}"
    if all(sample.items <= 0 for sample in samples):
        return f"error: {samples[0].first_error or 'nothing was done'}"
    if (share := _failed(samples)) > MOST_FAILED:
        first = next(sample.first_error for sample in samples if sample.errors)
        most = f"over {MOST_FAILED * 100:g} % a row has no number"
        return f"error: {share * 100:.1f} % of the operations failed ({most}); the first: {first}"
    return None


def _failed(samples: Sequence[Sample]) -> float:
    """The share of operations that failed: the mean over trials, since a trial that fails fast has many more. An
    outside tool repeats transactions that the server aborts: those are counted, and no failure of the work."""
    return fmean(0 if s.reported_by or not s.operations else s.errors / s.operations for s in samples)
