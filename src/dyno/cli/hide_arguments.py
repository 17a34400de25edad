"""Takes passwords out of what other users of the machine see of this process: its command line."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from dyno.text.passwords import mask_argument

_START, _END = 47, 48
"""Of /proc/PID/stat, counted from 0: arg_start and arg_end of proc(5)."""


def hide_passwords() -> None:
    """Overwrites what is secret in this process's own arguments with asterisks, where they are kept for ps(1) to be
    read. What Python has read of them stays as it is. Linux only.
    """
    process = Path("/proc/self")
    with suppress(OSError, ValueError, IndexError):
        given = (process / "cmdline").read_bytes()
        words = [word.decode(errors="surrogateescape") for word in given.split(b"\0")]
        shown = "\0".join(mask_argument(word, _as_long) for word in words)
        hidden = shown.encode(errors="surrogateescape")
        if hidden == given:
            return
        # The program's name, in parentheses, may hold blanks.
        numbers = (process / "stat").read_text().rpartition(")")[2].split()
        start, end = (int(numbers[at - 2]) for at in (_START, _END))
        if end - start == len(given):
            with (process / "mem").open("r+b", buffering=0) as memory:
                memory.seek(start)
                memory.write(hidden)


def _as_long(secret: str) -> str:
    return "*" * len(secret.encode(errors="surrogateescape"))
