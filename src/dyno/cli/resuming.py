"""The command that continues an interrupted one, as a line to type."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from dyno.contracts.passwords import mask_argument

WORDS = "dyno.words"
"""Key of the arguments of `dyno` in the context of click."""
END_OF_OPTIONS, OVERWRITE = "--", "--overwrite"


def resume_command(output: Path) -> str:
    """Returns the command that is being executed, changed so that it continues what it has written to `output`, which
    is the value of its `-o`. If the command has a password, returns a sentence without it."""
    context = click.get_current_context()
    given = context.find_root().meta[WORDS]
    words = [word for word in given if word != OVERWRITE]
    if context.params.get("path"):
        more = []
    else:
        more = ["-o", str(output)]
    if not context.params.get("resume"):
        more.append("--resume")
    if any(mask_argument(word) != word for word in words):
        if OVERWRITE in given:
            without = f", without {OVERWRITE}"
        else:
            without = ""
        return f"repeat the command with {shlex.join(more) or 'the same words'}{without}"
    if END_OF_OPTIONS in words:
        end = words.index(END_OF_OPTIONS)
    else:
        end = len(words)
    return shlex.join(["dyno", *words[:end], *more, *words[end:]])
