"""Facts about the machine, as plain JSON data. Every run file records them, and `dyno doctor` shows them.

`dyno.stats.machine` explains what they mean for a measurement. None means unknown. No fact may identify the machine
or its users. Every file in /proc or /sys may be missing or malformed, and this module must not raise for that.
"""

import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import repeat
from pathlib import Path
from typing import Any

from dyno.host.filesystem import filesystem, fsync_ns, nearest_existing
from dyno.host.procfs import (
    ROOT,
    Ticks,
    cpu_list,
    difference,
    groups,
    memory_limit,
    quota_cores,
    read_lines,
    read_swap_counters,
    read_text,
    stat_words,
    to_float,
    to_int,
)

__all__ = ["clock_cost_ns", "facts", "filesystem", "fsync_ns", "nearest_existing", "pressure"]


def facts(work: Path, *, root: Path = ROOT) -> dict[str, Any]:
    """Returns facts about this machine as nested dicts; None means unknown.

    `work`: directory for the engines' data, or its nearest parent that exists. `root`: where /proc, /sys and /etc
    are. Takes up to a second if the device flushes slowly.
    """
    work = nearest_existing(work)
    libc = " ".join(platform.libc_ver()).strip() or None
    with suppress(OSError, ValueError):
        # Prefer the version in use: platform.libc_ver() returns the oldest one that the interpreter accepts.
        libc = os.confstr("CS_GNU_LIBC_VERSION") or libc
    lines = [line for file in ("etc/os-release", "usr/lib/os-release") for line in read_lines(root / file)]
    names = [line.partition("=")[2].strip("\"'") for line in lines if line.startswith("PRETTY_NAME=")]
    loads = [*(read_text(root / "proc/loadavg") or "").split(), "", "", ""]
    ticks = Ticks.read(root)
    return {
        "cpu": _cpu(root),
        "memory": _memory(root),
        "system": {
            "os": next(iter(names), None) or None,
            "kernel": platform.release() or None,
            "architecture": platform.machine() or None,
            "libc": libc,
        },
        "python": {"version": platform.python_version(), "implementation": platform.python_implementation()},
        "filesystem": filesystem(work, root=root) | {"fsync_ns": fsync_ns(work)},
        "clock": {
            "source": read_text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"),
            "cost_ns": clock_cost_ns(),
            "resolution_ns": max(1, round(time.get_clock_info("perf_counter").resolution * 1e9)),
        },
        "load": {f"minutes_{m}": to_float(word) for m, word in zip((1, 5, 15), loads, strict=False)},
        "steal_percent": _percent(ticks.steal, ticks.total) if ticks else None,
        "psi": _psi(root),
    }


def pressure(
    seconds: float, *, root: Path = ROOT, sleep: Callable[[float], None] = time.sleep
) -> dict[str, float | int | None]:
    """Measures for `seconds` how much of this machine other programs take: steal, CPU time, and swapping.

    `others_busy_percent` is a share of all cores together. This process and its running children don't count as
    others.
    """
    before = Ticks.read(root)
    own_before = _own_ticks(root)
    swap_before = read_swap_counters(root)
    sleep(seconds)
    after = Ticks.read(root)
    own_after = _own_ticks(root)
    swap_after = read_swap_counters(root)
    steal = others = None
    if before and after:
        total, own = after.total - before.total, difference(own_before, own_after)
        steal = _percent(after.steal - before.steal, total)
        others = None
        if own is not None:
            others = _percent(after.busy - before.busy - own, total)
    return {
        "seconds": seconds,
        "steal_percent": steal,
        "others_busy_percent": others,
        "swapped_in_bytes": difference(swap_before[0], swap_after[0]),
        "swapped_out_bytes": difference(swap_before[1], swap_after[1]),
    }


def clock_cost_ns(*, batches: int = 21, calls: int = 2000) -> int:
    """Returns the cost of a call of `time.perf_counter_ns` in Python: the median over batches, loop overhead
    included."""
    clock = time.perf_counter_ns
    costs = []
    for _ in range(batches):
        start = clock()
        for _ in repeat(None, calls):
            clock()
        costs.append((clock() - start) / calls)
    return round(statistics.median(costs))


