"""Reasons to distrust a number, each with the figure that raises it. They print beside the number, and hide none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from dyno.contracts.histogram import percentiles
from dyno.contracts.model import Tier
from dyno.contracts.sample import Sample
from dyno.results import FLOOR_BLOCKS, Run, beside
from dyno.stats.estimate import FEWEST_TRIALS
from dyno.stats.machine import FASTEST_FLUSH_NS, Finding, cores, machine_doubts
from dyno.stats.stop_rule import reach
from dyno.stats.strain import STRAINS, strained
from dyno.stats.summary import MOST_FAILED, CellSummary

WIDE_PERCENT = 25.0
HARNESS_PERCENT = 10.0
SHORT_NS = 10_000_000
CLIENT_PERCENT = 80.0
CORES_PERCENT = 90.0
ACHIEVED = 0.95
LATE_PERCENT, LATE_NS = 10.0, 50_000
PAUSE_CPU_PERCENT, STOOD_PERCENT = 5.0, 1.0
WAKE_UP_PERCENT = 25.0
STALL_NS, STALL_TIMES = 100_000_000, 10

MEANINGS = {
    "few": f"few trials: under {FEWEST_TRIALS}, too few for an interval",
    "wide": f"wide: the 95 % interval reaches more than {WIDE_PERCENT:g} % from the median; more samples narrow it",
    "budget": "budget: the time budget ended the phase before all its operations were done",
    "harness": f"harness: Dyno's own loop took over {HARNESS_PERCENT:g} % of the measured time; the latencies are"
    " free of it, the throughput is not",
    "short": f"short: a trial measured for less than {SHORT_NS / 1e6:g} ms, in which a single hiccup weighs much",
    "errors": "errors: operations that failed, which are in neither latencies nor throughput; a row of which over"
    f" {MOST_FAILED * 100:g} % failed has no number",
    "attempts": "attempts: trials that did not end well; what is shown comes from the others, or from before",
    "partial": "partial: not every trial of the plan has a sample of this phase",
    "ram": "ram: the work directory is in memory, so nothing was flushed to a device",
    "flush": f"flush: a commit of tier power took under {FASTEST_FLUSH_NS / 1000:g} µs, too fast for any device",
    "lukewarm": "lukewarm: asked to be hot or cold, and not proven to have been",
    "client": f"client: the client's own CPU time was over {CLIENT_PERCENT:g} % of the time; the server may do more",
    "cores": f"cores: client and server together took over {CORES_PERCENT:g} % of all cores, from each other",
    "overload": f"overload: less than {ACHIEVED * 100:g} % of the rate that was asked for was reached; response times"
    " grow for as long as it lasts",
    "unpaced": "unpaced: the phase is one call over all its items, of which no rate can be asked",
    "pauses": f"pauses: between slices Dyno stops the clock; the engine and its server worked on meanwhile, for over"
    f" {PAUSE_CPU_PERCENT:g} % of the CPU time that they used under load; or an open loop's schedule stood still for"
    f" over {STOOD_PERCENT:g} % of the time",
    "late": f"late: Dyno itself began operations late, by over {LATE_PERCENT:g} % of the p99 or p99.9 of response",
    "stall": f"stall: an operation took over {STALL_NS / 1e9:g} s, and over {STALL_TIMES} times the p95; with"
    " the moment of the phase at which it began",
    "wake-ups": f"wake-ups: waking up sleeping cores could be over {WAKE_UP_PERCENT:g} % of the latency: the"
    " machine's work, and not the engine's; --awake measures without",
    "unsettled": "unsettled: the engine was still at work when its size was taken",
    "interpreter": "interpreter: measured in another version of Python than Dyno's own, by the loop that is there",
    **STRAINS,
}


@dataclass(frozen=True, slots=True)
class Doubt:
    """`short` stands in the table's row; `text` is the whole sentence, figures included."""

    code: str
    short: str
    text: str


def doubts(row: CellSummary, run: Run) -> list[Doubt]:
    """Everything that speaks against a row's number."""
    judges = (
        _trials,
        _spread,
        _time,
        _pauses,
        _open,
        _stall,
        _temperature,
        _bottleneck,
        _wake_ups,
        _failures,
        _machine,
        _flush,
        _rest,
        _interpreter,
        _strain,
    )
    return list(chain.from_iterable(judge(row, run) for judge in judges))


