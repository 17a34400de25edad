"""Counters of resources used by processes and by a block device. Differences of counters give the use of a trial.

Limits are in `dyno.runner.trial`. None means unknown. Files in /proc and /sys may be missing or malformed.
"""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from threading import get_native_id
from time import process_time_ns, thread_time_ns

import psutil

from dyno.host.filesystem import block_directories, filesystem, nearest_existing
from dyno.host.procfs import ROOT, difference, read_lines, read_text, stat_words, to_int

_TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
# The kernel's "sector", which is independent of the device's sector size (Documentation/block/stat.rst).
_SECTOR_BYTES = 512
_TRIES = 5
"""Maximum number of attempts to read a tree of processes. An attempt fails if one of them ends meanwhile, such as a
server's process for a client that has left."""
_peaks_before_reset: dict[int, int] = {}
"""Maximum resident memory of each process until `reset_peaks`, by its id."""


@dataclass(frozen=True)
class Usage:
    """Resources that processes used since they started, or between two moments (as a difference)."""

    user_ns: int | None
    system_ns: int | None
    voluntary_switches: int | None
    """Number of times that a process gave up its core to wait."""
    involuntary_switches: int | None
    """Number of times that the kernel gave a process's core to another process."""
    major_faults: int | None
    """Page faults that waited for a device."""
    asked_bytes: int | None
    """Bytes that system calls read from anything (rchar of /proc/PID/io): from the page cache, pipes and /proc too,
    but not from mapped files or by recv(2)."""
    read_bytes: int | None
    """Bytes read from the device, including page faults of mapped files and readahead."""
    written_bytes: int | None
    """Bytes to be written to the device: counted when a page is dirtied, not when it is flushed. If a process drops
    dirty pages, they are subtracted from its count, which can become negative."""
    core_wait_ns: int | None = None
    """Time in which threads were ready to run and waited for a core (schedstat): of another process, of all its
    threads; of this one, of its first thread, which does the work."""

    def __sub__(self, earlier: Usage) -> Usage:
        """Returns the use since `earlier`.

        A figure is None if either value is None, or if a counter that only grows has shrunk because a thread or
        process ended.
        """
        gained = {f.name: difference(getattr(earlier, f.name), getattr(self, f.name)) for f in fields(Usage)}
        for name, gain in gained.items():
            if gain is not None and gain < 0 and name != "written_bytes":
                gained[name] = None
        return Usage(**gained)

    def __add__(self, other: Usage) -> Usage:
        """Returns the sum of both; a figure is None if either value is None."""
        pairs = {f.name: [getattr(self, f.name), getattr(other, f.name)] for f in fields(Usage)}
        return replace(UNKNOWN, **{name: sum(both) for name, both in pairs.items() if None not in both})


NOTHING = Usage(0, 0, 0, 0, 0, 0, 0, 0, 0)
UNKNOWN = Usage(None, None, None, None, None, None, None, None)


def measure_own() -> Usage:
    """Returns the use of this process and all its threads (ended ones too), from getrusage(2) and /proc/self/io.

    CPU time is in steps of 1 µs. When a parent waits for a child, the kernel adds the child's input and output (but
    not its CPU time) to the parent's. Each call reads some 100 bytes, which the next call counts in asked_bytes.
    """
    # Make the kernel update the CPU time (see `of_thread_ns`).
    process_time_ns()
    used = _read_rusage(resource.RUSAGE_SELF, *_io(ROOT / "proc/self/io"))
    return replace(used, core_wait_ns=_core_wait_ns(ROOT / "proc/self"))


def of_ended_children() -> Usage:
    """Returns the use of this process's children that it has waited for, from getrusage(2). Bytes are 0, since the
    kernel adds them to this process's own, and their waiting for a core is not counted."""
    return replace(_read_rusage(resource.RUSAGE_CHILDREN, 0, 0, 0), core_wait_ns=0)


