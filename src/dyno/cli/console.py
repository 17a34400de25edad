"""The one place that decides how output looks, and how wide it is."""

from __future__ import annotations

from rich.console import Console

# Wide enough for the widest table: what is read from a file or a pipe should not be folded.
PIPE_WIDTH = 200
# What a terminal has that does not tell, and the narrowest for which anything is made: it folds lines itself.
USUAL_WIDTH, LEAST_WIDTH = 80, 40


def output() -> Console:
    """Standard output: the result. As wide as the terminal, or as it needs to be where there is none."""
    console = Console(highlight=False)
    console.width = _wide(console) if console.is_terminal else PIPE_WIDTH
    return console


def progress() -> Console:
    """Standard error: how it is going."""
    console = Console(stderr=True, highlight=False)
    console.width = _wide(console)
    return console


def _wide(console: Console) -> int:
    return max(console.width or USUAL_WIDTH, LEAST_WIDTH)
