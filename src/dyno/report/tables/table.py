"""The rows of a run as every report shows them: grouped by phase and tier, then by parameters; best first, the
floor last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from statistics import median

from dyno.contracts.histogram import curve
from dyno.contracts.model import TIERS, Tier
from dyno.report.tables import row_titles, units
from dyno.results import Run
from dyno.stats.doubts import ACHIEVED, MEANINGS, Doubt, doubts
from dyno.stats.estimate import Estimate
from dyno.stats.metric import BANDWIDTH, Metric, estimated, rank
from dyno.stats.run_cache import cached
from dyno.stats.summary import NOT_YET, CellSummary, absences, summarize

BY = ", by "
BEYOND = 10


@dataclass(frozen=True)
class Row:
    """A summary and what is to be said beside it."""

    summary: CellSummary
    doubts: tuple[Doubt, ...]
    tool: str | None = None
    """What measured the rows that it stands with; None for Dyno itself."""
    apart: bool = False
    """Whether the phase has rows that something else measured, which are in a table of their own."""

    @property
    def place(self) -> str:
        """The phase, and the tool where that is not the same for all of it."""
        return f"{self.summary.phase}{BY}{self.tool}" if self.apart and self.tool else self.summary.phase

    @property
    def name(self) -> str:
        """What stands in a table for people."""
        return self.summary.cell.label + (" (floor)" if self.summary.cell.floor else "")

    @cached_property
    def speed(self) -> float | None:
        """What it is ranked by: more is better."""
        return rank(self.summary)

    def remarks(self) -> list[str]:
        """What stands in the row's last column: caveats by code, doubts with their figure."""
        tool = [reported(self.summary)] if self.summary.reported_by else []
        codes = [caveat.code for caveat in self.summary.caveats if caveat.code != "floor"]
        kinds = self.summary.latency_by_kind_ns
        apart = _medians(kinds) if len(kinds) > 1 else []
        parts = _medians(self.summary.latency_by_part_ns)
        cold = [f"read {units.size(self._read()).replace(' ', '')}"] if self.summary.temperature == "cold" else []
        shorts = [doubt.short for doubt in self.doubts]
        told = [f"p50 of {', '.join(each)}" for each in (apart, parts) if each]
        return tool + shorts + cold + codes + told + self._offered()

    def _offered(self) -> list[str]:
        """Of an open loop: what was due and what was done on the wall clock, where they are not the same."""
        offered, served = self.summary.offered_per_second, self.summary.served_per_second
        if offered is None or served is None or served >= offered * ACHIEVED:
            return []
        return [f"offered {units.rate(offered)}/s, served {units.rate(served)}/s"]

    def _read(self) -> int | None:
        """From the device, by the client and by the server that there may be."""
        used = (self.summary.client or {}, self.summary.server)
        parts = [found.get("read_bytes") for found in used if found is not None]
        return None if None in parts else sum(part or 0 for part in parts)


def reported(summary: CellSummary) -> str:
    """'reported by sysbench 1.0.20': what Dyno did not measure is never shown without it."""
    return f"reported by {summary.reported_by}"


def written(found: Estimate, kind: str) -> tuple[str, str]:
    """The median and the interval of a metric, by what it counts."""
    write = {"bytes": units.bandwidth, "ns": units.duration}.get(kind, units.rate)
    known = found.low is not None and found.high is not None
    return write(found.median), f"{write(found.low)} – {write(found.high)}" if known else units.UNKNOWN


def figure(summary: CellSummary, by: Metric) -> str:
    """A row's figure in the tables of a run: a percentile of the operations of all trials together, and of anything
    else the median over trials."""
    if by.pooled is not None:
        return units.duration(by.pooled(summary))
    found = estimated(summary, by)
    return units.UNKNOWN if found is None else written(found, by.kind)[0]


def ranked_by_bandwidth(summary: CellSummary) -> bool:
    return summary.about.metric == BANDWIDTH.name and summary.bandwidth is not None