def measure_process(pid: int, *, root: Path = ROOT) -> Usage:
    """Returns the use of another process, of all its threads, and of its ended children if it waited for them, from
    its stat, io and task/*/status in /proc.

    All figures are None for a process that is gone. CPU time is in ticks, mostly of 10 ms, rounded down. Bytes are
    None for another user's process, unless this process is root's. Context switches are those of living threads.
    """
    process = root / "proc" / str(pid)
    # The process's own status counts only the switches of its first thread.
    switches: dict[str, list[int]] = {"voluntary_ctxt_switches": [], "nonvoluntary_ctxt_switches": []}
    waits = list[int | None]()
    with suppress(OSError):
        for thread in (process / "task").iterdir():
            waits.append(_core_wait_ns(thread))
            for line in read_lines(thread / "status"):
                name, _, value = line.partition(":")
                if name in switches and (number := to_int(value)) is not None:
                    switches[name].append(number)
    voluntary, involuntary = (sum(counts) if counts else None for counts in switches.values())
    io = _io(process / "io")
    # Read stat last: if it exists, the process was alive while the other files were read.
    numbers = [number for number in map(to_int, stat_words(process)[9:15]) if number is not None]
    if len(numbers) < 6:
        return UNKNOWN
    faults, ended_faults, user, system, ended_user, ended_system = numbers
    user_ns, system_ns = (user + ended_user) * _TICK_NS, (system + ended_system) * _TICK_NS
    known = [each for each in waits if each is not None]
    core_wait_ns = sum(known) if known else None
    return Usage(user_ns, system_ns, voluntary, involuntary, faults + ended_faults, *io, core_wait_ns)


def _core_wait_ns(thread: Path) -> int | None:
    """Returns how long a thread, or a process's first one, was ready to run and waited for a core. None if the kernel
    does not count it."""
    words = (read_text(thread / "schedstat") or "").split()
    return to_int(words[1]) if len(words) > 1 else None


def of_thread_ns() -> tuple[int, int]:
    """Returns user and system CPU time of the calling thread, in steps of 1 µs, from getrusage(2)."""
    # Make the kernel update the running thread's time, which it otherwise does only every few ms, at a tick.
    thread_time_ns()
    used = resource.getrusage(resource.RUSAGE_THREAD)
    return _ns(used.ru_utime), _ns(used.ru_stime)


def waits_of_thread() -> int:
    """Returns how often the calling thread gave up its core to wait, from getrusage(2)."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def core_wait_of_thread_ns() -> int:
    """Returns how long the calling thread was ready to run and waited for a core. 0 if the kernel does not count
    it."""
    return _core_wait_ns(ROOT / "proc/thread-self") or 0


def of_tree(pids: Iterable[int]) -> Usage:
    """Returns the use of these processes and all their descendants, each counted once.

    All figures are None if one of `pids` is gone. If a descendant ends during the call, the tree is read again, since
    the kernel has added the descendant's input and output to its parent's.
    """
    pids = tuple(dict.fromkeys(pids))
    for _ in range(_TRIES):
        usage, missed = NOTHING, False
        # Read parents before children, so that a child that ends meanwhile is missed rather than counted twice.
        for pid in [*pids, *(pid for pid in with_descendants(pids) if pid not in pids)]:
            part = measure_process(pid)
            if part != UNKNOWN or pid in pids:
                usage += part
            else:
                missed = True
        if not missed:
            break
    return usage


def with_descendants(pids: Iterable[int]) -> tuple[int, ...]:
    """Returns the ids of these processes and of all their current descendants."""
    all_pids: dict[int, None] = {}
    for pid in pids:
        all_pids[pid] = None
        with suppress(psutil.Error):
            all_pids |= dict.fromkeys(child.pid for child in psutil.Process(pid).children(recursive=True))
    return tuple(all_pids)


def cpu_ns(pids: Iterable[int]) -> int:
    """Returns the CPU time of these processes, in steps of a tick. Processes that are gone count as 0."""
    words = (word for pid in pids for word in stat_words(ROOT / "proc" / str(pid))[11:13])
    return sum(to_int(word) or 0 for word in words) * _TICK_NS


def has_waiting_threads(*, root: Path = ROOT) -> bool:
    """Returns whether another thread of this process is ready to run, but may lack a core on a busy machine. Linux
    only."""
    own = str(get_native_id())
    with suppress(OSError):
        tasks = (root / "proc/self/task").iterdir()
        return any(stat_words(task)[:1] == ["R"] for task in tasks if task.name != own)
    return False


def peak_resident_bytes(pid: int, *, root: Path = ROOT) -> int | None:
    """Returns the maximum resident memory of a process so far, including mapped files.

    Returns None if the process is gone or a zombie.
    """
    peak = _high_water_bytes(pid, root)
    if peak is None:
        return None
    return max(peak, _peaks_before_reset.get(pid, 0))


def own_peak_resident_bytes() -> int:
    """Returns the maximum resident memory of this process so far, from getrusage(2)."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    return max(peak, _peaks_before_reset.get(os.getpid(), 0))


