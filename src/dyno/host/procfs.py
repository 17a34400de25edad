"""Reads the kernel's text files in /proc and /sys: mounts, control groups, CPU time, swapping, caches and clock
rates.

No file has to exist, and no function raises for what it reads: None means unknown. `root` is where /proc and /sys
are.
"""

from __future__ import annotations

import os
import re
import statistics
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


def to_int(text: str | None) -> int | None:
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def to_float(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None


def difference(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


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
    """Major and minor number of the device: '254:0'. Major 0 means that the file system has none of its own."""
    type: str
    source: str
    options: tuple[str, ...]


def mounts(root: Path = ROOT, errors: str = "replace") -> list[Mount]:
    """Returns the mounts that this process sees; of two at one point, the later hides the earlier.

    `errors`: how names that aren't UTF-8 are decoded.
    """
    try:
        text = (root / "proc/self/mountinfo").read_text(encoding="utf-8", errors=errors)
    except (OSError, ValueError):
        return []
    mounts = []
    # Names may contain any white space except blanks and line ends.
    for line in text.split("\n"):
        mount, _, filesystem = line.partition(" - ")
        words, more = mount.split(" "), filesystem.split(" ")
        if len(words) >= 6 and len(more) >= 2:
            options = dict.fromkeys(",".join([words[5], *more[2:3]]).split(","))
            mounts.append(Mount(_unescaped(words[4]), words[2], more[0], _unescaped(more[1]), tuple(options)))
    return mounts


def _unescaped(text: str) -> str:
    """Decodes octal escapes: mountinfo writes a blank in a name as \\040."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def groups(root: Path, controller: str) -> Iterator[Path]:
    """Yields the directories of this process's control group and of its ancestors, for versions 1, 2 and both
    mixed."""
    top = root / "sys/fs/cgroup"
    for line in read_lines(root / "proc/self/cgroup"):
        _, controllers, group = ([*line.split(":", 2), "", ""])[:3]
        if not controllers:
            tops = [top, top / "unified"]
        elif controller in controllers.split(","):
            tops = [top / controllers, top / controller]
        else:
            continue
        # A container may read its path on the host while it sees only its own part, mounted at the top: some levels
        # don't exist then.
        path = PurePosixPath(group)
        for directory in tops:
            for level in (path, *path.parents):
                yield directory / str(level).lstrip("/")


def quota_cores(root: Path) -> float | None:
    """Returns the CPU time that the tightest control group allows, in cores; None without a limit."""
    quotas = []
    for group in groups(root, "cpu"):
        both = (read_text(group / "cpu.max") or "").split()
        if len(both) != 2:
            both = [read_text(group / f"cpu.cfs_{part}_us") or "" for part in ("quota", "period")]
        quota, period = to_int(both[0]), to_int(both[1])
        if quota and period and quota > 0 and period > 0:
            quotas.append(quota / period)
    return round(min(quotas), 3) if quotas else None


@dataclass(frozen=True)
class Ticks:
    """CPU time since boot, in the kernel's ticks. Waiting for disks counts as idle."""

    total: int
    busy: int
    steal: int

    @staticmethod
    def read(root: Path, core: int | None = None) -> Ticks | None:
        """Reads the ticks of a core, or of all together."""
        name = "cpu" if core is None else f"cpu{core}"
        words = next((line.split() for line in read_lines(root / "proc/stat") if line.startswith(f"{name} ")), [])
        ticks = [n for n in map(to_int, words[1:9]) if n is not None]
        if len(ticks) < 8:
            return None
        # The next two columns, of guests, are included in user and nice.
        user, nice, system, _idle, _iowait, irq, softirq, steal = ticks
        return Ticks(sum(ticks), user + nice + system + irq + softirq, steal)


def swapped(root: Path) -> tuple[int | None, int | None]:
    """Returns the bytes swapped in and out since boot."""
    page = os.sysconf("SC_PAGE_SIZE")
    counters = dict(line.partition(" ")[::2] for line in read_lines(root / "proc/vmstat"))
    pages_in, pages_out = (to_int(counters.get(name)) for name in ("pswpin", "pswpout"))
    return None if pages_in is None else pages_in * page, None if pages_out is None else pages_out * page


@dataclass(frozen=True)
class Cache:
    """Data cache of the first processor."""

    name: str
    """'L1d', 'L2'."""
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


def mean_mhz(*, root: Path = ROOT) -> float | None:
    """Returns the mean clock rate of all processors now, by /proc/cpuinfo or else by cpufreq. In a virtual machine it
    may be a constant that the host reports."""
    lines = [line for line in read_lines(root / "proc/cpuinfo") if "cpu MHz" in line]
    rates = [to_float(line.partition(":")[2].strip()) for line in lines]
    if not rates:
        files = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq")
        rates = [None if (khz := to_int(read_text(file))) is None else khz / 1000 for file in files]
    known = [mhz for mhz in rates if mhz is not None]
    return round(statistics.mean(known), 1) if known else None
