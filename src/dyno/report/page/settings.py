"""Plan, machine and engines' settings in full, and the command that repeats the plan."""

import shlex
from collections.abc import Mapping
from typing import Any

from dyno.report.tables import row_titles, units
from dyno.results import Run

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
        facts = [] if cell.tier is None else [("tier", f"{cell.tier_name}: {row_titles.meaning(cell.tier)}")]
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