def _trials(row: CellSummary, run: Run) -> Iterator[Doubt]:
    if not row.valid:
        return
    # A trial in which every operation raised has a sample and no throughput.
    have, planned = sum(s.items > 0 for s in row.samples), run.blocks
    if beside(run.cells, row.cell):
        # It has those that its interval needs.
        planned = max(min(planned, FLOOR_BLOCKS), len({attempt.block for attempt in row.attempts}))
    if have < FEWEST_TRIALS:
        yield Doubt("few", f"{have} trial{'s' * (have != 1)}", f"only {have} of the {FEWEST_TRIALS} trials it takes")
    if have < planned:
        yield Doubt("partial", f"{have} of {planned}", f"{have} of {planned} trials have a sample")


def _spread(row: CellSummary, run: Run) -> Iterator[Doubt]:
    percent = (reach(row.throughput) or 0.0) * 100
    if percent > WIDE_PERCENT:
        yield Doubt("wide", "wide", f"the interval reaches {percent:.0f} % from the median")


def _time(row: CellSummary, run: Run) -> Iterator[Doubt]:
    budgets = {"budget": "the time budget", "checks": "the time for Dyno's checks"}
    for budget, name in budgets.items():
        ended = [sample for sample in row.samples if sample.ended_by == budget]
        if ended:
            done = min(sample.operations for sample in ended)
            where = f"in {len(ended)} of {len(row.samples)} trials, after {done:,} operations or more"
            yield Doubt("budget", "budget", f"{name} ended it {where}")
    if row.cell.floor or not row.samples:
        return
    share = max(_harness_percent(sample) for sample in row.samples)
    if share > HARNESS_PERCENT:
        yield Doubt("harness", f"harness {share:.0f} %", f"the harness took up to {share:.0f} % of the time")
    shortest = min(sample.elapsed_ns for sample in row.samples)
    if shortest < SHORT_NS:
        yield Doubt("short", "short", f"a trial measured for {shortest / 1e6:.2g} ms")


def _harness_percent(sample: Sample) -> float:
    """Of the measured time, what was not the engine's. Zero for several clients, whose times are not known apart,
    and for an open loop, which waits for what is due."""
    if sample.clients > 1 or sample.elapsed_ns <= 0 or sample.response is not None:
        return 0.0
    return max(0.0, (1 - sample.busy_ns / sample.elapsed_ns) * 100)


def _pauses(row: CellSummary, run: Run) -> Iterator[Doubt]:
    """What an engine did while the clock stood still, and what an open loop did not offer in that time. The worst
    trial counts."""
    samples = [sample for sample in row.samples if sample.wall_ns]
    shared = [sample for sample in samples if sample.clients > 1 or sample.server is not None]
    worst = max(shared, key=_pause_percent, default=None)
    if worst is not None and (percent := _pause_percent(worst)) > PAUSE_CPU_PERCENT:
        loaded = worst.elapsed_ns / (worst.wall_ns or 1) * 100
        text = (
            f"while Dyno stopped the clock the engine used {percent:.0f} % of the CPU time that it used under load;"
            f" under load was {loaded:.0f} % of the time"
        )
        yield Doubt("pauses", f"pauses {percent:.0f} %", text)
    opened = [sample for sample in samples if sample.response is not None]
    still = max(opened, key=_stood_percent, default=None)
    if still is not None and (percent := _stood_percent(still)) > STOOD_PERCENT:
        wall = (still.wall_ns or 1) / 1e9
        offered = "" if still.due is None else f"{still.due / wall:,.0f} operations a second were offered and "
        text = (
            f"the schedule stood still for {percent:.1f} % of the time; on the wall clock {offered}"
            f"{(still.operations - still.errors) / wall:,.0f} served"
        )
        yield Doubt("pauses", f"stood {percent:.0f} %", text)


def _pause_percent(sample: Sample) -> float:
    """CPU time in the pauses, of that of clients and server under load; zero where either is not known."""
    under = _cpu_ns(sample.client) + _cpu_ns(sample.server)
    return (sample.pause_cpu_ns or 0) / under * 100 if under else 0.0


def _stood_percent(sample: Sample) -> float:
    return (1 - sample.elapsed_ns / sample.wall_ns) * 100 if sample.wall_ns else 0.0


