"""A plan, told before it is run: its rows, its phases and how long measuring takes. Nothing is planned here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from dyno.contracts.cell import Cell
from dyno.report.tables import grid


def told(trials: int, blocks: int, phases: int, seconds: float, floor_blocks: int | None = None) -> str:
    """One sentence: how many trials, and how long they measure. `floor_blocks`: blocks with floors, if not all."""
    # Which words mean what is said here, where they are met first.
    each = f"{trials:,} trial{'s' * (trials != 1)} in {blocks} block{'s' * (blocks != 1)}"
    floors = "" if floor_blocks is None else f"; floors in {floor_blocks} of them"
    of = f"(one of every row, shuffled{floors}), of {phases} phase{'s' * (phases != 1)} each"
    return f"{each} {of}: measuring takes {clock(seconds)} at most; starting, loading and checking come on top"


def clock(seconds: float) -> str:
    """'45 s', '6 min 20 s', '2 h 5 min'."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def render(suite: str, phases: Sequence[str], cells: Sequence[Cell], sentence: str, console: Console) -> None:
    """Each row, with the parameters in which rows differ; those that all have alike stand above."""
    alike, varying = _parted([cell.params for cell in cells])
    console.print(Text(f"{suite}: {' '.join(f'{name}={value}' for name, value in alike.items())}"))
    console.print(Text(f"phases: {', '.join(phases)}"))
    console.print()
    rows = [
        (
            f"{cell.label}{' (floor)' if cell.floor else ''}",
            "as set" if cell.follows else cell.tier_name or "",
            *(str(cell.params[name]) for name in varying),
        )
        for cell in cells
    ]
    grid.render([grid.Column(name, left=True, folds=True) for name in ("engine", "tier", *varying)], rows, console)
    console.print()
    console.print(Text(sentence), soft_wrap=True)


def _parted(params: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """The values that are the same for all, and the names of the others."""
    first = params[0] if params else {}
    alike = {name: value for name, value in first.items() if all(each[name] == value for each in params)}
    return alike, [name for name in first if name not in alike]
