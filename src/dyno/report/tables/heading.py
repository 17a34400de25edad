"""Lines above the figures of every report: how a run was made, and on what machine."""

from collections import Counter

from dyno.report.tables import units
from dyno.report.tables.notes import ceilings, loops
from dyno.report.tables.table import varying
from dyno.results import Run

AWAKE = "cores kept awake"


def engines(run: Run) -> list[str]:
    """Returns the labels of the engines, without null engines."""
    return list(dict.fromkeys(cell.label for cell in run.cells if not cell.floor))


def fixed(run: Run) -> str:
    """Returns the parameters that are the same in every cell, as text."""
    changing = varying(run)
    return units.params({name: value for name, value in run.cells[0].params.items() if name not in changing})


def trials(run: Run, how: str = "; median and 95 % interval over trials") -> str:
    """Returns the number of ended trials, and `how` they are summarised."""
    ended = max(Counter(attempt.cell for attempt in run.final()).values(), default=0)
    return f"{ended} of {run.blocks} trials of each row{how}"


def runs(run: Run) -> str:
    """Returns the number of ended trials, for tables without intervals."""
    return trials(run, ", each a run in a fresh process, in shuffled order; figures are medians")


def unfinished(run: Run) -> str:
    """Returns the progress of an incomplete run; empty if it is complete."""
    return "" if run.complete else "{} of {} trials have ended".format(*run.progress)


def length(run: Run) -> str:
    """Returns how long a phase is measured, the memory limit, and whether cores were kept awake."""
    plan = run.plan
    fixed_duration = plan.get("duration") is not None
    text = f"{plan['duration']:g} s a phase" if fixed_duration else f"{plan['budget']:g} s at most a phase"
    if plan.get("warmup"):
        text += f" after {plan['warmup']:g} s of warm-up"
    if plan.get("confine") is not None:
        text += f", trials confined to {units.size(plan['confine'])} of memory"
    return f"{text}, {AWAKE}" if plan.get("awake") else text


def peaks(run: Run) -> str:
    """Returns the peak of each row's anonymous memory if trials were confined; else empty."""
    peak: dict[str, int] = {}
    for attempt in run.final() if run.plan.get("confine") is not None else ():
        cell, used = run.cells[attempt.cell], attempt.resources.get("peak_anonymous_bytes")
        if used is not None and not cell.floor:
            peak[cell.label] = max(peak.get(cell.label, 0), used)
    text = ", ".join(f"{name} {units.size(used)}" for name, used in peak.items())
    return text and f"Peak of anonymous memory (not backed by a file): {text}"


def machine(run: Run) -> str:
    """Returns the machine's parts, and its ceilings if they were probed."""
    cpu, memory, filesystem = (run.header.get("host", {}).get(part) or {} for part in ("cpu", "memory", "filesystem"))
    text = (
        f"{cpu.get('model') or 'unknown CPU'}, {cpu.get('available_cores') or '?'} cores,"
        f" {units.size(memory.get('total_bytes'))} of memory, {filesystem.get('type') or 'unknown file system'}"
    )
    most = ceilings(run)
    return f"{text}; {most}" if most else text


def maker(run: Run) -> str | None:
    """Returns the date, version and loop of the measurement; None if the run file has none of them."""
    created, version = run.header.get("created"), run.header.get("dyno")
    parts = (created and created[:10], version and f"dyno {version}", loops(run))
    return ", ".join(part for part in parts if part) or None
