"""The one place that decides where output goes and how wide it is."""

from __future__ import annotations

from rich.console import Console

# Wide enough for the widest table: what is read from a file or a pipe should not be folded.
PIPE_WIDTH = 200


def output() -> Console:
    """Standard output: the result. As wide as the terminal, or as it needs to be where there is none."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PIPE_WIDTH)


def progress() -> Console:
    """Standard error: how it is going."""
    return Console(stderr=True, highlight=False)
