"""What every report says before its figures: how a run was made, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dyno.report.tables import units
from dyno.report.tables.ceilingtext import ceilings
from dyno.report.tables.table import loops, varying
from dyno.results import Run

AWAKE = "cores kept awake"


def engines(run: Run) -> list[str]:
    """As tables call them, without null engines."""
    return list(dict.fromkeys(cell.label for cell in run.cells if not cell.floor))


def fixed(run: Run) -> str:
    """The parameters that are the same in every cell."""
    changing = varying(run)
    return units.params({name: value for name, value in run.cells[0].params.items() if name not in changing})


def trials(run: Run) -> str:
    seen = max(Counter(attempt.cell for attempt in run.final()).values(), default=0)
    return f"{seen} of {run.blocks} trials of each row; median and 95 % interval over trials"


def runs(run: Run) -> str:
    """The same in plain words, for who sees no intervals."""
    seen = max(Counter(attempt.cell for attempt in run.final()).values(), default=0)
    how = "each a run in a fresh process, in shuffled order; figures are medians"
    return f"{seen} of {run.blocks} trials of each row, {how}"


def unfinished(run: Run) -> str:
    """How far it has got; nothing of a run that is complete."""
    return "" if run.complete else "{} of {} trials have ended".format(*run.progress)


def length(run: Run) -> str:
    """How long a phase is measured, in how much memory, and whether cores may sleep."""
    plan = run.plan
    parts = [
        f"{plan['duration']:g} s a phase"
        if plan.get("duration") is not None
        else f"{plan['budget']:g} s at most a phase"
    ]
    if plan.get("warmup"):
        parts.append(f" after {plan['warmup']:g} s of warm-up")
    if plan.get("confine") is not None:
        parts.append(f", trials confined to {units.size(plan['confine'])} of memory")
    if plan.get("awake"):
        parts.append(f", {AWAKE}")
    return "".join(parts)


def peaks(run: Run) -> str:
    """The most memory of their own that trials took, by row, where they were confined; nothing where they were
    not."""
    most: dict[str, int] = {}
    for attempt in run.final() if run.plan.get("confine") is not None else ():
        cell, seen = run.cells[attempt.cell], attempt.resources.get("peak_anonymous_bytes")
        if seen is not None and not cell.floor:
            most[cell.label] = max(most.get(cell.label, 0), seen)
    told = ", ".join(f"{name} {units.size(seen)}" for name, seen in most.items())
    return told and f"Memory that no file backs, at most: {told}"


def machine(run: Run) -> str:
    """What it is, and what it does at most where that was probed."""
    cpu, memory, filesystem = (run.header.get("host", {}).get(part) or {} for part in ("cpu", "memory", "filesystem"))
    told = (
        f"{cpu.get('model') or 'unknown CPU'}, {cpu.get('available_cores') or '?'} cores,"
        f" {units.size(memory.get('total_bytes'))} of memory, {filesystem.get('type') or 'unknown file system'}"
    )
    most = ceilings(run)
    return f"{told}; {most}" if most else told


def maker(run: Run) -> str | None:
    """Which Dyno measured, when, and by which loop; None where the run tells nothing of it."""
    created, version, by = run.header.get("created"), run.header.get("dyno"), loops(run)
    parts: Sequence[str | None] = (created and created[:10], version and f"dyno {version}", by)
    return ", ".join(part for part in parts if part) or None
