"""The rows of a run as every report shows them: grouped by phase and tier, then by parameters; best first, the
floor last."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from statistics import median

from dyno.model import TIERS, Tier
from dyno.report import places, units
from dyno.results import Run
from dyno.stats.doubts import MEANINGS, Doubt, doubts
from dyno.stats.summary import CellSummary, absences, summarize


@dataclass(frozen=True)
class Row:
    """A summary and what is to be said beside it."""

    summary: CellSummary
    doubts: tuple[Doubt, ...]

    @property
    def name(self) -> str:
        return self.summary.cell.asked + (" (floor)" if self.summary.cell.floor else "")

    def remarks(self) -> list[str]:
        """What stands in the row's last column: caveats by code, doubts with their figure."""
        codes = [caveat.code for caveat in self.summary.caveats if caveat.code != "floor"]
        kinds = self.summary.latency_by_kind_ns
        # Without the space, at which a narrow column would part the figure from its unit.
        p50s = {kind: units.duration(found["p50"]).replace(" ", "") for kind, found in kinds.items()}
        apart = [f"{kind} {p50}" for kind, p50 in p50s.items() if len(kinds) > 1]
        cold = [f"read {units.size(self._read()).replace(' ', '')}"] if self.summary.temperature == "cold" else []
        shorts = [doubt.short for doubt in self.doubts]
        return shorts + cold + codes + ([f"p50 of {', '.join(apart)}"] if apart else [])

    def _read(self) -> int | None:
        """From the device, by the client and by the server that there may be."""
        used = (self.summary.client or {}, self.summary.server)
        parts = [found.get("read_bytes") for found in used if found is not None]
        return None if None in parts else sum(part or 0 for part in parts)


@dataclass(frozen=True)
class Group:
    """Rows that may be compared: one phase at one tier."""

    phase: str
    tier: Tier | None
    rows: tuple[Row, ...]

    @property
    def best(self) -> float | None:
        """The highest throughput, the floor's left out."""
        rates = [
            row.summary.throughput.median
            for row in self.rows
            if row.summary.throughput is not None and not row.summary.cell.floor
        ]
        return max(rates, default=None)


def groups(run: Run) -> list[Group]:
    """Phases in the plan's order; tiers from volatile to power."""
    order = list(run.plan["phases"])
    rows = [Row(summary, tuple(doubts(summary, run))) for summary in summarize(run)]
    combinations: list[object] = []
    for cell in run.cells:
        if cell.params not in combinations:
            combinations.append(cell.params)

    def place(row: Row) -> tuple[object, ...]:
        cell = row.summary.cell
        return order.index(row.summary.phase), TIERS.index(cell.tier), combinations.index(cell.params), _rank(row)

    rows.sort(key=place)
    grouped = groupby(rows, key=lambda row: (row.summary.phase, row.summary.cell.tier))
    return [Group(phase, tier, tuple(found)) for (phase, tier), found in grouped]


def _rank(row: Row) -> tuple[bool, bool, float]:
    found = row.summary.throughput
    return row.summary.cell.floor, found is None, -(found.median if found else 0.0)


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
    first = run.cells[0].params
    return [name for name in first if any(cell.params[name] != first[name] for cell in run.cells)]


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
    return list(dict.fromkeys(f"{a.phase}: {a.cell.asked} {a.why}" for a in absences(run)))


def loops(run: Run) -> str | None:
    """Which loop measured, and what it costs; None in a run that does not tell."""
    costs: dict[str, list[float]] = {}
    for attempt in run.attempts:
        if attempt.loop is not None:
            what = f"the {attempt.loop['name']} loop ({attempt.loop['clock']}"
            costs.setdefault(what, []).append(attempt.loop["operation_ns"])
    return " and ".join(f"{what}, {median(found):.0f} ns an operation)" for what, found in costs.items()) or None


def failures(found: Iterable[Group]) -> list[str]:
    """One line for every row that has no number, with the whole reason; for those of many phases that have the same,
    one for all."""
    phases: dict[tuple[str, str, str | None], list[str]] = {}
    for group in found:
        for row in group.rows:
            if not row.summary.valid:
                phases.setdefault((row.name, places.tier(group.tier), row.summary.why), []).append(group.phase)
    return [
        f"{places.named(name, _phases(list(dict.fromkeys(where))), tier)}: {why}"
        for (name, tier, why), where in phases.items()
    ]


def _phases(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