def _open(row: CellSummary, run: Run) -> Iterator[Doubt]:
    """An open loop that did not keep its rate, by the engine's fault or by Dyno's."""
    asked, reached = row.cell.params.get("rate"), row.throughput
    if isinstance(asked, (int, float)) and any(sample.bulk for sample in row.samples):
        yield Doubt("unpaced", "unpaced", "the phase is one call, which was not held to the rate")
    if row.response_ns["p99"] is None or not isinstance(asked, (int, float)):
        return
    worst = min(row.samples, key=lambda sample: _share_done(sample, asked))
    if reached is not None and (share := _share_done(worst, asked)) < ACHIEVED:
        done, due = worst.operations - worst.errors, _due(worst, asked)
        text = (
            f"{done:,} of {due:,} operations that were due were done, {_rate(done / worst.elapsed_ns * 1e9)} a second"
        )
        yield Doubt("overload", f"{share * 100:.0f} % of rate", text)
    yield from _late(row)


def _late(row: CellSummary) -> Iterator[Doubt]:
    """By the p99, or else by the p99.9. Where clients are threads, they wait for each other in both."""
    for name, short, said in (("p99", "late", "p99"), ("p999", "late p99.9", "p99.9")):
        response, late = row.response_ns[name], row.late_ns[name]
        if response is not None and late is not None and late > LATE_NS and late * 100 > response * LATE_PERCENT:
            text = f"Dyno began {late / 1000:,.0f} µs late ({said}), in a response time of {response / 1000:,.0f} µs"
            if any(sample.threads for sample in row.samples):
                text += "; its clients are threads, which wait for the interpreter's lock, inside of operations too"
            yield Doubt("late", short, text)
            return


def _stall(row: CellSummary, run: Run) -> Iterator[Doubt]:
    """One operation far beyond the others, which no percentile shows. The longest one counts."""
    kinds = row.latency_by_kind_ns.values()
    # Of a mix, the slowest kind's p95: a rare commit is no stall of the reads around it.
    typical = max((times["p95"] or 0 for times in (row.latency_ns, *kinds)), default=0)
    longest = row.latency_ns["max"]
    if longest is None or longest <= max(STALL_NS, STALL_TIMES * typical):
        return
    worst = max(row.samples, key=lambda sample: percentiles([sample.histogram])["max"] or 0)
    moment = "" if worst.slowest_at_ns is None else f" at {worst.slowest_at_ns / 1e9:.1f} s"
    began = moment and f", and began{moment} of the phase"
    text = f"an operation took {longest / 1e9:.2f} s{began}; 95 % took {typical / 1e6:.2g} ms or less"
    yield Doubt("stall", f"stall {longest / 1e9:.1f} s{moment}", text)


def _share_done(sample: Sample, rate: float) -> float:
    """The share of the operations due that succeeded."""
    due = _due(sample, rate)
    return (sample.operations - sample.errors) / due if due else 1.0


def _due(sample: Sample, rate: float) -> int:
    # Run files of an earlier version don't count what was due.
    return round(rate * sample.elapsed_ns / 1e9) if sample.due is None else sample.due


def _rate(per_second: float) -> str:
    return f"{per_second:,.0f}" if per_second >= 100 else f"{per_second:.3g}"


def _temperature(row: CellSummary, run: Run) -> Iterator[Doubt]:
    if row.temperature != "lukewarm":
        return
    resident = row.resident_percent
    known = "" if resident is None else f"; {resident:.1f} % of its files were in the page cache"
    yield Doubt("lukewarm", "lukewarm", f"not proven to have been hot or cold{known}")


def _bottleneck(row: CellSummary, run: Run) -> Iterator[Doubt]:
    """Where a server does the work, and the client may be what limits it."""
    shares = [_shares(sample) for sample in row.samples if sample.server is not None]
    if not shares:
        return
    client, both = max(share[0] for share in shares), max(share[1] for share in shares)
    if client > CLIENT_PERCENT:
        yield Doubt("client", f"client {client:.0f} %", f"the client's CPU time was {client:.0f} % of the time")
    there = cores(run.header.get("host", {}))
    if there and both / there > CORES_PERCENT:
        text = f"client and server together took {both / there:.0f} % of {there:g} cores"
        yield Doubt("cores", "cores", text)


def _shares(sample: Sample) -> tuple[float, float]:
    """CPU time of a client, and of clients and server together, in percent of the time."""
    mine, theirs = _cpu_ns(sample.client), _cpu_ns(sample.server)
    elapsed = max(sample.elapsed_ns, 1)
    return mine / sample.clients / elapsed * 100, (mine + theirs) / elapsed * 100


