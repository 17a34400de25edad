"""Reasons to distrust a row's number. Each is printed next to the number with the figure that raised it; the number
itself is not hidden. All texts are in doubts.toml."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from dyno.contracts.histogram import percentiles
from dyno.contracts.limits import CONFIRM, LAST
from dyno.contracts.model import DECIDED, Tier
from dyno.contracts.native_load import CLIENT, NATIVE_CLIENT
from dyno.contracts.pace import LIBRARY_LOAD
from dyno.contracts.probe_time import DISCARDED, needed_operations
from dyno.contracts.rank import LEAST_BEYOND, needed_values
from dyno.fields import Sample
from dyno.results import FLOOR_BLOCKS, Run, is_reference
from dyno.stats.account import DEVICE_WAIT, OTHER_WAIT, make_account
from dyno.stats.capacity import NONE
from dyno.stats.estimate import FEWEST_TRIALS
from dyno.stats.load_limit import (
    BUSY_PERCENT,
    CLIENT_PERCENT,
    CORES_PERCENT,
    busy_percent,
    client_percent,
    cores_percent,
    cpu_ns,
    has_starved_clients,
    server_idled,
)
from dyno.stats.machine import FASTEST_FLUSH_NS, STEAL_PERCENT, Finding, machine_doubts, texts
from dyno.stats.remote import CLOCK_PERCENT, NETWORK_PERCENT, UNEVEN_PERCENT, find_doubts
from dyno.stats.searched import few_operations, machine_limit
from dyno.stats.summary import EMPTY_PERCENT, MOST_FAILED, SAME_PERCENT, CellSummary, summarize

if TYPE_CHECKING:
    from dyno.contracts.decoded_types import Strain

WIDE_PERCENT = 25.0
HARNESS_PERCENT = 10.0
PREEMPTED_PERCENT = 5.0
WAITING_PERCENT = 50.0
SHORT_NS = 10_000_000
ACHIEVED = 0.95
LATE_PERCENT, LATE_NS = 10.0, 50_000
PAUSE_CPU_PERCENT, STOOD_PERCENT = 5.0, 1.0
WAKE_UP_PERCENT = 25.0
STALL_NS, STALL_TIMES = 100_000_000, 10
SWAPPED_BYTES, STRAIN_PERCENT = 1 << 20, 1.0
"""Limits for one trial. STRAIN_PERCENT is the share of its time in which a CPU limit paused it, or processes waited
for memory."""

TAIL = "tail"
"""Code of the doubt why a row lacks its p99. It concerns no other figure."""

_LIMITS = {
    "ACHIEVED_PERCENT": ACHIEVED * 100,
    "BUSY_PERCENT": BUSY_PERCENT,
    "EMPTY_PERCENT": EMPTY_PERCENT,
    "SAME_PERCENT": SAME_PERCENT,
    "CLOCK_PERCENT": CLOCK_PERCENT,
    "NETWORK_PERCENT": NETWORK_PERCENT,
    "UNEVEN_PERCENT": UNEVEN_PERCENT,
    "FAILED_PERCENT": MOST_FAILED * 100,
    "LEAST_BEYOND": LEAST_BEYOND,
    "P99_OPERATIONS": needed_values(99.0),
    "FLUSH_US": FASTEST_FLUSH_NS / 1000,
    "SHORT_MS": SHORT_NS / 1e6,
    "STALL_S": STALL_NS / 1e9,
    "SWAPPED_MIB": SWAPPED_BYTES >> 20,
}
_ROWS = texts("doubts.toml", {**globals(), **_LIMITS})
MEANINGS = {code: row["meaning"] for code, row in _ROWS.items() if "meaning" in row}
"""Lines of the legend, by code."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A reason to distrust a number. `short` is printed in the table's row; `text` is the whole sentence with its
    figures."""

    code: str
    short: str
    text: str


def _doubt(code: str, short: str, sentence: str | None = None, **values: object) -> Doubt:
    return Doubt(code, short, _ROWS[sentence or code]["text"].format(**values))


def doubts(row: CellSummary, run: Run) -> list[Doubt]:
    """Returns all doubts about a row's number."""
    judges = (
        *(_trials, _time, _tail, _pauses, _idle, _open, _search, _stall, _temperature, _bottleneck),
        *(_wake_ups, _waiting, _failures, _device, _circumstances, _answers, _machines, _server),
    )
    return list(chain.from_iterable(judge(row, run) for judge in judges))


