"""What processes, and the device below them, have used so far: counters, whose differences are taken.

Only counters stand here. When they are read and what they mean for a sample may not be decided here, and no
limit is held here: that is `dyno.runner.resources`. Unknown is None, and nothing here raises for what it finds.
"""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from threading import get_native_id
from time import process_time_ns, thread_time_ns

import psutil

from dyno.host.filesystem import ROOT, filesystem, nearest_existing
from dyno.host.procfs import difference, read_lines, read_text, to_int

_TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
# The kernel's "sector" is this whatever the device's own is (Documentation/block/stat.rst).
_SECTOR_BYTES = 512
_LOOKS = 5
"""At a tree of processes, where one of them goes meanwhile: a server's, of a client that has just left."""


@dataclass(frozen=True)
class Usage:
    """What some processes have used since they started, or (a difference) between two moments."""

    user_ns: int | None
    system_ns: int | None
    voluntary_switches: int | None
    """How often they gave up their core, to wait."""
    involuntary_switches: int | None
    """How often their core was given to another."""
    major_faults: int | None
    """Page faults that had to wait for a device."""
    asked_bytes: int | None
    """Read by system calls, from wherever (rchar of /proc/PID/io): the page cache, pipes and /proc too. Not
    what is read through a mapped file, or by recv(2) from a socket."""
    read_bytes: int | None
    """Read from the device on their behalf: page faults of mapped files and readahead are in it."""
    written_bytes: int | None
    """To be sent to the device: counted when a page is dirtied, not when it is flushed, and less the pages
    that were dropped before that. These are taken off whoever drops them: it can be negative."""

    def __sub__(self, earlier: Usage) -> Usage:
        """What was used since `earlier`.

        None where either is None, and where a counter that only grows has shrunk: a thread or a process has
        ended in between, and its count went with it.
        """
        gained = {f.name: difference(getattr(earlier, f.name), getattr(self, f.name)) for f in fields(Usage)}
        for name, gain in gained.items():
            if gain is not None and gain < 0 and name != "written_bytes":
                gained[name] = None
        return Usage(**gained)

    def __add__(self, other: Usage) -> Usage:
        """What both have used; None where either is None."""
        pairs = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in fields(Usage)}
        return Usage(**{k: None if a is None or b is None else a + b for k, (a, b) in pairs.items()})


NOTHING = Usage(0, 0, 0, 0, 0, 0, 0, 0)
UNKNOWN = Usage(None, None, None, None, None, None, None, None)


@dataclass(frozen=True)
class Device:
    """What everybody has read from, and written to, a block device since it appeared."""

    read_bytes: int | None
    written_bytes: int | None


def own() -> Usage:
    """What this process has used, all its threads, the ended ones too. From getrusage(2) and /proc/self/io.

    CPU time is in steps of 1 µs. The kernel adds the input and output (not the CPU time) of a child to its
    parent's when the child is waited for. Each call reads some 100 bytes, which the next one counts as asked.
    """
    # Brings it up to date: see `of_thread_ns`.
    process_time_ns()
    used = resource.getrusage(resource.RUSAGE_SELF)
    return Usage(
        _ns(used.ru_utime),
        _ns(used.ru_stime),
        used.ru_nvcsw,
        used.ru_nivcsw,
        used.ru_majflt,
        *_io(ROOT / "proc/self/io"),
    )


def of(pid: int, *, root: Path = ROOT) -> Usage:
    """What another process has used, all its threads. From its stat, io and task/*/status in /proc.

    All None for a process that is gone. CPU time is in ticks, of 10 ms each as a rule, rounded down. Bytes are
    None for another user's process, except to root. Context switches are those of the threads that still live.
    """
    return _of(root / "proc" / str(pid), with_ended=False)


def of_thread_ns() -> tuple[int, int]:
    """User and system CPU time of the calling thread, in ns, in steps of 1 µs. From getrusage(2)."""
    # The kernel brings a running thread's time up to date for this call, and else with its tick of some ms.
    thread_time_ns()
    used = resource.getrusage(resource.RUSAGE_THREAD)
    return _ns(used.ru_utime), _ns(used.ru_stime)


