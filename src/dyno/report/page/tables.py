"""Static tables of the page: all results as text, with counts of their doubts; plan, machine and engines' settings in
full; and the command that repeats the plan."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dyno.report.tables import display, units
from dyno.report.tables.overview import Place, Ranking, place
from dyno.report.tables.table import Group, cells
from dyno.results import Run
from dyno.stats.doubts import MEANINGS

MOST_FLOORS = 4
FIGURES = {
    "rate": "{unit}/s",
    "bandwidth": "bandwidth",
    "interval": "95 % interval",
    "cpu": "CPU/{unit}",
    "client": "client CPU/{unit}",
    "server": "server CPU/{unit}",
    "trials": "trials",
    **{name: name for name in ("p50", "p99", "p99.99", "max")},
    "resp p50": "response p50",
    "resp p99": "response p99",
    "on disk": "on disk",
}
"""Title of each figure, by the column of `table.cells`."""


@dataclass(frozen=True)
class Result:
    """A row of a table of results."""

    name: str
    best: bool
    params: tuple[str, ...]
    figures: tuple[str, ...]
    """Texts by `Results.heads`; empty for an invalid row."""
    why: str
    """Why the row is invalid."""
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Results:
    """The table of one phase at one tier."""

    group: Group
    heads: tuple[str, ...]
    """Titles of the figures that at least one row has."""
    rows: tuple[Result, ...]
    rest: str
    """Sentence about rows that are left out."""
    floors: str
    """Sentence with the figures of null engines."""


def results(
    group: Group,
    changing: Sequence[str],
    ranked: Mapping[Place, Ranking],
    apart: bool,
    most: int = display.RESULTS,
) -> Results:
    """Returns the table of a group. `apart`: whether the CPU times of clients and servers have separate columns.
    `most`: maximum number of rows."""
    engines = [row for row in group.rows if not row.summary.cell.floor]
    shown, rest = display.first(engines, most, "rows", "the CSV among the downloads has all")
    figures = [{**cells(row, None, changing, apart), "trials": str(len(row.summary.samples))} for row in shown]
    valid = [texts for row, texts in zip(shown, figures, strict=True) if row.summary.throughput is not None]
    known = [name for name in FIGURES if any(texts[name] not in ("", units.UNKNOWN) for texts in valid)]
    rows = []
    for row, texts in zip(shown, figures, strict=True):
        ranking, summary = ranked.get(place(row)), row.summary
        measured = summary.throughput is not None
        rows.append(
            Result(
                name=row.name,
                best=ranking is not None and bool(ranking.seen) and ranking.best == row.name,
                params=tuple(str(summary.cell.params[name]) for name in changing),
                figures=tuple(texts[name] or units.UNKNOWN for name in known) if measured else (),
                why="" if measured else summary.why or "not measured",
                remarks=tuple(row.remarks()),
            )
        )
    heads = tuple(FIGURES[name].format(unit=group.rows[0].summary.unit) for name in known)
    # The floors show the harness's own cost. Of many, only the first and the last are named.
    floors = [row.summary for row in group.rows if row.summary.cell.floor]
    floor_texts = []
    for floor in floors if len(floors) <= MOST_FLOORS else [floors[0], floors[-1]]:
        params = units.params(floor.cell.params, changing)
        figure = floor.why or "not measured"
        if floor.throughput is not None:
            figure = f"{units.rate(floor.throughput.median)} {floor.unit}/s"
        floor_texts.append(f"{floor.cell.label}{f' with {params}' if params else ''} {figure}")
    which = "" if len(floors) <= MOST_FLOORS else f", of {len(floors):,} the first and the last"
    sentence = f"Floors, which do nothing{which}: {', '.join(floor_texts)}." if floor_texts else ""
    return Results(group, heads, tuple(rows), rest, sentence)


def against(groups: Sequence[Group]) -> list[tuple[str, str]]:
    """Returns the doubts of all rows without null engines: how many rows have each, and its meaning."""
    rows = [row for group in groups for row in group.rows if not row.summary.cell.floor]
    missing = sum(not row.summary.valid for row in rows)
    lines = [(f"{missing} of {len(rows)}", "have no number: the results say why")] if missing else []
    counts = Counter(code for row in rows for code in {doubt.code for doubt in row.doubts})
    return lines + [(f"{counts[code]} of {len(rows)}", text) for code, text in MEANINGS.items() if counts[code]]


# -- settings -----------------------------------------------------------------------------------------------

GIB = 1 << 30
# Keys of the plan that have a flag of the same name.
FLAGS = ("samples", "seed", "budget", "duration", "warmup", "arrivals", "loop", "timeout", "retries")
# Parameters of every suite, which have their own flags.
OWN_FLAGS = ("clients", "rate")

Facts = list[tuple[str, str]]


def plan(run: Run) -> Facts:
    """Returns the plan, and the parameters with all their values."""
    facts = [(name, written(name, value)) for name, value in run.plan.items()]
    return [*facts, *((f"parameter {name}", ", ".join(values)) for name, values in _params(run).items())]


def machine(run: Run) -> list[tuple[str, Facts]]:
    """Returns all facts of the host, by group."""
    host = run.header.get("host") or {}
    groups = {name: _flat(value) for name, value in host.items() if isinstance(value, Mapping)}
    if other := {name: value for name, value in host.items() if not isinstance(value, Mapping)}:
        groups["other"] = _flat(other)
    return list(groups.items())


def engines(run: Run) -> list[tuple[str, Facts]]:
    """Returns the version and effective settings of each engine's cells. If several cells of an engine have the same
    facts, only the first is listed."""
    by_engine: dict[str, list[tuple[str, Facts]]] = {}
    lasts = {attempt.cell: attempt for attempt in run.attempts if attempt.version is not None}
    known: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for at, cell in enumerate(run.cells):
        last = lasts.get(at)
        facts = [] if cell.tier is None else [("tier", f"{cell.tier_name}: {display.meaning(cell.tier)}")]
        facts.append(("version", "unknown: no trial got so far" if last is None else last.version or units.UNKNOWN))
        if last is not None:
            facts += [(name, written(name, value)) for name, value in (last.settings or {}).items()]
            facts += [(f"fact {name}", written(name, value)) for name, value in last.facts.items()]
            facts += [(f"caveat {caveat.code}", caveat.text) for caveat in last.caveats]
        entries = by_engine.setdefault(cell.label, [])
        if (cell.label, tuple(facts)) not in known:
            known.add((cell.label, tuple(facts)))
            params = f" ({units.params(cell.params)})" if entries else ""
            entries.append((cell.label + params, facts))
    return [entry for entries in by_engine.values() for entry in entries]


def command(run: Run) -> list[str]:
    """Returns the command that makes the same plan, as shell words."""
    cells = [cell for cell in run.cells if not cell.floor] or list(run.cells)
    tiers = {cell.tier_name for cell in cells}
    words = ["dyno", "run", str(run.plan["suite"])]
    for asked in sorted({cell.asked for cell in cells}):
        words += ["-e", asked]
    for name, values in _params(run).items():
        words += [f"--{name}", ",".join(values)] if name in OWN_FLAGS else ["-p", f"{name}={','.join(values)}"]
    # If there are several tiers, each is its engine's default.
    if len(tiers) == 1 and (tier := next(iter(tiers))) is not None:
        words += ["--tier", tier]
    words += ["--phases", ",".join(run.plan["phases"])]
    options = {name: run.plan.get(name) for name in FLAGS}
    if options["duration"] is not None:
        options["budget"] = None
    for name in ("memory", "confine"):
        options[name] = None if run.plan.get(name) is None else run.plan[name] / GIB
    for name, value in options.items():
        if value is not None:
            words += [f"--{name}", f"{value:g}" if isinstance(value, float) else str(value)]
    if run.plan.get("awake"):
        words.append("--awake")
    return [shlex.quote(word) for word in words]


def _params(run: Run) -> dict[str, list[str]]:
    names = run.cells[0].params
    return {name: list(dict.fromkeys(str(units.yes_no(cell.params[name])) for cell in run.cells)) for name in names}


def _flat(values: Mapping[str, Any], prefix: str = "") -> Facts:
    facts: Facts = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            facts += _flat(value, f"{prefix}{name} ")
        else:
            facts.append((f"{prefix}{name}", written(name, value)))
    return facts


def written(name: str, value: Any) -> str:
    """Formats a value by the unit in its name."""
    if value is None:
        return units.UNKNOWN
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if name.endswith("_bytes"):
            return units.size(int(value))
        if name.endswith("_ns"):
            return units.duration(value)
        if name.endswith("_percent"):
            return f"{value:g} %"
    return str(units.yes_no(value))