def machine(run: Run) -> list[Finding]:
    """Returns the findings on the run's machine that are more than remarks."""
    return [finding for finding in machine_doubts(run.header.host) if finding.severity != "ok"]


def _trials(row: CellSummary, run: Run) -> Iterator[Doubt]:
    if not row.valid or row.searched is not None:
        return
    # A trial in which every operation failed has a sample but no throughput.
    have, planned = sum(s.items > 0 for s in row.samples), run.blocks
    if is_reference(run.cells, row.cell):
        # A null engine among other engines has only as many trials as its interval needs.
        planned = max(min(planned, FLOOR_BLOCKS), len({attempt.block for attempt in row.attempts}))
    elif run.plan.until == DECIDED:
        # A row takes no further trial when its comparisons are decided.
        planned = max(min(planned, run.plan.samples), len({attempt.block for attempt in row.attempts}))
    if have < FEWEST_TRIALS:
        yield _doubt("few", f"{have} trial{'s' * (have != 1)}", have=have, needed=FEWEST_TRIALS)
    if have < planned:
        yield _doubt("partial", f"{have} of {planned}", have=have, planned=planned)
    percent = ((row.throughput.reach if row.throughput else None) or 0.0) * 100
    if percent > WIDE_PERCENT:
        yield _doubt("wide", "wide", percent=percent)


def _time(row: CellSummary, run: Run) -> Iterator[Doubt]:
    for budget, name in {"budget": "the time budget", "checks": "the time for Dyno's checks"}.items():
        ended = [sample for sample in row.samples if sample.ended_by == budget]
        if ended:
            done = min(sample.operations for sample in ended)
            yield _doubt("budget", "budget", name=name, ended=len(ended), trials=len(row.samples), done=done)
    if row.cell.floor or not row.samples:
        return
    # The times of several clients are not separate, and an open loop waits until operations are due.
    single = [s for s in row.samples if s.clients == 1 and s.elapsed_ns > 0 and s.response is None]
    preempted = max((_core_wait_percent(sample) for sample in row.samples), default=0.0)
    if preempted > PREEMPTED_PERCENT:
        yield _doubt("preempted", f"preempted {preempted:.0f} %", percent=preempted)
    # What other processes took is not Dyno's own.
    percent = max(
        ((1 - sample.busy_ns / sample.elapsed_ns) * 100 - _core_wait_percent(sample) for sample in single),
        default=0.0,
    )
    if percent > HARNESS_PERCENT:
        yield _doubt("harness", f"harness {percent:.0f} %", percent=percent)
    shortest = min(sample.elapsed_ns for sample in row.samples)
    if shortest < SHORT_NS:
        yield _doubt("short", "short", ms=shortest / 1e6)


def _waiting(row: CellSummary, run: Run) -> Iterator[Doubt]:
    """Yields a doubt about programs that mostly waited: how fast they compute says little then."""
    if not row.about.reported or row.reported_by is not None or row.cell.floor:
        return
    account = make_account(run, row)
    if account is None:
        return
    waited = sum(account.mean_parts_ns.get(part, 0.0) for part in (DEVICE_WAIT, OTHER_WAIT))
    percent = 100 * waited / account.mean_total_ns
    if percent > WAITING_PERCENT:
        yield _doubt("waiting", f"waiting {percent:.0f} %", percent=percent)


def _core_wait_percent(sample: Sample) -> float:
    """Returns the share of the measured time in which the clients waited for a core, in percent. 0 if it is
    unknown."""
    waited = (sample.client or {}).get("core_wait_ns") or 0
    return min(waited / sample.clients / sample.elapsed_ns, 1.0) * 100 if sample.elapsed_ns else 0.0


def _tail(row: CellSummary, run: Run) -> Iterator[Doubt]:
    """Yields a doubt about operations that are too few for a p99."""
    if row.latency_ns["p50"] is not None and row.latency_ns["p99"] is None:
        count = sum(sample.operations - sample.errors for sample in row.samples)
        yield _doubt(TAIL, "tail", count=count)


