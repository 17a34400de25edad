"""The parameter `rate`, and the phases on which it has no effect."""

from collections.abc import Iterator, Sequence

from dyno.contracts import quantities
from dyno.contracts.cell import Cell
from dyno.contracts.model import Phase, UsageError, Value
from dyno.contracts.settings import Setting

UNPACED = "max"
LEAST_RATE = 1e-6
MOST_RATE = 1e9
MOST_LISTED = 6
"""Maximum number of phases that a message lists by name; more are counted."""


def _rate(text: str) -> Value:
    if text == UNPACED:
        return text
    try:
        rate = float(quantities.number(text))
    except ValueError:
        rate = 0.0
    if not LEAST_RATE <= rate <= MOST_RATE:
        raise ValueError(f"expected operations per second, {LEAST_RATE:f} to {MOST_RATE:,.0f}, or {UNPACED}")
    if rate.is_integer():
        return int(rate)
    return rate


RATE = Setting(
    "rate", _rate, UNPACED, "operations per second of all clients together (an open loop); max: a closed loop"
)


def check_rates(phases: Sequence[Phase], cells: Sequence[Cell]) -> None:
    """Raises UsageError if cells have a rate, and it has no effect on any phase of any of them."""
    paced = _paced_cells(cells)
    if paced and all(phase.ignores_rate(cell.params) for phase in phases for cell in paced):
        raise UsageError(f"rate has no effect on {' nor on '.join(_reasons(phases, paced))}: leave it out")


def name_unpaced_phases(phases: Sequence[Phase], cells: Sequence[Cell]) -> str:
    """Returns a line that names the phases on which the rate of some cells has no effect; empty if there are none."""
    parts = list(_reasons(phases, _paced_cells(cells)))
    if parts:
        return f"The rate has no effect on {', nor on '.join(parts)}: measured at full speed"
    return ""


def _paced_cells(cells: Sequence[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell.params[RATE.name] != UNPACED]


def _reasons(phases: Sequence[Phase], paced: Sequence[Cell]) -> Iterator[str]:
    """Yields the names of phases that can't have a rate, by the reason."""
    by_reason: dict[str, list[str]] = {}
    for phase in sorted(phases, key=lambda phase: not phase.reported):
        if not any(phase.ignores_rate(cell.params) for cell in paced):
            continue
        name, equals, _ = phase.one_call.partition("=")
        reason = "one call does it all"
        if equals:
            reason = f"{phase.one_call} makes each one call; -p {name}=1 paces them"
        if phase.reported:
            reason = "an outside tool does the work"
        by_reason.setdefault(reason, []).append(phase.alias or phase.name)
    for reason, names in by_reason.items():
        if len(names) > MOST_LISTED:
            listed = f"{len(names)} phases"
        else:
            listed = ", ".join(names)
        yield f"{listed} ({reason})"
