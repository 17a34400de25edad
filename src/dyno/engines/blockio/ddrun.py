"""Runs dd. Reports dd's own figures, and the time of the flush that dd leaves to the kernel."""

import os
import re
import shlex
import subprocess
import time

from dyno.contracts.model import Fact
from dyno.contracts.suite import Report
from dyno.engines.blockio.fiorun import Target

READ = "read"
_COPIED = re.compile(r"^(\d+) bytes .*copied, ([0-9.e+-]+) s", re.MULTILINE)


def version() -> str:
    """Returns name and version: 'dd 9.1'."""
    output = subprocess.run(["dd", "--version"], capture_output=True, text=True, check=True).stdout
    return f"dd {output.splitlines()[0].split()[-1]}"


def build_command(target: Target, how: str, block_size: int, size: int) -> list[str]:
    """Returns the command line. `how`: see `Volume.copy`. A device is never truncated."""
    conversions = ["fdatasync"] * (how == "fdatasync") + ["notrunc"] * bool(target.descriptors)
    source, sink = "/dev/zero", target.name
    flags = []
    if how == "urandom":
        source = "/dev/urandom"
        # Otherwise a read of more than 32 MiB from /dev/urandom is short.
        flags.append("iflag=fullblock")
    if how == READ:
        source, sink = target.name, "/dev/null"
    if how == "direct":
        flags.append("oflag=direct")
    if conversions:
        flags.append(f"conv={','.join(conversions)}")
    return ["dd", f"if={source}", f"of={sink}", f"bs={block_size}", f"count={size // block_size}", *flags]


def run(target: Target, how: str, block_size: int, size: int, sink: bool = False) -> Report:
    """Runs dd; returns a report with dd's own figures. After a plain copy it flushes the target and adds the time,
    unless the target is a `sink` (/dev/null)."""
    words = build_command(target, how, block_size, size)
    if how == READ:
        with (target.directory / target.name).open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    output = subprocess.run(
        words,
        cwd=target.directory,
        pass_fds=target.descriptors,
        capture_output=True,
        text=True,
        env={**os.environ, "LC_ALL": "C"},
    ).stderr
    match = _COPIED.search(output)
    if match:
        copied = float(match[1])
        seconds = float(match[2])
    else:
        copied = 0.0
        seconds = 0.0
    errors = [line.removeprefix("dd: ") for line in output.splitlines() if line.startswith("dd: ")]
    elapsed_ns, blocks = round(seconds * 1e9), int(copied) // block_size
    facts: dict[str, Fact] = {"command": shlex.join(words)}
    if how == "plain" and not sink and not errors:
        with (target.directory / target.name).open("rb+") as file:
            begin = time.monotonic_ns()
            os.fdatasync(file.fileno())
            flush_ns = time.monotonic_ns() - begin
        facts |= {"flush_after_ns": flush_ns, "flushed_bytes_per_second": copied / (elapsed_ns + flush_ns) * 1e9}
    return Report(
        tool=version(),
        operations=blocks + bool(errors),
        items=blocks,
        elapsed_ns=elapsed_ns,
        errors=int(bool(errors)),
        first_error=errors[0] if errors else None,
        bytes=blocks * block_size,
        facts=facts,
    )