def _pauses(row: CellSummary, run: Run) -> Iterator[Doubt]:
    """Yields doubts about an engine's work while the clock was stopped, and about pauses of an open loop's schedule.
    The worst trial counts."""
    samples = [sample for sample in row.samples if sample.wall_ns]
    shared = [sample for sample in samples if sample.clients > 1 or sample.server is not None]
    # The CPU time in pauses, as a percentage of that which clients and server used under load; 0 if unknown.
    loads = [(sample, cpu_ns(sample.client) + cpu_ns(sample.server)) for sample in shared]
    shares = [((sample.pause_cpu_ns or 0) / under * 100 if under else 0.0, sample) for sample, under in loads]
    percent, worst = max(shares, key=lambda pair: pair[0], default=(0.0, None))
    if worst is not None and percent > PAUSE_CPU_PERCENT:
        loaded = worst.elapsed_ns / (worst.wall_ns or 1) * 100
        yield _doubt("pauses", f"pauses {percent:.0f} %", percent=percent, loaded=loaded)
    opened = [sample for sample in samples if sample.response is not None]
    still = min(opened, key=lambda sample: sample.elapsed_ns / (sample.wall_ns or 1), default=None)
    if still is not None and (percent := (1 - still.elapsed_ns / (still.wall_ns or 1)) * 100) > STOOD_PERCENT:
        seconds = (still.wall_ns or 1) / 1e9
        offered = ""
        if still.due is not None:
            offered = f"{still.due / seconds:,.0f} operations a second were offered and "
        served = (still.operations - still.errors) / seconds
        short = f"stood {percent:.0f} %"
        yield _doubt("pauses", short, "pauses of schedule", percent=percent, offered=offered, served=served)


def _idle(row: CellSummary, run: Run) -> Iterator[Doubt]:
    """Yields a doubt about clients of a closed loop that did not always have an operation under way, of which the
    worst trial counts, and one about clients that were hardly served."""
    shares = [(share, sample) for sample in row.samples if (share := busy_percent(sample)) is not None]
    percent, worst = min(shares, key=lambda pair: pair[0], default=(100.0, None))
    if worst is not None and percent < BUSY_PERCENT:
        busy = {"busy": worst.clients * percent / 100, "clients": worst.clients}
        yield _doubt("idle", f"idle {100 - percent:.0f} %", None, percent=percent, **busy)
    if (unfair := next(filter(has_starved_clients, row.samples), None)) is not None:
        yield _doubt("unfair", "unfair", least=unfair.least_served, fair=unfair.fair_share)


def _open(row: CellSummary, run: Run) -> Iterator[Doubt]:
    """Yields doubts about an open loop that did not keep its rate, because of the engine or of Dyno."""
    rate = row.cell.params.get("rate") if row.searched is None else 0
    if isinstance(rate, (int, float)) and (row.about.reported or any(s.bulk for s in row.samples)):
        yield _doubt("unpaced", "unpaced")
    if row.response_ns["p50"] is None or not isinstance(rate, (int, float)):
        return
    shares = list[tuple[float, int, Sample]]()
    for sample in row.samples:
        # Old run files lack the number of operations due.
        due = round(rate * sample.elapsed_ns / 1e9) if sample.due is None else sample.due
        shares.append(((sample.operations - sample.errors) / due if due else 1.0, due, sample))
    share, due, worst = min(shares, key=lambda each: each[0])
    if row.throughput is not None and share < ACHIEVED:
        done = worst.operations - worst.errors
        reached = done / worst.elapsed_ns * 1e9
        text = f"{reached:,.0f}" if reached >= 100 else f"{reached:.3g}"
        yield _doubt("overload", f"{share * 100:.0f} % of rate", done=done, due=due, rate=text)
    # Checks the p99 first, then the p99.9. Clients in threads wait for each other, which lengthens both lateness and
    # response times. With too few operations for a p99, the highest known percentile is checked.
    first = next(key for key in ("p99", "p95", "p90", "p50") if row.response_ns[key] is not None)
    percentiles_judged = () if worst.machines else ((first, "late", first), ("p999", "late p99.9", "p99.9"))
    for key, short, name in percentiles_judged:
        response, late = row.response_ns[key], row.late_ns[key]
        if response is not None and late is not None and late > LATE_NS and late * 100 > response * LATE_PERCENT:
            threads = any(sample.threads for sample in row.samples)
            lock = "; its clients are threads, which wait for the interpreter's lock, also during operations"
            micros = {"late": late / 1000, "response": response / 1000}
            yield _doubt("late", short, None, name=name, threads=lock if threads else "", **micros)
            return


