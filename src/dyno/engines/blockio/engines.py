"""fio and dd on a volume: a file in the trial's directory, or the user's block device.

A device is checked when it is opened (`dyno.host.blockdevice`). Other processes get its descriptor.
"""

import errno
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from dyno.contracts.engine import Engine, EngineSpec, PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Refused, Tier, UsageError, Value
from dyno.contracts.settings import Setting, boolean, choice
from dyno.contracts.suite import Report
from dyno.engines.blockio import ddrun, fiorun
from dyno.engines.blockio.fiorun import Target
from dyno.host import blockdevice
from dyno.suites import volume
from dyno.suites.volume import IO, Enough

FILE, COPY = "volume", "dd"
NULL = "null"
SYNCHRONOUS = ("sync", "mmap")
"""fio's I/O engines that have one request in flight, whatever the depth."""
HELD_PREFIX = "/proc/"
LOOP_MAJOR = 7
"""The major number of loop devices."""
DISCARDED = "discarded: as if it had never been written"
NOT_DISCARDED = "as it was found: it can't be discarded, so it may have been written before"


@contextmanager
def hold(device: str) -> Iterator[str]:
    """Holds the user's device for a run; yields a path for other processes. Raises UsageError if it is in use."""
    try:
        with blockdevice.hold_device(device) as held:
            yield f"{HELD_PREFIX}{os.getpid()}/fd/{held.descriptor}"
    except blockdevice.DeviceBusy as busy:
        raise UsageError(f"engine fio: {device} {busy}; nothing was written to it") from None