def reset_peaks(pids: Iterable[int], *, root: Path = ROOT) -> bool:
    """Makes the kernel measure the peaks of these processes anew, by /proc/PID/clear_refs. Processes that are gone
    are left out.

    Returns False if it refuses for one of them: for another user's process, or if it can't (before Linux 4.0, or in
    gVisor).
    """
    done = True
    for pid in pids:
        if (peak := peak_resident_bytes(pid, root=root)) is not None:
            _peaks_before_reset[pid] = peak
        process = root / "proc" / str(pid)
        try:
            (process / "clear_refs").write_text("5")
        except OSError:
            done = done and not process.exists()
    return done


def peaks_since_reset(pids: Iterable[int], *, root: Path = ROOT) -> int | None:
    """Returns the sum of the processes' maxima of resident memory, each since its start or since `reset_peaks`. Pages
    that processes share count in each. Processes that are gone are left out; None if all are."""
    peaks = [peak for pid in pids if (peak := _high_water_bytes(pid, root)) is not None]
    if peaks:
        return sum(peaks)
    return None


def _high_water_bytes(pid: int, root: Path) -> int | None:
    for line in read_lines(root / "proc" / str(pid) / "status"):
        if line.startswith("VmHWM:"):
            kib = to_int(line.partition(":")[2].replace("kB", ""))
            if kib is None:
                return None
            return kib << 10
    return None


def device(place: Path, *, root: Path = ROOT) -> dict[str, int | None]:
    """Returns the bytes that all programs read from and wrote to the block device or partition that holds `place`, or
    that `place` is, since it appeared, from /sys: read_bytes and written_bytes.

    They are None without a block device (in memory, over a network, on an overlay), or if its counting is switched
    off. For a file system on several devices, they are those of the device that its mount names.
    """
    place = nearest_existing(place)
    status = place.stat()
    if stat.S_ISBLK(status.st_mode):
        number = status.st_rdev
    else:
        number = status.st_dev
    source = filesystem(place, root=root)["device"]
    for block in block_directories(f"{os.major(number)}:{os.minor(number)}", source, root):
        words = (read_text(block / "stat") or "").split()
        if len(words) >= 7:
            # With iostats off, the counters stand still as if the device were idle. A partition's switch is that of
            # its disk, in the parent directory.
            if "0" in (read_text(block / "queue/iostats"), read_text(block / "../queue/iostats")):
                break
            sectors = {"read_bytes": to_int(words[2]), "written_bytes": to_int(words[6])}
            return {name: None if count is None else count * _SECTOR_BYTES for name, count in sectors.items()}
    return {"read_bytes": None, "written_bytes": None}


def _io(file: Path) -> tuple[int | None, int | None, int | None]:
    """Returns asked_bytes, read_bytes and written_bytes of `Usage`."""
    counters = {name: to_int(value) for name, _, value in (line.partition(":") for line in read_lines(file))}
    written = difference(counters.get("cancelled_write_bytes"), counters.get("write_bytes"))
    return counters.get("rchar"), counters.get("read_bytes"), written


def _read_rusage(whose: int, *io: int | None) -> Usage:
    used = resource.getrusage(whose)
    return Usage(_ns(used.ru_utime), _ns(used.ru_stime), used.ru_nvcsw, used.ru_nivcsw, used.ru_majflt, *io)


def _ns(seconds: float) -> int:
    """Converts seconds to ns, rounded to the kernel's whole µs. Further digits are rounding errors of the float."""
    return round(seconds * 1e6) * 1000


def without_pauses(used: Usage, paused: tuple[int, int]) -> Usage:
    """Subtracts the user and system CPU time of pauses. The sum of both is exact, but the split is not: the kernel
    splits a thread's time and a process's time by different samples."""
    if used.user_ns is None or used.system_ns is None:
        return used
    user, system = used.user_ns - paused[0], used.system_ns - paused[1]
    # If one part comes out negative, the other is too large by the same amount: the two errors cancel.
    user, system = max(user + min(system, 0), 0), max(system + min(user, 0), 0)
    return replace(used, user_ns=user, system_ns=system)
