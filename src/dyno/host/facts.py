"""Facts about the machine, as plain JSON data. Every run file records them, and `dyno doctor` shows them.

`dyno.stats.machine` explains what they mean for a measurement. None means unknown. No fact may identify the machine
or its users. Every file in /proc or /sys may be missing or malformed, and this module must not raise for that.
"""

import os
import platform
import re
import statistics
import time
from collections.abc import Callable
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
    quota_cores,
    read_lines,
    read_text,
    stat_words,
    swapped,
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
    memory = _memory(root)
    ticks = Ticks.read(root)
    return {
        "cpu": _cpu(root),
        "memory": memory | {"cgroup_limit_bytes": _memory_limit(root, memory["total_bytes"])},
        "system": {
            "os": _os_name(root),
            "kernel": platform.release() or None,
            "architecture": platform.machine() or None,
            "libc": _libc(),
        },
        "python": {"version": platform.python_version(), "implementation": platform.python_implementation()},
        "filesystem": filesystem(work, root=root) | {"fsync_ns": fsync_ns(work)},
        "clock": {
            "source": read_text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"),
            "cost_ns": clock_cost_ns(),
            "resolution_ns": max(1, round(time.get_clock_info("perf_counter").resolution * 1e9)),
        },
        "load": _load(root),
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
    before, own_before, swap_before = Ticks.read(root), _own_ticks(root), swapped(root)
    sleep(seconds)
    after, own_after, swap_after = Ticks.read(root), _own_ticks(root), swapped(root)
    steal: float | None = None
    others: float | None = None
    if before and after:
        total = after.total - before.total
        steal = _percent(after.steal - before.steal, total)
        own = difference(own_before, own_after)
        others = None if own is None else _percent(after.busy - before.busy - own, total)
    return {
        "seconds": seconds,
        "steal_percent": steal,
        "others_busy_percent": others,
        "swapped_in_bytes": difference(swap_before[0], swap_after[0]),
        "swapped_out_bytes": difference(swap_before[1], swap_after[1]),
    }


def clock_cost_ns(*, batches: int = 21, calls: int = 2000) -> int:
    """Returns the cost of a call of `time.perf_counter_ns` in Python: the median over batches, loop overhead
    included.
    """
    clock = time.perf_counter_ns
    costs = []
    for _ in range(batches):
        start = clock()
        for _ in repeat(None, calls):
            clock()
        costs.append((clock() - start) / calls)
    return round(statistics.median(costs))


def _cpu(root: Path) -> dict[str, Any]:
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
    turbo = no_turbo == "0" if no_turbo else boost == "1" if boost else None
    governors = {read_text(file) for file in cpus.glob("cpu[0-9]*/cpufreq/scaling_governor")} - {None}
    mhz = to_float(info.get("cpu MHz"))
    return {
        "model": info.get("model name") or info.get("Model") or info.get("cpu model"),
        "logical_cores": processors or None,
        "available_cores": None if allowed is None else len(allowed),
        "quota_cores": quota_cores(root),
        "governor": ", ".join(sorted(str(g) for g in governors)) or None,
        "mhz": round(mhz) if mhz else _mhz(cpus / "cpu0/cpufreq/scaling_cur_freq"),
        "max_mhz": _mhz(cpus / "cpu0/cpufreq/cpuinfo_max_freq"),
        "turbo": turbo,
        "virtualised": _virtualised(root, info),
    }


def _mhz(file: Path) -> int | None:
    khz = to_int(read_text(file))
    return round(khz / 1000) if khz else None


def _virtualised(root: Path, info: dict[str, str]) -> bool | None:
    """Returns whether this is a virtual machine, or None if unknown. Only x86 has a processor flag for it."""
    if "flags" in info:
        return "hypervisor" in info["flags"].split()
    return True if read_text(root / "sys/hypervisor/type") else None


def _memory_limit(root: Path, total: int | None) -> int | None:
    """Returns the tightest limit of all control groups, or None. Version 1 reports a huge number for no limit."""
    limits = []
    for group in groups(root, "memory"):
        limit = to_int(read_text(group / "memory.max") or read_text(group / "memory.limit_in_bytes"))
        if limit is not None and limit < (total or 2**60):
            limits.append(limit)
    return min(limits, default=None)


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
    }


def _load(root: Path) -> dict[str, float | None]:
    words = [*(read_text(root / "proc/loadavg") or "").split(), "", "", ""]
    return {f"minutes_{m}": to_float(word) for m, word in zip((1, 5, 15), words, strict=False)}


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
    return round(100 * min(max(0, part) / total, 1), 2) if total > 0 else None


def _own_ticks(root: Path) -> int | None:
    """Returns the CPU time of this process in the ticks of /proc/stat."""
    own = [n for n in map(to_int, stat_words(root / "proc/self")[11:13]) if n is not None]
    return sum(own) if len(own) == 2 else None


def _os_name(root: Path) -> str | None:
    for file in ("etc/os-release", "usr/lib/os-release"):
        for line in read_lines(root / file):
            if line.startswith("PRETTY_NAME="):
                return line.partition("=")[2].strip("\"'") or None
    return None


def _libc() -> str | None:
    try:
        # Prefer the version in use: platform.libc_ver() returns the oldest one that the interpreter accepts.
        name = os.confstr("CS_GNU_LIBC_VERSION")
    except (AttributeError, OSError, ValueError):
        name = None
    return name or " ".join(platform.libc_ver()).strip() or None
