"""Strain of the machine during a trial: steal, swapping, stalls and throttling, as differences of counters.

`dyno.stats` explains what they mean for a sample. None means unknown. Every file in /proc or /sys may be missing.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from dyno.host.procfs import ROOT, Ticks, difference, groups, read_lines, read_text, swapped, to_int

_THROTTLED = "throttled_ns of level "


def counters(*, root: Path = ROOT) -> dict[str, int | None]:
    """Returns the kernel's current counters, as an argument for `since`."""
    ticks = Ticks.read(root)
    swapped_in, swapped_out = swapped(root)
    files = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/thermal_throttle/core_throttle_count")
    throttles = [count for count in map(to_int, map(read_text, files)) if count is not None]
    return {
        "steal_ticks": ticks.steal if ticks else None,
        "total_ticks": ticks.total if ticks else None,
        "swapped_in_bytes": swapped_in,
        "swapped_out_bytes": swapped_out,
        **{f"{what}_stall_ns": _stall_ns(root, what) for what in ("memory", "io", "cpu")},
        "thermal_throttles": sum(throttles) if throttles else None,
        # Number the groups, since a group's name may reveal the machine or its user.
        **{f"{_THROTTLED}{n}": _throttled_ns(group) for n, group in enumerate(groups(root, "cpu"))},
    }


def since(
    before: Mapping[str, int | None], after: Mapping[str, int | None], elapsed_ns: int
) -> dict[str, float | int | None]:
    """Returns the differences between two results of `counters`, taken `elapsed_ns` apart.

    All are of the whole machine, except throttled_ns:

    steal_percent        share of all cores' time that the hypervisor gave to others (/proc/stat); None for less
                         than a tick
    swapped_in_bytes     from swap (/proc/vmstat)
    swapped_out_bytes    to swap
    memory_stall_ns      time during which at least one task waited for memory (`some` of /proc/pressure); at most
                         elapsed_ns; None on a kernel without PSI
    io_stall_ns          the same for input and output
    cpu_stall_ns         the same for a core
    throttled_ns         time for which the CPU limit of this process's control groups held it back, by the group
                         with the longest; summed over cores, so that it can exceed elapsed_ns (cpu.stat)
    thermal_throttles    how often a processor was too hot, summed over logical cores (thermal_throttle)
    elapsed_ns           as given

    None if a counter is unknown or ran backwards (it was reset, or a core was removed).
    """

    def gained(name: str) -> int | None:
        gain = difference(before.get(name), after.get(name))
        return None if gain is None or gain < 0 else gain

    steal, total = gained("steal_ticks"), gained("total_ticks")
    # Use the maximum rather than the sum, since a group and its parent may be throttled at the same time. Compare
    # differences rather than counters, since the largest counter may not have grown.
    throttled = [gain for name in after if name.startswith(_THROTTLED) and (gain := gained(name)) is not None]
    return {
        # iowait may run backwards and shrink the total, so limit the share to 100 %.
        "steal_percent": None if steal is None or not total else round(100 * min(steal / total, 1), 2),
        **{f"swapped_{way}_bytes": gained(f"swapped_{way}_bytes") for way in ("in", "out")},
        **{f"{what}_stall_ns": gained(f"{what}_stall_ns") for what in ("memory", "io", "cpu")},
        "throttled_ns": max(throttled, default=None),
        "thermal_throttles": gained("thermal_throttles"),
        "elapsed_ns": elapsed_ns,
    }


def _stall_ns(root: Path, what: str) -> int | None:
    for line in read_lines(root / "proc/pressure" / what):
        if match := re.match(r"some .*\btotal=(\d+)", line):
            return int(match[1]) * 1000
    return None


def _throttled_ns(group: Path) -> int | None:
    """Returns None for a group that isn't visible, or can't have a limit, like the root of version 2."""
    counts = dict(line.partition(" ")[::2] for line in read_lines(group / "cpu.stat"))
    microseconds = to_int(counts.get("throttled_usec"))
    return to_int(counts.get("throttled_time")) if microseconds is None else microseconds * 1000