def interval(summary: CellSummary) -> str:
    """Of the bandwidth where rows are ranked by that, and else of the throughput."""
    if ranked_by_bandwidth(summary) and summary.bandwidth is not None:
        return written(summary.bandwidth, BANDWIDTH.kind)[1]
    found = summary.throughput
    return units.UNKNOWN if found is None else units.interval(found.low, found.high)


def bandwidth(summary: CellSummary) -> str:
    """Nothing where the suite tells no bytes, so that the column goes."""
    return "" if summary.bandwidth is None else units.bandwidth(summary.bandwidth.median)


def tails(summary: CellSummary) -> dict[str, str]:
    """The longest latency, and p99.99 if `BEYOND` operations took longer (else it is one of the longest). Nothing
    for a bulk phase, so that the columns go."""
    far = curve((sample.histogram for sample in summary.samples), [99.99], BEYOND)
    longest = summary.latency_ns["max"]
    return {
        "p99.99": units.duration(far[0][1]) if far else "",
        "max": "" if longest is None else units.duration(longest),
    }


def _medians(found: Mapping[str, Mapping[str, int | None]]) -> list[str]:
    """Without the space, at which a narrow column would part the figure from its unit."""
    return [f"{name} {units.duration(times['p50']).replace(' ', '')}" for name, times in found.items()]


@dataclass(frozen=True)
class Group:
    """Rows that may be compared: one phase at one tier, measured by Dyno or by one outside tool."""

    phase: str
    tier: Tier | None
    rows: tuple[Row, ...]

    @cached_property
    def best(self) -> float | None:
        """The highest figure of those that the rows are ranked by, the floor's left out."""
        found = [row.speed for row in self.rows if not row.summary.cell.floor]
        return max((speed for speed in found if speed is not None), default=None)

    @property
    def empty(self) -> bool:
        """Whether none of its rows was measured, with a figure or without."""
        return all(row.summary.why == NOT_YET for row in self.rows)

    @property
    def place(self) -> str:
        """What tells it from the run's other groups of one tier."""
        return self.rows[0].place


def groups(run: Run) -> list[Group]:
    """Phases in the plan's order; tiers from volatile to power."""
    return list(_groups(run))


@cached
def _groups(run: Run) -> tuple[Group, ...]:
    order = {phase: at for at, phase in enumerate(run.plan["phases"])}
    found = summarize(run)
    told = _tools(found)
    rows = [Row(s, tuple(doubts(s, run)), _tool(s, told), len(told[s.phase]) > 1) for s in found]
    combinations = {text: at for at, text in enumerate(dict.fromkeys(cell.combination for cell in run.cells))}

    def place(row: Row) -> tuple[object, ...]:
        cell = row.summary.cell
        at = order[row.summary.phase], TIERS.index(cell.tier), row.tool or ""
        return *at, combinations[cell.combination], _rank(row)

    rows.sort(key=place)
    grouped = groupby(rows, key=lambda row: (row.summary.phase, row.summary.cell.tier, row.tool))
    return tuple(Group(phase, tier, tuple(mine)) for (phase, tier, _), mine in grouped)


def _tools(found: Iterable[CellSummary]) -> dict[str, list[str | None]]:
    """By phase: what measured its rows, None for Dyno itself. Of a phase without a sample, nothing is known."""
    told: dict[str, list[str | None]] = {}
    for summary in found:
        known = told.setdefault(summary.phase, [])
        if (summary.samples or summary.reported_by) and summary.reported_by not in known:
            known.append(summary.reported_by)
    return told


def _tool(summary: CellSummary, told: Mapping[str, Sequence[str | None]]) -> str | None:
    """Of a row without a figure: that of the others."""
    known = told[summary.phase]
    return summary.reported_by if summary.reported_by in known or not known else known[0]


def _rank(row: Row) -> tuple[bool, bool, float]:
    return row.summary.cell.floor, row.speed is None, -(row.speed or 0.0)


