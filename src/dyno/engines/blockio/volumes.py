"""A file in the trial's directory, or a device of the user's, under fio and dd: what fio and its floor share.

A device is written to through one descriptor, which was judged by what it leads to (`dyno.host.blockdevice`) and is
handed on: no path is opened again.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dyno.contracts.model import Caveat, Refused, Tier, UsageError, Value
from dyno.contracts.suite import Report
from dyno.engines.blockio import ddrun, fiorun
from dyno.engines.blockio.fiorun import Target
from dyno.host import blockdevice
from dyno.suites.volume.port import IO, Enough

FILE, COPY = "volume", "dd"
NULL = "null"
WAITING = ("sync", "mmap")
"""Engines of fio's that have one request in flight, whatever is asked for."""
HELD = "/proc/"
LOOP = 7
"""The major number of loop devices."""
FRESH = "discarded: as if it had never been written"
NOT_FRESH = "as it was found: it can't be discarded, so it may have been written before"


@contextmanager
def hold(device: str) -> Iterator[str]:
    """Holds the user's device for a run, if nothing speaks against that. Gives a name of the descriptor, which other
    processes can open. Raises UsageError."""
    try:
        with blockdevice.held(device) as found:
            yield f"/proc/{os.getpid()}/fd/{found.descriptor}"
    except blockdevice.DeviceBusy as taken:
        raise UsageError(f"engine fio: {device} {taken}; nothing was written to it") from None


class Opened:
    """The file, which is made, or the device."""

    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value], null: bool = False) -> None:
        self._stack = ExitStack()
        self.ioengine = NULL if null else str(options["ioengine"])
        self.direct = not null and bool(options["direct"]) and self.ioengine != "mmap"
        self.home, self.descriptor = home, self._device(str(options.get("destroy", "")))
        self.target = Target(home, FILE)
        if self.descriptor is not None:
            self.target = Target(home, f"/proc/self/fd/{self.descriptor}", (self.descriptor,))
        self.tool = fiorun.version()

    def _device(self, path: str) -> int | None:
        if not path:
            return None
        try:
            if not path.startswith(HELD):
                # Nobody holds it, so that it has yet to be judged.
                return self._stack.enter_context(blockdevice.held(path, writable=True)).descriptor
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except blockdevice.DeviceBusy as taken:
            raise Refused(f"{path} {taken}") from None
        self._stack.callback(os.close, descriptor)
        return descriptor

    def close(self) -> None:
        self._stack.close()

    def version(self) -> str:
        return f"{self.tool} ({ddrun.version()})"

    def settings(self) -> Mapping[str, Value | None]:
        return {
            "ioengine": self.ioengine,
            "direct": self.direct,
            "target": "a file" if self.descriptor is None else "a block device",
            "waits": self.ioengine in WAITING,
        }

    def files(self) -> Iterable[Path]:
        if self.ioengine == NULL or self.descriptor is not None:
            return ()
        return [path for path in (self.path(),) if path.exists()]

    def path(self) -> Path:
        return self.target.directory / self.target.name

    def caveats(self) -> Iterable[Caveat]:
        if self.ioengine == NULL:
            yield Caveat("floor", "reads and writes nothing: fio's own cost, which is inside every other figure")
        elif not self.direct:
            yield Caveat(
                "page-cache", "through the page cache: memory answers what it has, and takes what is written"
            )
        if self.descriptor is not None and os.major(os.fstat(self.descriptor).st_rdev) == LOOP:
            yield Caveat("loop-device", "a loop device: below it is a file, as a rule through the page cache")


