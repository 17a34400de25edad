"""The one place that decides where output goes and how wide it is. What is in brackets is text, and no markup."""

from __future__ import annotations

import sys

from rich.console import Console

# A pipe or a file has no width: a row stays one line, which grep and awk can read.
PIPE_WIDTH = 1_000_000
# What a terminal has that does not tell, and the narrowest for which anything is made: it folds lines itself.
USUAL_WIDTH, LEAST_WIDTH = 80, 40


class _Output(Console):
    """Says that nobody reads any more by BrokenPipeError, where rich would exit."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def output() -> Console:
    """Standard output: the result. As wide as the terminal, or as it needs to be where there is none."""
    # What is in brackets, or between colons, is text of an engine's: no markup, and no emoji.
    console = _Output(highlight=False, markup=False, emoji=False)
    console.width = _wide(console) if console.is_terminal else PIPE_WIDTH
    return console


def progress() -> Console:
    """Standard error: how it is going."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    console.width = _wide(console)
    return console


def tell(line: str) -> None:
    """Says on standard error what is no part of the result."""
    print(f"dyno: {line}", file=sys.stderr)


def _wide(console: Console) -> int:
    return max(console.width or USUAL_WIDTH, LEAST_WIDTH)