def _wake_ups(row: CellSummary, run: Run) -> Iterator[Doubt]:
    """Where processes wait for each other on cores that may be put to sleep. The worst trial counts."""
    cost_ns = (run.header.get("host", {}).get("wakeups") or {}).get("cost_ns")
    if not cost_ns or run.plan.get("awake") or row.cell.floor:
        return
    shares = [(_woken(sample) * cost_ns / max(sample.busy_ns, 1) * 100, sample) for sample in row.samples]
    percent, worst = max(shares, key=lambda pair: pair[0], default=(0.0, None))
    if worst is not None and percent > WAKE_UP_PERCENT:
        percent, operations = min(percent, 100.0), max(worst.operations, 1)
        text = (
            f"{_woken(worst) / operations:,.1f} wake-ups an operation, of {cost_ns / 1000:,.1f} µs each here, could"
            f" be {percent:.0f} % of its {worst.busy_ns / operations / 1000:,.1f} µs"
        )
        yield Doubt("wake-ups", f"wake-ups {percent:.0f} %", text)


def _woken(sample: Sample) -> int:
    """How often clients and server were woken up, at most: as often as they gave up their core to wait. A client that
    also waits for what is due does so in no latency. Zero where nobody waits for another process, or it is not known.
    """
    used = [found.get("voluntary_switches") for found in (sample.client, sample.server) if found is not None]
    if (sample.server is None and sample.clients == 1) or None in used:
        return 0
    return max(sum(count or 0 for count in used) - (0 if sample.response is None else sample.operations), 0)


def _cpu_ns(used: Mapping[str, int | None] | None) -> int:
    return sum((used or {}).get(name) or 0 for name in ("user_ns", "system_ns"))


def _failures(row: CellSummary, run: Run) -> Iterator[Doubt]:
    errors = sum(sample.errors for sample in row.samples)
    if errors:
        first = next(sample.first_error for sample in row.samples if sample.errors)
        whole = sum(sample.operations for sample in row.samples)
        yield Doubt("errors", f"{errors:,} errors", f"{errors:,} of {whole:,} operations failed; the first: {first}")
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


def _flush(row: CellSummary, run: Run) -> Iterator[Doubt]:
    """Commits of tier power that no device can have seen. In memory they are all fast, and that is said."""
    writes = [sample for sample in row.samples if sample.settled is not None and not sample.bulk]
    ram = (run.header.get("host", {}).get("filesystem") or {}).get("ram_backed")
    if row.cell.tier is not Tier.POWER or row.cell.floor or not writes or ram:
        return
    kinds = row.latency_by_kind_ns
    # Those that the suite says write: of a run file that does not tell, none is suspected.
    writing = [kind for kind, writes in row.about.kinds.items() if writes and kind in kinds]
    commits = [kinds[kind]["p50"] for kind in writing] if kinds else [row.latency_ns["p50"]]
    fastest = min((ns for ns in commits if ns is not None), default=None)
    if fastest is not None and fastest < FASTEST_FLUSH_NS:
        yield Doubt("flush", "flush", f"half of the commits took {fastest / 1000:.1f} µs or less")


def _rest(row: CellSummary, run: Run) -> Iterator[Doubt]:
    restless = sum(sample.settled is False for sample in row.samples)
    if restless:
        text = f"in {restless} of {len(row.samples)} trials the engine had not come to rest when its size was taken"
        yield Doubt("unsettled", "unsettled", text)


def _interpreter(row: CellSummary, run: Run) -> Iterator[Doubt]:
    """Where an engine has an interpreter of its own, as a trial's loop tells it."""
    usual = (run.header.get("host", {}).get("python") or {}).get("version")
    loops = [attempt.loop for attempt in row.attempts if attempt.loop is not None]
    others = {loop["python"]: loop["name"] for loop in loops if loop.get("python", usual) != usual}
    if row.valid and usual is not None and others:
        version, name = next(iter(others.items()))
        text = f"measured by the {name} loop in Python {version}, and not in Python {usual} as Dyno itself runs"
        yield Doubt("interpreter", f"Python {version}", text)


def _strain(row: CellSummary, run: Run) -> Iterator[Doubt]:
    """What the machine suffered while the trials ran that the row's samples come from."""
    last = {attempt.block: attempt for attempt in row.attempts}.values()
    trials = [attempt.strain for attempt in last if any(sample.phase == row.phase for sample in attempt.samples)]
    if row.valid:
        for code, short, text in strained(trials):
            yield Doubt(code, short, text)


def machine(run: Run) -> list[Finding]:
    """What the machine's facts say against the whole run."""
    return [found for found in machine_doubts(run.header.get("host", {})) if found.severity != "ok"]