CPU = "cpu: CPU time, of all its threads, for each item that the throughput counts"
APART = (
    "client, server: CPU time of the processes of each for each item that the throughput counts; none is told of a"
    " server that used too little for the ticks in which the kernel counts it"
)


def served(found: Iterable[Group]) -> bool:
    """Whether a server does the work of any row, so that its CPU time stands beside the client's."""
    return any(row.summary.server is not None for group in found for row in group.rows)


def costs(summary: CellSummary, apart: bool) -> dict[str, str]:
    """CPU time for each item, by column: of `client` and `server`, or one `cpu`. Nothing where there are no such
    processes, or the run file does not tell."""
    whose = {
        "client": (summary.client, summary.client_cpu_ns),
        "server": (summary.server, summary.server_cpu_ns),
    }
    found = {who: "" if used is None else units.cost(ns) for who, (used, ns) in whose.items()}
    return found if apart else {"cpu": found["client"]}


def meaning(found: Iterable[Group]) -> list[str]:
    """Of the columns of `costs`; nothing where no row has one."""
    rows = [row.summary for group in found for row in group.rows]
    if any(row.server is not None for row in rows):
        return [APART]
    return [CPU] if any(row.client is not None for row in rows) else []


def varying(run: Run) -> list[str]:
    """The parameters that are not the same in every cell."""
    return list(_varying(run))


@cached
def _varying(run: Run) -> tuple[str, ...]:
    first = run.cells[0].params
    return tuple(name for name in first if any(cell.params[name] != first[name] for cell in run.cells))


def legend(found: Iterable[Group]) -> list[str]:
    """One line for every doubt and caveat that stands in a row."""
    rows = [row for group in found for row in group.rows]
    codes = {doubt.code for row in rows for doubt in row.doubts}
    return [text for code, text in MEANINGS.items() if code in codes] + caveats(rows)


def caveats(rows: Iterable[Row]) -> list[str]:
    """One line for every caveat of the rows, with all engines that it is said of."""
    engines: dict[tuple[str, str], dict[str, None]] = {}
    for row in rows:
        for caveat in row.summary.caveats:
            engines.setdefault((caveat.code, caveat.text), {})[row.summary.cell.engine] = None
    return [f"{code}: {_each(list(names))} {text}" for (code, text), names in engines.items()]


def _each(names: list[str]) -> str:
    """'lmdb', 'each of lmdb and sqlite': what follows is in the singular."""
    return names[0] if len(names) == 1 else f"each of {', '.join(names[:-1])} and {names[-1]}"


def absent(run: Run) -> list[str]:
    """One line for every phase that makes no sense for an engine."""
    return list(dict.fromkeys(f"{a.phase}: {a.cell.label} {a.why}" for a in absences(run)))


def loops(run: Run) -> str | None:
    """Which loop measured, and what it costs; None in a run that does not tell."""
    costs: dict[str, list[float]] = {}
    usual = (run.header.get("host", {}).get("python") or {}).get("version")
    for attempt in run.attempts:
        if attempt.loop is not None:
            other = attempt.loop.get("python", usual)
            where = "" if other == usual else f" in Python {other}"
            what = f"the {attempt.loop['name']} loop{where} ({attempt.loop['clock']}"
            costs.setdefault(what, []).append(attempt.loop["operation_ns"])
    return " and ".join(f"{what}, {median(found):.0f} ns an operation)" for what, found in costs.items()) or None


def failures(found: Iterable[Group]) -> list[str]:
    """One line for every row that has no number, with the whole reason; for those of many phases that have the same,
    one for all."""
    phases: dict[tuple[str, str, str | None], list[str]] = {}
    for group in found:
        for row in group.rows:
            if not row.summary.valid:
                phases.setdefault((row.name, row_titles.tier(group.tier), row.summary.why), []).append(group.phase)
    return [
        f"{row_titles.named(name, _phases(list(dict.fromkeys(where))), tier)}: {why}"
        for (name, tier, why), where in phases.items()
    ]


def _phases(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
