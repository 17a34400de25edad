"""Resources used so far by processes and by a block device: counters, for differences.

Limits are in `dyno.runner.resources`. None means unknown, and no function raises for what it reads.
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

from dyno.host.filesystem import block_directories, filesystem, nearest_existing
from dyno.host.procfs import ROOT, difference, read_lines, read_text, to_int

_TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
# The kernel's "sector", whatever the sector size of the device (Documentation/block/stat.rst).
_SECTOR_BYTES = 512
_TRIES = 5
"""Tries to read a tree of processes while one of them ends, such as a server's process of a client that just left."""


@dataclass(frozen=True)
class Usage:
    """Resources used by processes since they started, or (as a difference) between two moments."""

    user_ns: int | None
    system_ns: int | None
    voluntary_switches: int | None
    """How often they gave up their core to wait."""
    involuntary_switches: int | None
    """How often their core was given to another."""
    major_faults: int | None
    """Page faults that had to wait for a device."""
    asked_bytes: int | None
    """Read by system calls from anything (rchar of /proc/PID/io): the page cache, pipes and /proc too, but not
    through a mapped file or by recv(2)."""
    read_bytes: int | None
    """Read from the device for them, including page faults of mapped files and readahead."""
    written_bytes: int | None
    """To be written to the device: counted when a page is dirtied, not when it is flushed. Dirty pages that a process
    drops are subtracted from its own count, which can become negative."""

    def __sub__(self, earlier: Usage) -> Usage:
        """Returns the use since `earlier`.

        None if either is None, or if a counter that only grows has shrunk, because a thread or process ended and took
        its count along.
        """
        gained = {f.name: difference(getattr(earlier, f.name), getattr(self, f.name)) for f in fields(Usage)}
        for name, gain in gained.items():
            if gain is not None and gain < 0 and name != "written_bytes":
                gained[name] = None
        return Usage(**gained)

    def __add__(self, other: Usage) -> Usage:
        """Returns the use of both; None if either is None."""
        pairs = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in fields(Usage)}
        return Usage(**{k: None if a is None or b is None else a + b for k, (a, b) in pairs.items()})


NOTHING = Usage(0, 0, 0, 0, 0, 0, 0, 0)
UNKNOWN = Usage(None, None, None, None, None, None, None, None)


@dataclass(frozen=True)
class DeviceCounters:
    """Bytes read from and written to a block device, by anyone, since it appeared."""

    read_bytes: int | None
    written_bytes: int | None


def own() -> Usage:
    """Returns the use of this process with all its threads, ended ones too, by getrusage(2) and /proc/self/io.

    CPU time is in steps of 1 µs. The kernel adds a child's input and output (not its CPU time) to its parent's when
    the parent waits for it. Each call reads some 100 bytes, which the next call counts in asked_bytes.
    """
    # Updates the CPU time, see `of_thread_ns`.
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
    """Returns the use of another process with all its threads, by its stat, io and task/*/status in /proc.

    All None for a process that is gone. CPU time is in ticks, mostly of 10 ms, rounded down. Bytes are None for
    another user's process, except to root. Context switches are those of the living threads.
    """
    return _of(root / "proc" / str(pid), with_ended=False)


def of_thread_ns() -> tuple[int, int]:
    """Returns user and system CPU time of the calling thread, in steps of 1 µs, by getrusage(2)."""
    # This call makes the kernel update a running thread's time, which its tick does only every few ms.
    thread_time_ns()
    used = resource.getrusage(resource.RUSAGE_THREAD)
    return _ns(used.ru_utime), _ns(used.ru_stime)


