"""Phases of a plan on which its rate has no effect."""

from dyno.runner.plan import RATE, UNPACED, Plan

MOST_LISTED = 6
"""Maximum number of phases that a message lists by name; more are counted."""


def unpaced(plan: Plan) -> str:
    """Returns a line that names the phases on which the plan's rate has no effect; empty if there are none."""
    paced_cells = [cell for cell in plan.cells if cell.params[RATE.name] != UNPACED]
    phases = [phase for phase in plan.made.phases if phase.name in plan.phases and paced_cells]
    by_reason: dict[str, list[str]] = {}
    for phase in sorted(phases, key=lambda phase: not phase.reported):
        if phase.reported:
            by_reason.setdefault("an outside tool does the work", []).append(phase.name)
        elif any(phase.unpaced(cell.params) for cell in paced_cells):
            name, equals, _ = phase.one_call.partition("=")
            reason = f"{phase.one_call} makes each one call; -p {name}=1 paces them"
            by_reason.setdefault(reason if equals else "one call does it all", []).append(phase.alias or phase.name)
    parts = [
        f"{f'{len(names)} phases' if len(names) > MOST_LISTED else ', '.join(names)} ({reason})"
        for reason, names in by_reason.items()
    ]
    return f"The rate has no effect on {', nor on '.join(parts)}: measured at full speed" if parts else ""
