"""Reasons to distrust a number, each with the figure that raises it. They print beside the number, and hide none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from dyno.model import Sample, Tier
from dyno.results import Run
from dyno.stats.machine import Finding, machine_doubts
from dyno.stats.summary import FEWEST_TRIALS, CellSummary

WIDE_PERCENT = 25.0
HARNESS_PERCENT = 10.0
SHORT_NS = 10_000_000

MEANINGS = {
    "few": f"few trials: under {FEWEST_TRIALS}, too few for an interval",
    "wide": f"wide: the 95 % interval reaches more than {WIDE_PERCENT:g} % from the median; more samples narrow it",
    "budget": "budget: the time budget ended the phase before all its operations were done",
    "harness": f"harness: Dyno's own loop took over {HARNESS_PERCENT:g} % of the measured time; the latencies are"
    " free of it, the throughput is not",
    "short": f"short: a trial measured for less than {SHORT_NS / 1e6:g} ms, in which a single hiccup weighs much",
    "errors": "errors: operations that raised; they are in the latencies and not in the throughput",
    "attempts": "attempts: trials that did not end well; what is shown comes from the others, or from before",
    "partial": "partial: not every trial of the plan has a sample of this phase",
    "ram": "ram: the work directory is in memory, so nothing was flushed to a device",
}


@dataclass(frozen=True)
class Doubt:
    """`short` stands in the table's row; `text` is the whole sentence, figures included."""

    code: str
    short: str
    text: str


def doubts(row: CellSummary, run: Run) -> list[Doubt]:
    """Everything that speaks against a row's number."""
    found = chain(_trials(row, run), _spread(row), _time(row), _failures(row), _machine(row, run))
    return list(found)


def _trials(row: CellSummary, run: Run) -> Iterator[Doubt]:
    if not row.valid:
        return
    # A trial in which every operation raised has a sample and no throughput.
    have, planned = sum(s.items > 0 for s in row.samples), int(run.plan["samples"])
    if have < FEWEST_TRIALS:
        yield Doubt("few", f"{have} trial{'s' * (have != 1)}", f"only {have} of the {FEWEST_TRIALS} trials it takes")
    if have < planned:
        yield Doubt("partial", f"{have} of {planned}", f"{have} of {planned} trials have a sample")


def _spread(row: CellSummary) -> Iterator[Doubt]:
    found = row.throughput
    if found is None or found.low is None or found.high is None or not found.median:
        return
    reach = max(found.high - found.median, found.median - found.low) / found.median * 100
    if reach > WIDE_PERCENT:
        yield Doubt("wide", "wide", f"the interval reaches {reach:.0f} % from the median")


def _time(row: CellSummary) -> Iterator[Doubt]:
    ended = [sample for sample in row.samples if sample.ended_by == "budget"]
    if ended:
        done = min(sample.operations for sample in ended)
        where = f"in {len(ended)} of {len(row.samples)} trials, after {done:,} operations or more"
        yield Doubt("budget", "budget", f"the time budget ended it {where}")
    if row.cell.floor or not row.samples:
        return
    share = max(_harness_percent(sample) for sample in row.samples)
    if share > HARNESS_PERCENT:
        yield Doubt("harness", f"harness {share:.0f} %", f"the harness took up to {share:.0f} % of the time")
    shortest = min(sample.elapsed_ns for sample in row.samples)
    if shortest < SHORT_NS:
        yield Doubt("short", "short", f"a trial measured for {shortest / 1e6:.2g} ms")


def _harness_percent(sample: Sample) -> float:
    """Of the measured time, what was not the engine's. Zero for several clients, whose times are not known apart."""
    if sample.clients > 1 or sample.elapsed_ns <= 0:
        return 0.0
    return max(0.0, (1 - sample.busy_ns / sample.elapsed_ns) * 100)


def _failures(row: CellSummary) -> Iterator[Doubt]:
    errors = sum(sample.errors for sample in row.samples)
    if errors:
        first = next(sample.first_error for sample in row.samples if sample.errors)
        whole = sum(sample.operations for sample in row.samples)
        yield Doubt("errors", f"{errors:,} errors", f"{errors:,} of {whole:,} operations raised; the first: {first}")
    failed = [attempt for attempt in row.attempts if attempt.outcome != "ok"]
    if failed and row.valid:
        kinds = ", ".join(sorted({attempt.outcome for attempt in failed}))
        text = f"{len(failed)} of {len(row.attempts)} attempts did not end well; the first: {failed[0].why}"
        where = f" (in {failed[0].phase})" if failed[0].phase else ""
        yield Doubt("attempts", kinds, text + where)


def _machine(row: CellSummary, run: Run) -> Iterator[Doubt]:
    filesystem = run.header.get("host", {}).get("filesystem") or {}
    if filesystem.get("ram_backed") and row.cell.tier is not Tier.VOLATILE and not row.cell.floor:
        yield Doubt("ram", "ram", f"the work directory is on {filesystem.get('type')}, which is memory")


def machine(run: Run) -> list[Finding]:
    """What the machine's facts say against the whole run."""
    return [found for found in machine_doubts(run.header.get("host", {})) if found.severity != "ok"]
