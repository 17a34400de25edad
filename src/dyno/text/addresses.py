"""The address of a user's own server that is not said itself, but where it stands: in an environment variable, or in
a file. So it is in no list of processes, nor in a shell's history."""

from __future__ import annotations

import os
import shlex
import stat
from functools import cache

MOST_BYTES = 16 << 10


def resolve_address(text: str) -> str:
    """The address that `env:NAME` or `file:PATH` names; any other text is one itself. Raises ValueError, which does
    not tell it."""
    if text.startswith("env:"):
        return _of_variable(text.removeprefix("env:"))
    return _of_file(text.removeprefix("file:")) if text.startswith("file:") else text


@cache
def _of_variable(name: str) -> str:
    """It is taken out of the environment: no process that Dyno starts from now on is given it."""
    if not os.environ.get(name):
        raise ValueError(f"the environment variable {name} is {'empty' if name in os.environ else 'not set'}")
    return os.environ.pop(name)


def _of_file(name: str) -> str:
    """The first line of a regular file that nobody but its owner may read."""
    try:
        # Who opens a pipe waits for its other end, but for this.
        with open(name, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as file:
            found = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(found):
                raise ValueError(f"{name} is no regular file")
            if stat.S_IMODE(found) & (stat.S_IRWXG | stat.S_IRWXO):
                raise ValueError(f"others may read {name}, which has an address: chmod 600 {shlex.quote(name)}")
            line = file.readline(MOST_BYTES)
    except OSError as error:
        raise ValueError(f"can't read {name}: {error.strerror}") from None
    if not (address := line.rstrip(b"\r\n")):
        raise ValueError(f"the first line of {name} is empty; it is to be the address")
    return os.fsdecode(address)
