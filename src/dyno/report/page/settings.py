"""What was asked for and on what machine, in full, and the command that asks for the same again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from dyno.contracts.cell import Cell
from dyno.report.tables import row_titles, units
from dyno.results import Run

GIB = 1 << 30
# Of the plan, what a flag of the same name asks for.
FLAGS = ("samples", "seed", "budget", "duration", "warmup", "arrivals", "loop", "timeout", "retries")
# Parameters of every suite, which have flags of their own.
OWN_FLAGS = ("clients", "rate")

Facts = list[tuple[str, str]]


def plan(run: Run) -> Facts:
    """The plan, and the parameters with all their values."""
    facts = [(name, said(name, value)) for name, value in run.plan.items()]
    return [*facts, *((f"parameter {name}", ", ".join(values)) for name, values in _params(run).items())]


def machine(run: Run) -> list[tuple[str, Facts]]:
    """The host's facts, all of them, by their group."""
    host = run.header.get("host") or {}
    loose = {name: value for name, value in host.items() if not isinstance(value, Mapping)}
    grouped = {name: value for name, value in host.items() if isinstance(value, Mapping)}
    if loose:
        grouped["other"] = loose
    return [(name, list(_flat(value))) for name, value in grouped.items()]


def engines(run: Run) -> list[tuple[str, Facts]]:
    """Each cell's version and effective settings, once for each that differ."""
    found: dict[str, list[tuple[str, Facts]]] = {}
    lasts = {attempt.cell: attempt for attempt in run.attempts if attempt.version is not None}
    known: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for at, cell in enumerate(run.cells):
        last = lasts.get(at)
        if last is None:
            facts = [("version", "unknown: no trial got so far")]
        else:
            given = last.settings or {}
            facts = [("version", last.version or units.UNKNOWN), *((k, said(k, v)) for k, v in given.items())]
            facts += [(f"fact {name}", said(name, value)) for name, value in last.facts.items()]
            facts += [(f"caveat {caveat.code}", caveat.text) for caveat in last.caveats]
        facts = [*_tier(cell), *facts]
        of_engine = found.setdefault(cell.label, [])
        if (cell.label, tuple(facts)) not in known:
            known.add((cell.label, tuple(facts)))
            params = f" ({units.params(cell.params)})" if of_engine else ""
            of_engine.append((cell.label + params, facts))
    return [entry for entries in found.values() for entry in entries]


def _tier(cell: Cell) -> Facts:
    return [] if cell.tier is None else [("tier", f"{cell.tier_name}: {row_titles.meaning(cell.tier)}")]


def command(run: Run) -> list[str]:
    """The command that makes the same plan again, in words of a shell."""
    cells = [cell for cell in run.cells if not cell.floor] or list(run.cells)
    tiers = {cell.tier_name for cell in cells}
    words = ["dyno", "run", str(run.plan["suite"])]
    for asked in sorted({cell.asked for cell in cells}):
        words += ["-e", asked]
    for name, values in _params(run).items():
        words += [f"--{name}", ",".join(values)] if name in OWN_FLAGS else ["-p", f"{name}={','.join(values)}"]
    # Of several, each is the engine's own, which it has without being asked.
    if len(tiers) == 1 and (tier := next(iter(tiers))) is not None:
        words += ["--tier", tier]
    words += ["--phases", ",".join(run.plan["phases"])]
    given = {name: run.plan.get(name) for name in FLAGS}
    if given["duration"] is not None:
        given["budget"] = None
    for name, value in given.items():
        if value is not None:
            words += [f"--{name}", f"{value:g}" if isinstance(value, float) else str(value)]
    for name in ("memory", "confine"):
        if run.plan.get(name) is not None:
            words += [f"--{name}", f"{run.plan[name] / GIB:g}"]
    if run.plan.get("awake"):
        words.append("--awake")
    return [shlex.quote(word) for word in words]


def _params(run: Run) -> dict[str, list[str]]:
    names = run.cells[0].params
    return {name: list(dict.fromkeys(_plain(cell.params[name]) for cell in run.cells)) for name in names}


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    facts: Facts = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            facts += _flat(value, f"{prefix}{name} ")
        else:
            facts.append((f"{prefix}{name}", said(name, value)))
    return facts


def said(name: str, value: Any) -> str:
    """A value as people read it, by the unit in its name."""
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
    return _plain(value)


def _plain(value: Any) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
