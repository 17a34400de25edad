"""Reads the kernel's text files in /proc and /sys: mounts, control groups, CPU time, swapping, caches and clock
rates.

Every file may be missing or malformed: functions return None for unknown values instead of raising. `root` is the
directory that contains /proc and /sys.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

ROOT = Path("/")


def read_text(file: Path) -> str | None:
    """Returns the stripped text of a file; None if it is empty or can't be read."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip() or None
    except (OSError, ValueError):
        return None


def read_lines(file: Path) -> list[str]:
    return (read_text(file) or "").splitlines()


def stat_words(process: Path) -> list[str]:
    """Returns the fields of proc_pid_stat(5) after the name; an empty list if the process or thread is gone."""
    # Skip the name, which is in parentheses and may itself contain parentheses.
    return (read_text(process / "stat") or "").rpartition(")")[2].split()


def to_int(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        return None


def to_float(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def difference(before: int | None, after: int | None) -> int | None:
    if before is None or after is None:
        return None
    return after - before


def cpu_list(text: str) -> list[int] | None:
    """Returns the CPUs in a list such as '0-3,8'; None if it is malformed."""
    cpus: list[int] = []
    for span in text.split(","):
        first, _, last = span.strip().partition("-")
        low, high = to_int(first), to_int(last or first)
        if low is None or high is None:
            return None
        cpus += range(low, high + 1)
    return cpus


class Mount(NamedTuple):
    """A line of mountinfo, see proc_pid_mountinfo(5)."""

    point: str
    number: str
    """Major and minor number of the device: '254:0'. Major 0 means that the file system has no device of its own."""
    type: str
    source: str
    options: tuple[str, ...]


def mounts(root: Path = ROOT, errors: str = "replace") -> list[Mount]:
    """Returns the mounts that this process sees. Of two mounts at the same point, the later hides the earlier.

    `errors`: error handler for names that aren't UTF-8, as for `bytes.decode`.
    """
    try:
        text = (root / "proc/self/mountinfo").read_text(encoding="utf-8", errors=errors)
    except (OSError, ValueError):
        return []
    mounts = []
    # Split only at blanks and line ends, since names may contain any other white space.
    for line in text.split("\n"):
        mount, _, filesystem = line.partition(" - ")
        words, more = mount.split(" "), filesystem.split(" ")
        if len(words) >= 6 and len(more) >= 2:
            options = dict.fromkeys(",".join([words[5], *more[2:3]]).split(","))
            mounts.append(
                Mount(_unescape_octal(words[4]), words[2], more[0], _unescape_octal(more[1]), tuple(options))
            )
    return mounts


def _unescape_octal(text: str) -> str:
    """Decodes octal escapes: mountinfo writes a blank in a name as \\040."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def groups(root: Path, controller: str) -> Iterator[Path]:
    """Yields the directories of this process's control group and of its ancestors.

    Works for versions 1 and 2, and for both mixed.
    """
    top = root / "sys/fs/cgroup"
    for line in read_lines(root / "proc/self/cgroup"):
        _, controllers, group = ([*line.split(":", 2), "", ""])[:3]
        if not controllers:
            tops = [top, top / "unified"]
        elif controller in controllers.split(","):
            tops = [top / controllers, top / controller]
        else:
            continue
        # A container may see its path on the host, while only its own part of the tree is mounted, at the top. Some
        # of these directories don't exist then.
        path = PurePosixPath(group)
        for directory in tops:
            for level in (path, *path.parents):
                yield directory / str(level).lstrip("/")


def memory_limit(root: Path = ROOT, most: int = 1 << 60) -> int | None:
    """Returns the least memory limit of this process's control groups, in bytes; None without one below `most`."""
    files = ((group / "memory.max", group / "memory.limit_in_bytes") for group in groups(root, "memory"))
    limits = [to_int(read_text(two) or read_text(one)) for two, one in files]
    # Version 1 of control groups reports a huge number for no limit.
    return min((limit for limit in limits if limit is not None and limit < most), default=None)


def input_bytes(most: int, root: Path = ROOT) -> int:
    """Returns the most bytes of inputs that Dyno makes at once: `most`, or less if this process's memory is limited.

    Inputs that wait and those that are being made are together at most a tenth of the limit, so that the rest is the
    engine's.
    """
    limit = memory_limit(root)
    if limit is None:
        return most
    return min(most, limit // 20)


def quota_cores(root: Path) -> float | None:
    """Returns the tightest limit of CPU time of all control groups, in cores; None without a limit."""
    quotas = []
    for group in groups(root, "cpu"):
        both = (read_text(group / "cpu.max") or "").split()
        if len(both) != 2:
            both = [read_text(group / f"cpu.cfs_{part}_us") or "" for part in ("quota", "period")]
        quota, period = to_int(both[0]), to_int(both[1])
        if quota and period and quota > 0 and period > 0:
            quotas.append(quota / period)
    if quotas:
        return round(min(quotas), 3)
    return None


@dataclass(frozen=True)
class Ticks:
    """CPU time since boot, in the kernel's ticks. Waiting for disks counts as idle."""

    total: int
    busy: int
    steal: int

    @staticmethod
    def read(root: Path, core: int | None = None) -> Ticks | None:
        """Reads the ticks of one core, or of all cores together (None)."""
        name = "cpu" if core is None else f"cpu{core}"
        words = next((line.split() for line in read_lines(root / "proc/stat") if line.startswith(f"{name} ")), [])
        ticks = [n for n in map(to_int, words[1:9]) if n is not None]
        if len(ticks) < 8:
            return None
        # Ignore the next two columns, of guests, which are included in user and nice.
        user, nice, system, _idle, _iowait, irq, softirq, steal = ticks
        return Ticks(sum(ticks), user + nice + system + irq + softirq, steal)


def read_swap_counters(root: Path) -> tuple[int | None, int | None]:
    """Returns the bytes swapped in and out since boot."""
    counters = dict(line.partition(" ")[::2] for line in read_lines(root / "proc/vmstat"))
    return _page_bytes(counters.get("pswpin")), _page_bytes(counters.get("pswpout"))


def _page_bytes(pages: str | None) -> int | None:
    count = to_int(pages)
    if count is None:
        return None
    return count * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Cache:
    """Data cache of the first processor."""

    name: str
    """Name of the cache: 'L1d', 'L2'."""
    size_bytes: int
    shared_by: int
    """Number of CPUs that share it."""


def caches(*, root: Path = ROOT) -> list[Cache]:
    """Returns the data caches, the smallest first."""
    caches = []
    for index in (root / "sys/devices/system/cpu/cpu0/cache").glob("index[0-9]*"):
        level, kind, size = (read_text(index / name) for name in ("level", "type", "size"))
        kib = to_int((size or "").removesuffix("K"))
        if level and kib and kind in ("Data", "Unified"):
            name = f"L{level}{'d' if kind == 'Data' else ''}"
            sharing = cpu_list(read_text(index / "shared_cpu_list") or "0")
            caches.append(Cache(name, kib << 10, len(sharing or "1")))
    return sorted(caches, key=lambda cache: cache.size_bytes)


def mean_mhz() -> float | None:
    """Returns the current mean clock rate of all processors.

    In a virtual machine it may be a constant that the host reports.
    """
    import psutil

    frequency = psutil.cpu_freq()
    if frequency:
        return round(frequency.current, 1)
    return None