def _machines(row: CellSummary, run: Run) -> Iterator[Doubt]:
    """Yields doubts about clients on other machines."""
    consequence = ""
    if row.limit is not None:
        consequence = _ROWS["not compared"]["text"]
    for each in find_doubts(row.samples, row.latency_ns["p50"], consequence):
        yield _doubt(each.code, each.short, each.sentence, **each.values)


def _search(row: CellSummary, run: Run) -> Iterator[Doubt]:
    """Yields doubts about a capacity: a limit that the machine itself breaks, probes that were too short, and a last
    probe that did not see the engine's occasional work."""
    search = row.searched
    if search is None:
        return
    for floor in summarize(run):
        alike = floor.cell.floor and (floor.phase, floor.cell.params) == (row.phase, row.cell.params)
        if not alike or floor.searched is None or (row.cell.floor and floor.searched.capacity.kind != NONE):
            # A null engine's own capacity is the machine's anyway.
            continue
        holds = machine_limit(search, floor.searched, run.limits)
        if holds is not None:
            yield _doubt("machine", "machine", engine=floor.cell.label, holds=holds)
    limit = min(run.limits, key=lambda limit: limit.share).text
    confirming = sum(probe.stage == CONFIRM and not probe.failed for probe in search.probes)
    for stage, sentence in ((CONFIRM, "brief"), (LAST, "brief last")):
        if few := few_operations(search, run.limits, stage):
            needed = needed_operations(run.limits, stage) * (1 - DISCARDED)
            counts = {"few": len(few), "probes": confirming, "least": min(few), "needed": needed}
            yield _doubt("brief", "brief", sentence, limit=limit, **counts)
    for sample in row.samples:
        for what, count in sample.maintenance.items():
            if not count:
                yield _doubt("unseen", "unseen", what=what, seconds=sample.elapsed_ns / 1e9)


def _stall(row: CellSummary, run: Run) -> Iterator[Doubt]:
    """Yields a doubt about the longest operation if it took far longer than others: no percentile shows it."""
    # In a mix of kinds, the slowest kind's p95 is used: a rare commit is not a stall of the reads around it.
    kinds = row.latency_by_kind_ns.values()
    typical = max(times["p95"] or times["p50"] or 0 for times in (row.latency_ns, *kinds))
    longest = row.latency_ns["max"]
    if longest is None or longest <= max(STALL_NS, STALL_TIMES * typical):
        return
    worst = max(row.samples, key=lambda sample: percentiles([sample.histogram])["max"] or 0)
    moment = ""
    if worst.slowest_at_ns is not None:
        moment = f" at {worst.slowest_at_ns / 1e9:.1f} s"
    began = moment and f", and began{moment} of the phase"
    short = f"stall {longest / 1e9:.1f} s{moment}"
    yield _doubt("stall", short, longest=longest / 1e9, began=began, typical=typical / 1e6)


def _temperature(row: CellSummary, run: Run) -> Iterator[Doubt]:
    if row.temperature == "lukewarm":
        percent = row.resident_percent
        resident = ""
        if percent is not None:
            resident = f"; {percent:.1f} % of its files were in the page cache"
        yield _doubt("lukewarm", "lukewarm", resident=resident)


