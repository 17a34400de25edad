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
from io import FileIO
from pathlib import Path
from threading import get_native_id
from time import process_time_ns, thread_time_ns
from typing import TypedDict

import psutil

from dyno.host.filesystem import block_directories, filesystem, nearest_existing
from dyno.host.procfs import ROOT, difference, read_lines, read_text, stat_words, to_int

_TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
# The kernel's "sector", which is independent of the device's sector size (Documentation/block/stat.rst).
_SECTOR_BYTES = 512
_SCHEDSTAT_BYTES = 100
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
    minor_faults: int | None = None
    """Page faults that did not wait for a device."""
    read_calls: int | None = None
    """System calls that read: read(2), pread(2), readv(2) and the like, but not recv(2)."""
    write_calls: int | None = None
    """System calls that wrote, but not send(2)."""
    device_wait_ns: int | None = None
    """Time in which threads waited for a block device, in steps of a clock tick, of the same threads as
    `core_wait_ns`. Unknown unless the kernel counts it (the setting kernel.task_delayacct)."""

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


UNKNOWN = Usage(None, None, None, None, None, None, None, None)
NOTHING = Usage(**dict.fromkeys((f.name for f in fields(Usage)), 0))


def measure_own() -> Usage:
    """Returns the use of this process and all its threads (ended ones too), from getrusage(2) and /proc/self/io.

    CPU time is in steps of 1 µs. When a parent waits for a child, the kernel adds the child's input and output (but
    not its CPU time) to the parent's. Each call reads some 100 bytes, which the next call counts in asked_bytes.
    """
    # Make the kernel update the CPU time (see `of_thread_ns`).
    process_time_ns()
    own = ROOT / "proc/self"
    return Usage(
        **_read_rusage(resource.RUSAGE_SELF),
        **_read_io(own / "io"),
        core_wait_ns=_core_wait_ns(own),
        device_wait_ns=_device_wait_ns([own], ROOT),
    )


def of_ended_children() -> Usage:
    """Returns the use of this process's children that it has waited for, from getrusage(2). Bytes and calls are 0,
    since the kernel adds them to this process's own, and their waiting is not counted."""
    return replace(NOTHING, **_read_rusage(resource.RUSAGE_CHILDREN))


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
    threads = list[Path]()
    with suppress(OSError):
        for thread in (process / "task").iterdir():
            threads.append(thread)
            waits.append(_core_wait_ns(thread))
            for line in read_lines(thread / "status"):
                name, _, value = line.partition(":")
                if name in switches and (number := to_int(value)) is not None:
                    switches[name].append(number)
    voluntary, involuntary = (sum(counts) if counts else None for counts in switches.values())
    io = _read_io(process / "io")
    device_wait_ns = _device_wait_ns(threads, root)
    # Read stat last: if it exists, the process was alive while the other files were read.
    numbers = [number for number in map(to_int, stat_words(process)[7:15]) if number is not None]
    if len(numbers) < 8:
        return UNKNOWN
    minor, ended_minor, faults, ended_faults, user, system, ended_user, ended_system = numbers
    user_ns, system_ns = (user + ended_user) * _TICK_NS, (system + ended_system) * _TICK_NS
    known = [each for each in waits if each is not None]
    core_wait_ns = sum(known) if known else None
    return Usage(
        user_ns,
        system_ns,
        voluntary,
        involuntary,
        major_faults=faults + ended_faults,
        minor_faults=minor + ended_minor,
        core_wait_ns=core_wait_ns,
        device_wait_ns=device_wait_ns,
        **io,
    )


def _core_wait_ns(thread: Path) -> int | None:
    """Returns how long a thread, or a process's first one, was ready to run and waited for a core. None if the kernel
    does not count it."""
    words = (read_text(thread / "schedstat") or "").split()
    return to_int(words[1]) if len(words) > 1 else None


def _device_wait_ns(threads: Iterable[Path], root: Path) -> int | None:
    """Returns how long threads, or a process's first one, waited for a block device. None if the kernel does not
    count it."""
    if read_text(root / "proc/sys/kernel/task_delayacct") != "1":
        return None
    # Field 42 of proc_pid_stat(5). A thread that has ended meanwhile has none.
    ticks = [to_int(words[39]) for words in map(stat_words, threads) if len(words) > 39]
    return sum(each for each in ticks if each is not None) * _TICK_NS


def of_thread_ns() -> tuple[int, int]:
    """Returns user and system CPU time of the calling thread, in steps of 1 µs, from getrusage(2)."""
    # Make the kernel update the running thread's time, which it otherwise does only every few ms, at a tick.
    thread_time_ns()
    used = resource.getrusage(resource.RUSAGE_THREAD)
    return _ns(used.ru_utime), _ns(used.ru_stime)


def waits_of_thread() -> int:
    """Returns how often the calling thread gave up its core to wait, from getrusage(2)."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


class CoreWaitCounter:
    """How long the thread that makes it is ready to run and waits for a core. Its file stays open, because a thread
    is likely to lose its core while it opens one."""

    def __init__(self) -> None:
        self._file: FileIO | None = None
        with suppress(OSError):
            self._file = FileIO(ROOT / "proc/thread-self/schedstat")

    def read_ns(self) -> int:
        """Returns the time so far. 0 if the kernel does not count it."""
        if self._file is None:
            return 0
        words = os.pread(self._file.fileno(), _SCHEDSTAT_BYTES, 0).split()
        return int(words[1]) if len(words) > 1 else 0

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


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


class _Io(TypedDict):
    """The part of `Usage` that is from /proc/PID/io."""

    asked_bytes: int | None
    read_bytes: int | None
    written_bytes: int | None
    read_calls: int | None
    write_calls: int | None


def _read_io(file: Path) -> _Io:
    counters = {name: to_int(value) for name, _, value in (line.partition(":") for line in read_lines(file))}
    return _Io(
        asked_bytes=counters.get("rchar"),
        read_bytes=counters.get("read_bytes"),
        written_bytes=difference(counters.get("cancelled_write_bytes"), counters.get("write_bytes")),
        read_calls=counters.get("syscr"),
        write_calls=counters.get("syscw"),
    )


class _Rusage(TypedDict):
    """The part of `Usage` that is from getrusage(2)."""

    user_ns: int
    system_ns: int
    voluntary_switches: int
    involuntary_switches: int
    major_faults: int
    minor_faults: int


def _read_rusage(whose: int) -> _Rusage:
    used = resource.getrusage(whose)
    return _Rusage(
        user_ns=_ns(used.ru_utime),
        system_ns=_ns(used.ru_stime),
        voluntary_switches=used.ru_nvcsw,
        involuntary_switches=used.ru_nivcsw,
        major_faults=used.ru_majflt,
        minor_faults=used.ru_minflt,
    )


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