def _cpu(root: Path) -> dict[str, object]:
    info: dict[str, str] = {}
    processors = 0
    for line in read_lines(root / "proc/cpuinfo"):
        name, _, value = (part.strip() for part in line.partition(":"))
        processors += name == "processor"
        info.setdefault(name, value)
    # The cores that affinity and cpuset allow this process.
    status = [line.partition(":")[2] for line in read_lines(root / "proc/self/status") if "Cpus_allowed_list" in line]
    allowed = cpu_list(status[0]) if status else None
    cpus = root / "sys/devices/system/cpu"
    no_turbo, boost = read_text(cpus / "intel_pstate/no_turbo"), read_text(cpus / "cpufreq/boost")
    turbo = None
    if no_turbo:
        turbo = no_turbo == "0"
    elif boost:
        turbo = boost == "1"
    governors = {read_text(file) for file in cpus.glob("cpu[0-9]*/cpufreq/scaling_governor")} - {None}
    mhz = to_float(info.get("cpu MHz"))
    # Only x86 has a processor flag for virtual machines. None: unknown.
    is_virtual: bool | None = True if read_text(root / "sys/hypervisor/type") else None
    if "flags" in info:
        is_virtual = "hypervisor" in info["flags"].split()
    return {
        "model": info.get("model name") or info.get("Model") or info.get("cpu model"),
        "logical_cores": processors or None,
        "available_cores": None if allowed is None else len(allowed),
        "quota_cores": quota_cores(root),
        "governor": ", ".join(sorted(str(g) for g in governors)) or None,
        "mhz": round(mhz) if mhz else _mhz(cpus / "cpu0/cpufreq/scaling_cur_freq"),
        "max_mhz": _mhz(cpus / "cpu0/cpufreq/cpuinfo_max_freq"),
        "turbo": turbo,
        "virtualised": is_virtual,
    }


def _mhz(file: Path) -> int | None:
    khz = to_int(read_text(file))
    if khz:
        return round(khz / 1000)
    return None


def _memory(root: Path) -> dict[str, int | None]:
    sizes: dict[str, int] = {}
    for line in read_lines(root / "proc/meminfo"):
        name, _, value = line.partition(":")
        kib = to_int(value.replace("kB", ""))
        if kib is not None:
            sizes[name] = kib * 1024
    return {
        "total_bytes": sizes.get("MemTotal"),
        "available_bytes": sizes.get("MemAvailable"),
        "swap_total_bytes": sizes.get("SwapTotal"),
        "swap_used_bytes": difference(sizes.get("SwapFree"), sizes.get("SwapTotal")),
        "cgroup_limit_bytes": memory_limit(root, sizes.get("MemTotal") or 1 << 60),
    }


def _psi(root: Path) -> dict[str, dict[str, float | None]] | None:
    """Returns pressure stall information: the share of the last 10 s in which some or all tasks waited."""
    stalls: dict[str, dict[str, float | None]] = {}
    for what in ("cpu", "memory", "io"):
        lines = read_lines(root / "proc/pressure" / what)
        matches = [match for line in lines if (match := re.match(r"(some|full) avg10=([\d.]+)", line))]
        if matches:
            stalls[what] = {f"{match[1]}_avg10_percent": to_float(match[2]) for match in matches}
    return stalls or None


def _percent(part: int, total: int) -> float | None:
    # The counters are read at different moments, and some may run backwards, so limit the result to 0 to 100 %.
    if total > 0:
        return round(100 * min(max(0, part) / total, 1), 2)
    return None


def _own_ticks(root: Path) -> int | None:
    """Returns the CPU time of this process in the ticks of /proc/stat."""
    own = [n for n in map(to_int, stat_words(root / "proc/self")[11:13]) if n is not None]
    if len(own) == 2:
        return sum(own)
    return None


# -- strain of the machine during a trial: steal, swapping, stalls and throttling ---------------------------

_THROTTLED = "throttled_ns of level "


def counters(*, root: Path = ROOT) -> dict[str, int | None]:
    """Returns the kernel's current counters, as an argument for `subtract_counters`."""
    ticks = Ticks.read(root)
    swapped_in, swapped_out = read_swap_counters(root)
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


def subtract_counters(
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

    def compute_gain(name: str) -> int | None:
        gain = difference(before.get(name), after.get(name))
        if gain is None or gain < 0:
            return None
        return gain

    steal, total = compute_gain("steal_ticks"), compute_gain("total_ticks")
    # Use the maximum rather than the sum, since a group and its parent may be throttled at the same time. Compare
    # differences rather than counters, since the largest counter may not have grown.
    throttled = [gain for name in after if name.startswith(_THROTTLED) and (gain := compute_gain(name)) is not None]
    return {
        # iowait may run backwards and shrink the total, so limit the share to 100 %.
        "steal_percent": None if steal is None or not total else round(100 * min(steal / total, 1), 2),
        **{f"swapped_{way}_bytes": compute_gain(f"swapped_{way}_bytes") for way in ("in", "out")},
        **{f"{what}_stall_ns": compute_gain(f"{what}_stall_ns") for what in ("memory", "io", "cpu")},
        "throttled_ns": max(throttled, default=None),
        "thermal_throttles": compute_gain("thermal_throttles"),
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
    if microseconds is None:
        return to_int(counts.get("throttled_time"))
    return microseconds * 1000