def _bottleneck(row: CellSummary, run: Run) -> Iterator[Doubt]:
    """Yields doubts about clients that may be the limit themselves, and about clients that share cores. See
    `dyno.stats.load_limit` for rows that are not compared."""
    available = run.header.host.cpu.usable_cores
    consequence = ""
    if row.limit is not None:
        consequence = _ROWS["not compared"]["text"]
    clients = 0.0
    for sample in (sample for sample in row.samples if not sample.machines):
        used = client_percent(sample, available)
        if used is None and sample.server is not None:
            # In an earlier file, the share is that of one client's time.
            used = cpu_ns(sample.client) / sample.clients / max(sample.elapsed_ns, 1) * 100
        clients = max(clients, used or 0.0)
    if clients > CLIENT_PERCENT:
        known = any(sample.load_processes is not None for sample in row.samples)
        sentence = "client of processes" if known else "client"
        yield _doubt("client", f"client {clients:.0f} %", sentence, percent=clients, consequence=consequence)
    both = max((cores_percent(sample, available) or 0.0 for sample in row.samples), default=0.0)
    most = max((sample.clients for sample in row.samples), default=1)
    if both > CORES_PERCENT:
        yield _doubt("cores", "cores", percent=both, cores=available, consequence=consequence)
    embedded = all(s.server is None and s.load is None and s.reported_by is None for s in row.samples)
    if available and most > available and embedded and not row.cell.floor:
        yield _doubt("cores", "cores", "cores of clients", clients=most, cores=available)
    if row.cell.options.get(CLIENT) == NATIVE_CLIENT and any(s.load == LIBRARY_LOAD for s in row.samples):
        yield _doubt("library", "library")


def _server(row: CellSummary, run: Run) -> Iterator[Doubt]:
    if row.valid and not row.cell.floor and server_idled(row.samples):
        yield _doubt("server-idle", "server-idle", operations=sum(sample.operations for sample in row.samples))


def _wake_ups(row: CellSummary, run: Run) -> Iterator[Doubt]:
    """Yields a doubt about processes that wait for each other on cores that may sleep. The worst trial counts."""
    wakeups = run.header.host.wakeups
    cost_ns = None if wakeups is None else wakeups.cost_ns
    if not cost_ns or run.plan.awake or row.cell.floor:
        return
    percent = 0.0
    count = 0
    worst = None
    for sample in (s for s in row.samples if s.server is not None or s.clients > 1):
        # An upper limit of the wake-ups: how often clients and server gave up their core to wait. An open loop's
        # waits for due operations are in no latency, so they don't count.
        switches = [used.get("voluntary_switches") for used in (sample.client, sample.server) if used is not None]
        known = [switch for switch in switches if switch is not None]
        wake_ups = sum(known) - (0 if sample.response is None else sample.operations)
        share = wake_ups * cost_ns / max(sample.busy_ns, 1) * 100
        if len(known) == len(switches) and share > percent:
            percent = share
            count = wake_ups
            worst = sample
    if worst is not None and percent > WAKE_UP_PERCENT:
        percent, operations = min(percent, 100.0), max(worst.operations, 1)
        figures = {"count": count / operations, "busy": worst.busy_ns / operations / 1000}
        yield _doubt("wake-ups", f"wake-ups {percent:.0f} %", None, cost=cost_ns / 1000, percent=percent, **figures)


def _failures(row: CellSummary, run: Run) -> Iterator[Doubt]:
    errors = sum(sample.errors for sample in row.samples)
    if errors:
        first = next(sample.first_error for sample in row.samples if sample.errors)
        operations = sum(sample.operations for sample in row.samples)
        yield _doubt("errors", f"{errors:,} errors", errors=errors, operations=operations, first=first)
    if row.searched is not None:
        if row.valid and (lost := row.searched.lost):
            short = f"{len(lost)} lost"
            yield _doubt("attempts", short, "lost probes", lost=len(lost), last=lost[-1])
        return
    failed = [attempt for attempt in row.attempts if attempt.outcome != "ok"]
    if failed and row.valid:
        outcomes = ", ".join(sorted({attempt.outcome for attempt in failed}))
        where = ""
        if failed[0].phase:
            where = f" (in {failed[0].phase})"
        counts = {"failed": len(failed), "attempts": len(row.attempts)}
        yield _doubt("attempts", outcomes, None, first=failed[0].why, where=where, **counts)


