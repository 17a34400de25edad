"""What the machine suffered between two moments of a trial: steal, swapping, stalls and throttling.

Only counters and their differences stand here, as plain data for the run file; what they mean for a sample is
said in `dyno.stats`. Unknown is None. No file of /proc or /sys has to exist.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from dyno.host.filesystem import ROOT
from dyno.host.kernel import Ticks, groups, swapped
from dyno.host.procfs import difference, read_lines, read_text, to_int

_THROTTLED = "throttled_ns of level "


def counters(*, root: Path = ROOT) -> dict[str, int | None]:
    """The kernel's counters now: nothing by themselves, and for `since` only."""
    ticks = Ticks.read(root)
    inward, outward = swapped(root)
    return {
        "steal_ticks": ticks.steal if ticks else None,
        "total_ticks": ticks.total if ticks else None,
        "swapped_in_bytes": inward,
        "swapped_out_bytes": outward,
        "memory_stall_ns": _stall_ns(root, "memory"),
        "io_stall_ns": _stall_ns(root, "io"),
        "cpu_stall_ns": _stall_ns(root, "cpu"),
        "thermal_throttles": _thermal_throttles(root),
        # By position: a group's name may tell of the machine or its user.
        **{f"{_THROTTLED}{n}": _throttled_ns(group) for n, group in enumerate(groups(root, "cpu"))},
    }


def since(
    before: Mapping[str, int | None], after: Mapping[str, int | None], elapsed_ns: int
) -> dict[str, float | int | None]:
    """What happened between two results of `counters`, taken `elapsed_ns` apart.

    steal_percent        of all cores' time, what the hypervisor gave to others (/proc/stat); None for less
                         than a tick
    swapped_in_bytes     of the whole machine, as all but throttled_ns (/proc/vmstat)
    swapped_out_bytes
    memory_stall_ns      time during which at least one task waited for memory (`some` of /proc/pressure, as the
    io_stall_ns          next two), for input or output, or for a core; at most elapsed_ns. Not of this trial
    cpu_stall_ns         only; None on a kernel without PSI
    throttled_ns         CPU time limit of this process's control groups: how long the one held back longest
                         was, summed over cores, so that it can exceed elapsed_ns (cpu.stat of cgroup v2 or v1)
    thermal_throttles    how often a processor was too hot, summed over logical cores (thermal_throttle)
    elapsed_ns           as given

    None where either counter is unknown, or where one ran backwards (it was set back, or a core left).
    """

    def gained(name: str) -> int | None:
        gain = difference(before.get(name), after.get(name))
        return None if gain is None or gain < 0 else gain

    steal, total = gained("steal_ticks"), gained("total_ticks")
    # The longest, not the sum: while a group and the one above it are both held back, the sum counts the same
    # wait twice. Of the differences, since the longest counter may be an old one that stands still.
    throttled = [gain for name in after if name.startswith(_THROTTLED) and (gain := gained(name)) is not None]
    return {
        # The counter of waiting may run backwards, and the total with it.
        "steal_percent": None if steal is None or not total else round(100 * min(steal / total, 1), 2),
        "swapped_in_bytes": gained("swapped_in_bytes"),
        "swapped_out_bytes": gained("swapped_out_bytes"),
        "memory_stall_ns": gained("memory_stall_ns"),
        "io_stall_ns": gained("io_stall_ns"),
        "cpu_stall_ns": gained("cpu_stall_ns"),
        "throttled_ns": max(throttled, default=None),
        "thermal_throttles": gained("thermal_throttles"),
        "elapsed_ns": elapsed_ns,
    }


def _stall_ns(root: Path, what: str) -> int | None:
    for line in read_lines(root / "proc/pressure" / what):
        found = re.match(r"some .*\btotal=(\d+)", line)
        if found:
            return int(found[1]) * 1000
    return None


def _throttled_ns(group: Path) -> int | None:
    """None where the group is not seen, or (as at the top of version 2) can't have a limit."""
    counts = dict(line.partition(" ")[::2] for line in read_lines(group / "cpu.stat"))
    microseconds = to_int(counts.get("throttled_usec"))
    return to_int(counts.get("throttled_time")) if microseconds is None else microseconds * 1000


def _thermal_throttles(root: Path) -> int | None:
    files = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/thermal_throttle/core_throttle_count")
    counts = [count for count in map(to_int, map(read_text, files)) if count is not None]
    return sum(counts) if counts else None
