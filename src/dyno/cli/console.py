"""The one place that decides where output goes and how wide it is."""

from __future__ import annotations

from rich.console import Console

# Wide enough for the widest table: what is read from a file or a pipe should not be folded.
PIPE_WIDTH = 200


class _Output(Console):
    """Says that nobody reads any more by BrokenPipeError, where rich would exit."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def output() -> Console:
    """Standard output: the result. As wide as the terminal, or as it needs to be where there is none."""
    # What is in brackets, or between colons, is text of an engine's: no markup, and no emoji.
    console = _Output(highlight=False, markup=False, emoji=False)
    return console if console.is_terminal else _Output(highlight=False, markup=False, emoji=False, width=PIPE_WIDTH)


def progress() -> Console:
    """Standard error: how it is going."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)