def _device(row: CellSummary, run: Run) -> Iterator[Doubt]:
    """Yields doubts about a work directory in memory, and about commits of tier power that are too fast."""
    filesystem = run.header.host.filesystem
    if filesystem.ram_backed:
        if row.cell.tier is not Tier.VOLATILE and not row.cell.floor:
            yield _doubt("ram", "ram", filesystem=filesystem.type)
        return
    writes = [sample for sample in row.samples if sample.settled is not None and not sample.bulk]
    if row.cell.tier is not Tier.POWER or row.cell.floor or not writes:
        return
    kinds = row.latency_by_kind_ns
    # The kinds that write, if the run file says which ones do.
    writing = [kind for kind, writes in row.about.kinds.items() if writes and kind in kinds]
    if kinds:
        medians = [kinds[kind]["p50"] for kind in writing]
    else:
        medians = [row.latency_ns["p50"]]
    fastest = min((ns for ns in medians if ns is not None), default=None)
    if fastest is not None and fastest < FASTEST_FLUSH_NS:
        yield _doubt("flush", "flush", micros=fastest / 1000)


def _circumstances(row: CellSummary, run: Run) -> Iterator[Doubt]:
    """Yields doubts about an engine that was not at rest, an interpreter other than Dyno's, and the machine's state
    during the trials of the row's samples (see `dyno.host.facts.subtract_counters`). The worst trial counts."""
    if not row.valid:
        return
    restless = sum(sample.settled is False for sample in row.samples)
    if restless:
        yield _doubt("unsettled", "unsettled", restless=restless, trials=len(row.samples))
    usual = run.header.host.python.version
    loops = [attempt.loop for attempt in row.attempts if attempt.loop is not None]
    others = {loop["python"]: loop["name"] for loop in loops if loop.get("python", usual) != usual}
    if usual is not None and others:
        version, name = next(iter(others.items()))
        yield _doubt("interpreter", f"Python {version}", loop=name, version=version, usual=usual)
    last = {attempt.block: attempt for attempt in row.attempts}.values()
    trials = [attempt.strain for attempt in last if any(sample.phase == row.phase for sample in attempt.samples)]
    steal = _find_worst(trials, "steal_percent")
    if steal > STEAL_PERCENT:
        yield _doubt("steal", f"steal {steal:.0f} %", percent=steal)
    swapped = max(_find_worst(trials, "swapped_in_bytes"), _find_worst(trials, "swapped_out_bytes"))
    if swapped > SWAPPED_BYTES:
        yield _doubt("swap", "swap", mib=swapped / (1 << 20))
    throttled, hot = _find_worst(trials, "throttled_ns", percent=True), _find_worst(trials, "thermal_throttles")
    if throttled > STRAIN_PERCENT:
        yield _doubt("throttled", "throttled", percent=throttled)
    elif hot:
        yield _doubt("throttled", "throttled", "throttled by heat", times=hot)
    stalled = _find_worst(trials, "memory_stall_ns", percent=True)
    if stalled > STRAIN_PERCENT:
        yield _doubt("memory", "memory", percent=stalled)


def _find_worst(trials: Sequence[Strain], name: str, percent: bool = False) -> float:
    """Returns the largest value of all trials, or 0; with `percent`, as a percentage of the trial's time."""
    values = [0.0]
    for trial in trials:
        value = trial.get(name)
        elapsed_ns = trial.get("elapsed_ns")
        if value is not None and not percent:
            values.append(value)
        elif value is not None and elapsed_ns:
            values.append(value / elapsed_ns * 100)
    return max(values)


def _answers(row: CellSummary, run: Run) -> Iterator[Doubt]:
    """Yields doubts about answers that nobody knows beforehand: see the suite `sql`."""
    facts = [sample.facts for sample in row.samples]
    if any(each.get("answers_unchecked") for each in facts):
        yield _doubt("unchecked", "unchecked")

    for suspicion in row.suspicions:
        what = "empty" if suspicion.code == "empty" else "same"
        yield _doubt(suspicion.code, f"{what} {suspicion.percent:.0f} %", percent=suspicion.percent)
    aborts = sum(count for each in facts if type(count := each.get("answers_aborts")) is int)
    if aborts:
        yield _doubt("aborts", f"aborts {aborts:,}", aborts=aborts)
