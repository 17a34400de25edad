"""What more than one reader of the kernel's files needs: control groups, all cores' time, and swapping.

Nothing here raises for what is missing. What only one module reads stands there; what a figure means for a
measurement may not be said here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from dyno.host.procfs import read_lines, read_text, to_int


def groups(root: Path, controller: str) -> Iterator[Path]:
    """The directories of this process's control group and of all above it: version 1, 2 and both mixed."""
    mounted = root / "sys/fs/cgroup"
    for line in read_lines(root / "proc/self/cgroup"):
        _, controllers, group = ([*line.split(":", 2), "", ""])[:3]
        if not controllers:
            tops = [mounted, mounted / "unified"]
        elif controller in controllers.split(","):
            tops = [mounted / controllers, mounted / controller]
        else:
            continue
        # A container may be told its path on the host while it sees only its own part, mounted at the top:
        # the levels that are not there are passed over.
        path = PurePosixPath(group)
        for top in tops:
            for level in (path, *path.parents):
                yield top / str(level).lstrip("/")


def quota_cores(root: Path) -> float | None:
    """The CPU time that the tightest control group allows, in cores; None where nothing limits it."""
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
    """CPU time since boot, in the kernel's ticks; waiting for disks counts as idle."""

    total: int
    busy: int
    steal: int

    @staticmethod
    def read(root: Path, core: int | None = None) -> Ticks | None:
        """Of that core, or of all together."""
        name = "cpu" if core is None else f"cpu{core}"
        words = next((line.split() for line in read_lines(root / "proc/stat") if line.startswith(f"{name} ")), [])
        ticks = [n for n in map(to_int, words[1:9]) if n is not None]
        if len(ticks) < 8:
            return None
        # The two columns after these, the guests', are counted in user and nice already.
        user, nice, system, _idle, _iowait, irq, softirq, steal = ticks
        return Ticks(sum(ticks), user + nice + system + irq + softirq, steal)


def swapped(root: Path) -> tuple[int | None, int | None]:
    """Bytes swapped in and out since boot."""
    page = os.sysconf("SC_PAGE_SIZE")
    counters = dict(line.partition(" ")[::2] for line in read_lines(root / "proc/vmstat"))
    inward, outward = (to_int(counters.get(name)) for name in ("pswpin", "pswpout"))
    return None if inward is None else inward * page, None if outward is None else outward * page