def waits_of_thread() -> int:
    """Returns how often the calling thread gave up its core to wait, by getrusage(2)."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def of_tree(pids: Iterable[int]) -> Usage:
    """Returns the use of these processes and all their descendants, each counted once. Unlike `of` it includes CPU
    time and faults of ended descendants, if their parents waited for them.

    All None if one of `pids` is gone. If a descendant ends meanwhile, the tree is read again: the kernel has added
    the descendant's input and output to its parent's.
    """
    pids = tuple(dict.fromkeys(pids))
    for _ in range(_TRIES):
        usage, missed = NOTHING, False
        # Parents before children, so that a child that ends meanwhile is missed rather than counted twice.
        for pid in [*pids, *(pid for pid in with_descendants(pids) if pid not in pids)]:
            part = _of(ROOT / "proc" / str(pid), with_ended=True)
            if part != UNKNOWN or pid in pids:
                usage += part
            else:
                missed = True
        if not missed:
            break
    return usage


def with_descendants(pids: Iterable[int]) -> tuple[int, ...]:
    """Returns these processes and all their descendants now."""
    all_pids: dict[int, None] = {}
    for pid in pids:
        all_pids[pid] = None
        with suppress(psutil.Error):
            all_pids |= dict.fromkeys(child.pid for child in psutil.Process(pid).children(recursive=True))
    return tuple(all_pids)


def cpu_ns(pids: Iterable[int]) -> int:
    """Returns the CPU time of these processes, in steps of a tick. A process that is gone counts 0."""
    ticks = 0
    for pid in pids:
        ticks += sum(to_int(word) or 0 for word in _words(ROOT / "proc" / str(pid))[11:13])
    return ticks * _TICK_NS


def starved(*, root: Path = ROOT) -> bool:
    """Returns whether another thread of this process is ready to run, for which a busy machine may have no core.
    Linux only."""
    own = str(get_native_id())
    with suppress(OSError):
        tasks = (root / "proc/self/task").iterdir()
        return any(_words(task)[:1] == ["R"] for task in tasks if task.name != own)
    return False


def peak_resident_bytes(pid: int, *, root: Path = ROOT) -> int | None:
    """Returns the most memory that a process ever had resident (VmHWM), mapped files included.

    None if it is gone or a zombie.
    """
    for line in read_lines(root / "proc" / str(pid) / "status"):
        if line.startswith("VmHWM:"):
            kib = to_int(line.partition(":")[2].replace("kB", ""))
            return None if kib is None else kib << 10
    return None


def device(place: Path, *, root: Path = ROOT) -> DeviceCounters:
    """Returns the counters of the block device or partition that holds `place`, or that `place` is, from its `stat`
    under /sys.

    None without a block device (in memory, over a network, on an overlay), or if its counting is switched off. A file
    system on several devices counts as the one that its mount names.
    """
    place = nearest_existing(place)
    status = place.stat()
    number = status.st_rdev if stat.S_ISBLK(status.st_mode) else status.st_dev
    source = filesystem(place, root=root)["device"]
    for block in block_directories(f"{os.major(number)}:{os.minor(number)}", source, root):
        words = (read_text(block / "stat") or "").split()
        if len(words) >= 7:
            # With iostats off the counters stand still, as if the device were idle. A partition has the switch of its
            # disk, whose directory is above.
            if "0" in (read_text(block / "queue/iostats"), read_text(block / "../queue/iostats")):
                break
            read, written = to_int(words[2]), to_int(words[6])
            return DeviceCounters(
                None if read is None else read * _SECTOR_BYTES, None if written is None else written * _SECTOR_BYTES
            )
    return DeviceCounters(None, None)


def _words(process: Path) -> list[str]:
    """Returns the fields of proc_pid_stat(5) after the name; none if the process or thread is gone."""
    # The name is in parentheses and may contain anything, even a parenthesis.
    return (read_text(process / "stat") or "").rpartition(")")[2].split()


def _of(process: Path, *, with_ended: bool) -> Usage:
    switches = _switches(process)
    io = _io(process / "io")
    # Last: if it is still there, so was the process while the other files were read.
    words = _words(process)
    if not words:
        return UNKNOWN
    numbers = [to_int(word) for word in words[:15]]
    numbers += [None] * (15 - len(numbers))
    faults, ended_faults, user, system, ended_user, ended_system = (numbers[at] for at in (9, 10, 11, 12, 13, 14))
    if with_ended:
        pairs = ((faults, ended_faults), (user, ended_user), (system, ended_system))
        faults, user, system = (None if a is None or b is None else a + b for a, b in pairs)
    return Usage(
        None if user is None else user * _TICK_NS,
        None if system is None else system * _TICK_NS,
        *switches,
        faults,
        *io,
    )


def _switches(process: Path) -> tuple[int | None, int | None]:
    """Returns voluntary and involuntary context switches of all threads; the process's own status has only those of
    the first."""
    try:
        threads = list((process / "task").iterdir())
    except OSError:
        return None, None
    by_name: dict[str, list[int]] = {"voluntary_ctxt_switches": [], "nonvoluntary_ctxt_switches": []}
    for thread in threads:
        for line in read_lines(thread / "status"):
            name, _, value = line.partition(":")
            number = to_int(value)
            if name in by_name and number is not None:
                by_name[name].append(number)
    voluntary, involuntary = (sum(counts) if counts else None for counts in by_name.values())
    return voluntary, involuntary


def _io(file: Path) -> tuple[int | None, int | None, int | None]:
    """Returns asked_bytes, read_bytes and written_bytes of `Usage`."""
    counters = {name: to_int(value) for name, _, value in (line.partition(":") for line in read_lines(file))}
    written = difference(counters.get("cancelled_write_bytes"), counters.get("write_bytes"))
    return counters.get("rchar"), counters.get("read_bytes"), written


def _ns(seconds: float) -> int:
    """Rounds to the kernel's whole microseconds; further digits are noise of the float."""
    return round(seconds * 1e6) * 1000