def waits_of_thread() -> int:
    """How often the calling thread gave up its core, to wait. From getrusage(2)."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def of_tree(pids: Iterable[int]) -> Usage:
    """What these processes and all their descendants have used, each counted once; as `of`, but that the CPU
    time and faults of ended descendants stay in, if their parents waited for them.

    All None where one of `pids` is gone. A descendant that goes meanwhile is looked for at its parent, to which the
    kernel adds its input and output.
    """
    asked = tuple(dict.fromkeys(pids))
    for _ in range(_LOOKS):
        used, missed = _tree(asked)
        if not missed:
            break
    return used


def _tree(asked: tuple[int, ...]) -> tuple[Usage, bool]:
    """What they and their descendants have used, and whether one of these has gone while they were looked at."""
    below: dict[int, None] = {}
    for pid in asked:
        with suppress(psutil.Error):
            below |= dict.fromkeys(child.pid for child in psutil.Process(pid).children(recursive=True))
    # Parents before children: a child that is waited for meanwhile is missed, and never counted twice.
    used, missed = NOTHING, False
    for pid in [*asked, *(pid for pid in below if pid not in asked)]:
        part = _of(ROOT / "proc" / str(pid), with_ended=True)
        if part != UNKNOWN or pid in asked:
            used += part
        else:
            missed = True
    return used, missed


def with_descendants(pids: Iterable[int]) -> tuple[int, ...]:
    """These processes and all that they have started, now."""
    found: dict[int, None] = {}
    for pid in pids:
        found[pid] = None
        with suppress(psutil.Error):
            found |= dict.fromkeys(child.pid for child in psutil.Process(pid).children(recursive=True))
    return tuple(found)


def cpu_ns(pids: Iterable[int]) -> int:
    """The CPU time of these very processes, in ticks as `of` tells them; nothing of one that is gone."""
    ticks = 0
    for pid in pids:
        ticks += sum(to_int(word) or 0 for word in _words(ROOT / "proc" / str(pid))[11:13])
    return ticks * _TICK_NS


def starved(*, root: Path = ROOT) -> bool:
    """Whether another thread of this process would compute if it had a core: a machine that is busy may leave it
    none. Only Linux tells."""
    mine = str(get_native_id())
    with suppress(OSError):
        tasks = (root / "proc/self/task").iterdir()
        return any(_words(task)[:1] == ["R"] for task in tasks if task.name != mine)
    return False


def peak_resident_bytes(pid: int, *, root: Path = ROOT) -> int | None:
    """The most memory that a process ever had resident (VmHWM): the files it maps are in it.

    None for one that is gone or a zombie.
    """
    for line in read_lines(root / "proc" / str(pid) / "status"):
        if line.startswith("VmHWM:"):
            kib = to_int(line.partition(":")[2].replace("kB", ""))
            return None if kib is None else kib << 10
    return None


def device(place: Path, *, root: Path = ROOT) -> Device:
    """The counters of the block device (the partition, where it is one) that holds `place`, or that it is:
    everybody's input and output, from its `stat` under /sys.

    None where no block device is seen below: in memory, over a network, on an overlay; and where the
    device's counting is switched off. A file system that spans several devices counts as the one that its
    mount names.
    """
    place = nearest_existing(place)
    found = place.stat()
    number = found.st_rdev if stat.S_ISBLK(found.st_mode) else found.st_dev
    candidates = [root / "sys/dev/block" / f"{os.major(number)}:{os.minor(number)}"]
    # The number of btrfs is no device's.
    source = filesystem(place, root=root)["device"]
    if source is not None and source.startswith("/dev/"):
        # /dev/mapper holds links to dm-N.
        candidates.append(root / "sys/class/block" / Path(os.path.realpath(root / source.lstrip("/"))).name)
    for block in candidates:
        words = (read_text(block / "stat") or "").split()
        if len(words) >= 7:
            # With iostats off the counters stand still, which would look like an idle device. A partition's
            # switch is its disk's, which is above it behind the link.
            if "0" in (read_text(block / "queue/iostats"), read_text(block / "../queue/iostats")):
                break
            read, written = to_int(words[2]), to_int(words[6])
            return Device(
                None if read is None else read * _SECTOR_BYTES, None if written is None else written * _SECTOR_BYTES
            )
    return Device(None, None)


def _words(process: Path) -> list[str]:
    """What proc_pid_stat(5) tells of a process or a thread after its name; nothing of one that is gone."""
    # The name stands in parentheses and may hold anything, a parenthesis too.
    return (read_text(process / "stat") or "").rpartition(")")[2].split()


def _of(process: Path, *, with_ended: bool) -> Usage:
    switches = _switches(process)
    io = _io(process / "io")
    # Last, since it is there as long as the process is: without it, what was read before may be half of it.
    words = _words(process)
    if not words:
        return UNKNOWN
    numbers = [to_int(word) for word in words[:15]]
    numbers += [None] * (15 - len(numbers))
    faults, ended_faults, user, system, ended_user, ended_system = (numbers[at] for at in (9, 10, 11, 12, 13, 14))
    if with_ended:
        faults, user, system = _sum(faults, ended_faults), _sum(user, ended_user), _sum(system, ended_system)
    return Usage(
        None if user is None else user * _TICK_NS,
        None if system is None else system * _TICK_NS,
        *switches,
        faults,
        *io,
    )


def _switches(process: Path) -> tuple[int | None, int | None]:
    """Voluntary and involuntary context switches: the process's own status gives only its first thread's."""
    try:
        threads = list((process / "task").iterdir())
    except OSError:
        return None, None
    found: dict[str, list[int]] = {"voluntary_ctxt_switches": [], "nonvoluntary_ctxt_switches": []}
    for thread in threads:
        for line in read_lines(thread / "status"):
            name, _, value = line.partition(":")
            number = to_int(value)
            if name in found and number is not None:
                found[name].append(number)
    voluntary, involuntary = (sum(counts) if counts else None for counts in found.values())
    return voluntary, involuntary


def _io(file: Path) -> tuple[int | None, int | None, int | None]:
    """Bytes asked for, read and written, as in `Usage`."""
    counters = {name: to_int(value) for name, _, value in (line.partition(":") for line in read_lines(file))}
    written = difference(counters.get("cancelled_write_bytes"), counters.get("write_bytes"))
    return counters.get("rchar"), counters.get("read_bytes"), written


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _ns(seconds: float) -> int:
    """The kernel gives whole microseconds: more digits would be the float's."""
    return round(seconds * 1e6) * 1000