class Volume:
    """The port `volume`. See `dyno.suites.volume.port`."""

    def __init__(self, engine: Opened) -> None:
        self._engine = engine

    def place(self) -> Path:
        return self._engine.home if self._engine.descriptor is None else self._engine.path()

    def fits(self, size: int) -> None:
        descriptor = self._engine.descriptor
        if descriptor is not None and (room := blockdevice.size_bytes(descriptor)) < size:
            area = f"{room // 2**20}m" if room >= 2**20 else str(room)
            raise Refused(f"the device has {room:,} bytes, and area is {size:,}: say -p area={area}, or less")

    def fresh(self, size: int) -> str:
        engine = self._engine
        if engine.descriptor is not None:
            self.fits(size)
            return FRESH if blockdevice.discard(engine.descriptor, size) else NOT_FRESH
        if engine.ioengine == NULL:
            return "nothing is there"
        engine.path().unlink(missing_ok=True)
        with engine.path().open("wb") as file:
            file.truncate(size)
        return "a new file, without a block of its own"

    def lay(self, size: int) -> None:
        engine = self._engine
        if engine.ioengine == NULL:
            return
        if engine.descriptor is not None:
            self.fits(size)
        elif not engine.path().exists() or engine.path().stat().st_size != size:
            self.fresh(size)
        # Once and flushed, in large requests: by what any file system and device takes.
        words = _untimed(self._command(IO("write", min(size, 1 << 20), size)))
        told = self._tool([*words, "--end_fsync=1", "--ioengine=psync", "--direct=0"])
        if told is not None:
            raise OSError(errno.EIO, f"can't be written whole before it is measured: {told}")

    def verify(self, size: int) -> str | None:
        engine = self._engine
        if engine.descriptor is None:
            self.fresh(size)
        words = _untimed(self._command(IO("randwrite", min(4096, size), size)))
        said = self._tool([*words, "--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0"])
        if said is None or "verify:" in said:
            return said
        number = fiorun.error_number(said)
        if number == errno.EILSEQ:
            return said
        if why := self._refusal(said):
            raise Refused(why)
        raise OSError(number or errno.EIO, f"can't be written and read back: {said}")

    def _refusal(self, said: str) -> str | None:
        """Why fio could not begin, and what to set; None where that is not the reason."""
        ioengine = self._engine.ioengine
        if "does not support O_DIRECT" in said:
            return "this file system refuses O_DIRECT: set direct=no, or choose another one with --work"
        if "func=io_queue_init" in said or "failed to load engine" in said:
            allow = " (or allow it: sysctl kernel.io_uring_disabled=0, and the container's seccomp profile)"
            reason = os.strerror(fiorun.error_number(said) or errno.ENOSYS)
            return (
                f"ioengine={ioengine} is refused by the kernel ({reason}): set"
                f" ioengine={'libaio' if ioengine == 'io_uring' else 'sync'}{allow if ioengine == 'io_uring' else ''}"
            )
        return None

    def run(self, io: IO, limit_ns: int, round_ns: int, enough: Enough | None = None) -> Report:
        engine = self._engine
        words = self._command(io, limit_ns)
        return fiorun.done(words, engine.target, io, round_ns, enough, engine.tool)

    def copy(self, how: str, block_size: int, size: int) -> Report:
        engine = self._engine
        if engine.ioengine == NULL:
            # It takes no flags that are for what has blocks.
            return ddrun.done(Target(engine.home, "/dev/null"), "plain", block_size, size, sink=True)
        if engine.descriptor is not None:
            return ddrun.done(engine.target, how, block_size, size)
        target = engine.target._replace(name=COPY)
        try:
            return ddrun.done(target, how, block_size, size)
        finally:
            (target.directory / target.name).unlink(missing_ok=True)

    def close(self) -> None:
        pass

    def _command(self, io: IO, limit_ns: int = 0) -> list[str]:
        engine = self._engine
        return fiorun.command(io, engine.target, engine.ioengine, engine.direct, limit_ns)

    def _tool(self, words: list[str]) -> str | None:
        """Runs it untimed; what it said where it failed."""
        engine = self._engine
        told = subprocess.run(
            [*words, "--output-format=terse"],
            cwd=engine.target.directory,
            pass_fds=engine.target.descriptors,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        said = [line for line in told.stdout.splitlines() if line.startswith(("fio:", "verify:"))]
        return None if told.returncode == 0 else " ".join([*said, f"(status {told.returncode})"])


def _untimed(words: list[str]) -> list[str]:
    return [word for word in words if word != "--time_based" and not word.startswith("--runtime=")]


def missing() -> str | None:
    """What is not there, of programs."""
    if shutil.which(fiorun.PROGRAM) is None:
        return "needs fio: dyno install fio --yes, or apt-get install fio"
    return None if shutil.which("dd") else "needs dd: apt-get install coreutils"
