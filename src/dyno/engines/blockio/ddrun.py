"""dd at work, as it is mostly taken to measure a disk: what it tells of itself, and how much it had left undone."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time

from dyno.contracts.model import Fact
from dyno.contracts.suite import Report
from dyno.engines.blockio.fiorun import Target

WAYS = {"plain": (), "fdatasync": ("conv=fdatasync",), "direct": ("oflag=direct",)}
_COPIED = re.compile(r"^(\d+) bytes .*copied, ([0-9.e+-]+) s", re.MULTILINE)


def version() -> str:
    """'dd 9.1'."""
    told = subprocess.run(["dd", "--version"], capture_output=True, text=True, check=True).stdout
    return f"dd {told.splitlines()[0].split()[-1]}"


def command(target: Target, how: str, block_size: int, size: int) -> list[str]:
    device = ["conv=notrunc"] if target.descriptors and how != "fdatasync" else []
    words = ["conv=fdatasync,notrunc"] if target.descriptors and how == "fdatasync" else WAYS[how]
    return [
        "dd",
        "if=/dev/zero",
        f"of={target.name}",
        f"bs={block_size}",
        f"count={size // block_size}",
        *words,
        *device,
    ]


def done(target: Target, how: str, block_size: int, size: int, sink: bool = False) -> Report:
    """Runs it and reports it: by its own figures, with what a flush took after it beside them. `sink`: into nothing,
    which can't be flushed."""
    words = command(target, how, block_size, size)
    environment = {**os.environ, "LC_ALL": "C"}
    told = subprocess.run(
        words, cwd=target.directory, pass_fds=target.descriptors, capture_output=True, text=True, env=environment
    ).stderr
    found = _COPIED.search(told)
    copied, seconds = (float(found[1]), float(found[2])) if found else (0.0, 0.0)
    failed = [line for line in told.splitlines() if line.startswith("dd: ")]
    elapsed_ns, blocks = round(seconds * 1e9), int(copied) // block_size
    return Report(
        tool=version(),
        operations=blocks + bool(failed),
        items=blocks,
        elapsed_ns=elapsed_ns,
        errors=int(bool(failed)),
        first_error=failed[0].removeprefix("dd: ") if failed else None,
        bytes=blocks * block_size,
        facts={"command": shlex.join(words), **({} if sink or failed else _flushed(target, how, copied, elapsed_ns))},
    )


def _flushed(target: Target, how: str, copied: float, elapsed_ns: int) -> dict[str, Fact]:
    """What dd left to be flushed when it had ended, of the way that does not see to it by itself."""
    if how != "plain":
        return {}
    descriptor = os.open(target.directory / target.name, os.O_WRONLY)
    try:
        begin = time.monotonic_ns()
        os.fdatasync(descriptor)
        flush_ns = time.monotonic_ns() - begin
    finally:
        os.close(descriptor)
    return {"flush_after_ns": flush_ns, "flushed_bytes_per_second": copied / (elapsed_ns + flush_ns) * 1e9}