class Fio(Engine):
    """The volume that fio and dd use: a new file, or the user's device."""

    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value], null: bool = False) -> None:
        self._stack = ExitStack()
        if null:
            self.ioengine = NULL
        else:
            self.ioengine = str(options["ioengine"])
        self.direct = not null and bool(options["direct"]) and self.ioengine != "mmap"
        self.home = home
        self.target = Target(home, FILE)
        self.descriptor = None
        if path := str(options.get("destroy", "")):
            if path.startswith(HELD_PREFIX):
                self.descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                self._stack.callback(os.close, self.descriptor)
            else:
                # `hold` does not hold this device, so it has not been checked yet.
                try:
                    self.descriptor = self._stack.enter_context(
                        blockdevice.hold_device(path, writable=True)
                    ).descriptor
                except blockdevice.DeviceBusy as busy:
                    raise Refused(f"{path} {busy}") from None
            self.target = Target(home, f"/proc/self/fd/{self.descriptor}", (self.descriptor,))
        self.tool = fiorun.version()

    def close(self) -> None:
        self._stack.close()

    def version(self) -> str:
        return f"{self.tool} ({ddrun.version()})"

    def settings(self) -> Mapping[str, Value | None]:
        return {
            "ioengine": self.ioengine,
            "direct": self.direct,
            "target": "a file" if self.descriptor is None else "a block device",
            "waits": self.ioengine in SYNCHRONOUS,
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
            yield Caveat("page-cache", "uses the page cache: memory serves cached reads and takes the writes")
        if self.descriptor is not None and os.major(os.fstat(self.descriptor).st_rdev) == LOOP_MAJOR:
            yield Caveat("loop-device", "a loop device: below it is a file, usually through the page cache")


class Volume(volume.Volume):
    """The port `volume`. See `dyno.suites.volume`."""

    def __init__(self, engine: Fio) -> None:
        self._engine = engine

    def place(self) -> Path:
        if self._engine.descriptor is None:
            return self._engine.home
        return self._engine.path()

    def fits(self, size: int) -> None:
        descriptor = self._engine.descriptor
        if descriptor is not None and (room := blockdevice.size_bytes(descriptor)) < size:
            if room >= 2**20:
                area = f"{room // 2**20}m"
            else:
                area = str(room)
            raise Refused(f"the device has {room:,} bytes, and area is {size:,}: use -p area={area} or less")

    def fresh(self, size: int) -> str:
        engine = self._engine
        if engine.descriptor is not None:
            self.fits(size)
            if blockdevice.discard(engine.descriptor, size):
                return DISCARDED
            return NOT_DISCARDED
        if engine.ioengine == NULL:
            return "nothing is there"
        engine.path().unlink(missing_ok=True)
        with engine.path().open("wb") as file:
            file.truncate(size)
        return "a new file without blocks"

    def lay(self, size: int) -> None:
        engine = self._engine
        if engine.ioengine == NULL:
            return
        if engine.descriptor is not None:
            self.fits(size)
        elif not engine.path().exists() or engine.path().stat().st_size != size:
            self.fresh(size)
        # Write in large buffered requests, which any file system and device supports, and flush once at the end.
        io = IO("write", min(size, 1 << 20), size, once=True)
        error = self._tool(io, "--end_fsync=1", "--ioengine=psync", "--direct=0")
        if error is not None:
            raise OSError(errno.EIO, f"can't write the whole volume before measuring: {error}")

    def verify(self, size: int) -> str | None:
        engine = self._engine
        if engine.descriptor is None:
            self.fresh(size)
        error = self._tool(
            IO("randwrite", min(4096, size), size, once=True),
            *("--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0"),
        )
        if error is None or "verify:" in error:
            return error
        number = fiorun.error_number(error)
        if number == errno.EILSEQ:
            return error
        if refusal := self._refusal(error):
            raise Refused(refusal)
        raise OSError(number or errno.EIO, f"can't write and read back: {error}")

    def _refusal(self, error: str) -> str | None:
        """Returns why the kernel or file system refused fio's access method, with the remedy; None otherwise."""
        ioengine = self._engine.ioengine
        if "does not support O_DIRECT" in error:
            return "this file system refuses O_DIRECT: set direct=no, or choose another one with --work"
        if "func=io_queue_init" in error or "failed to load engine" in error:
            remedy = "sync"
            if ioengine == "io_uring":
                remedy = (
                    "libaio (or allow it: sysctl kernel.io_uring_disabled=0, and the container's seccomp profile)"
                )
            reason = os.strerror(fiorun.error_number(error) or errno.ENOSYS)
            return f"ioengine={ioengine} is refused by the kernel ({reason}): set ioengine={remedy}"
        return None

    def run(self, io: IO, limit_ns: int, round_ns: int, enough: Enough | None = None) -> Report:
        return fiorun.run(self._command(io, limit_ns), self._engine.target, io, round_ns, enough, self._engine.tool)

    def copy(self, how: str, block_size: int, size: int) -> Report:
        engine = self._engine
        if engine.ioengine == NULL:
            # /dev/null rejects O_DIRECT and fdatasync.
            return ddrun.run(Target(engine.home, "/dev/null"), "plain", block_size, size, sink=True)
        if engine.descriptor is not None or how == ddrun.READ:
            return ddrun.run(engine.target, how, block_size, size)
        target = engine.target._replace(name=COPY)
        try:
            return ddrun.run(target, how, block_size, size)
        finally:
            (target.directory / target.name).unlink(missing_ok=True)

    def _command(self, io: IO, limit_ns: int = 0) -> list[str]:
        engine = self._engine
        return fiorun.build_command(io, engine.target, engine.ioengine, engine.direct, limit_ns)

    def _tool(self, io: IO, *more: str) -> str | None:
        """Runs fio; returns its error messages if it failed, or None."""
        process = subprocess.run(
            [*self._command(io), *more, "--output-format=terse"],
            cwd=self._engine.target.directory,
            pass_fds=self._engine.target.descriptors,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        errors = [line for line in process.stdout.splitlines() if line.startswith(("fio:", "verify:"))]
        if process.returncode == 0:
            return None
        return " ".join([*errors, f"(status {process.returncode})"])


def needs(options: Mapping[str, Value]) -> str | None:
    if shutil.which(fiorun.PROGRAM) is None:
        return "needs fio: dyno install fio --yes, or apt-get install fio"
    if shutil.which("dd"):
        return None
    return "needs dd: apt-get install coreutils"


FIO = EngineSpec(
    name="fio",
    title="fio, the flexible I/O tester, on a file or a device",
    opener=Fio,
    ports={"volume": PortSpec(Volume)},
    tiers={},
    installation=Installation(packages=("fio",), needs=needs),
    options=(
        Setting("ioengine", choice("libaio", "io_uring", *SYNCHRONOUS), "libaio", "fio's I/O engine"),
        Setting("direct", boolean, True, "past the page cache (O_DIRECT)"),
        Setting("destroy", str, "", "a block device to use; all its data will be destroyed", hold=hold),
    ),
)
FIO_NULL = EngineSpec(
    name="fio_null",
    title="Nothing: fio and dd on no volume, the floor of the suite volume",
    opener=partial(Fio, null=True),
    ports={"volume": PortSpec(Volume)},
    tiers={},
    installation=Installation(packages=("fio",), needs=needs),
    floor=True,
)
