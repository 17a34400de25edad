"""Reasons to distrust what is measured on a machine, found in its facts alone.

A pure function of the dict that a run file stores, so that a run can be judged long after and elsewhere.
Nothing here may look at the machine that it runs on. A fact that is missing or null gives no finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["ok", "warn", "bad"]

_WORST_FIRST: tuple[Severity, ...] = ("bad", "warn", "ok")
_GIB = 2**30

STEAL_PERCENT = 1.0
STEAL_BAD_PERCENT = 10.0
OTHERS_BUSY_PERCENT = 10.0
LOAD_SHARE = 0.5
"""Load average, as a share of the cores."""
SWAP_SHARE = 0.01
"""Swap in use, as a share of memory: below it are pages that nobody has missed."""
SLOW_CLOCK_NS = 100
SLOW_WAKE_UP_NS = 5_000
FREE_DISK_BYTES = 5 * _GIB
FREE_MEMORY_BYTES = 2 * _GIB
FASTEST_FLUSH_NS = 20_000
CORES = 2
"""One for the client, one for the server or the kernel's work."""

# Read without a call of the kernel: processors' own counters, and two that a hypervisor scales.
_PROCESSOR_CLOCKS = ("tsc", "arch_sys_counter", "riscv_clocksource", "timebase", "tod")
_CHEAP_CLOCKS = frozenset((*_PROCESSOR_CLOCKS, "kvm-clock", "hyperv_clocksource_tsc_page"))


@dataclass(frozen=True)
class Finding:
    """One thing to know before trusting a figure of this machine; 'ok' is a remark that spoils nothing."""

    code: str
    severity: Severity
    text: str
    """One line, with the number."""
    remedy: str
    """One line, a command where there is one; empty where nothing can be done."""


def cores(facts: Mapping[str, Any]) -> float | None:
    """How many a trial could use: those it may run on, or less where its CPU time is limited."""
    found = (_number(facts, "cpu", "available_cores"), _number(facts, "cpu", "quota_cores"))
    return min((number for number in found if number), default=None)


def machine_doubts(facts: Mapping[str, Any]) -> list[Finding]:
    """The findings on `facts`: as `dyno.host.facts.facts` gives them; `pressure` among them where measured.

    The worst stand first.
    """
    judges = (_storage, _flush, _others, _memory, _cores, _frequency, _wake_ups, _clock, _loop, _left_behind)
    found = [finding for judge in judges for finding in judge(facts)]
    return sorted(found, key=lambda finding: _WORST_FIRST.index(finding.severity))


def _storage(facts: Mapping[str, Any]) -> Iterator[Finding]:
    where = f"{_at(facts, 'filesystem', 'mount_point')} ({_at(facts, 'filesystem', 'type')})"
    if _at(facts, "filesystem", "ram_backed") is True:
        yield Finding(
            "ram-filesystem",
            "bad",
            f"the work directory is on {where}, in memory: tier power means nothing, tier process little",
            "put the work directory on a disk",
        )
    if _at(facts, "filesystem", "network") is True:
        yield Finding(
            "network-filesystem",
            "warn",
            f"the work directory is on {where}, served by another machine: its figures are the network's too",
            "put the work directory on a local disk, unless the network is what you want to measure",
        )
    free = _number(facts, "filesystem", "free_bytes")
    if free is not None and free < FREE_DISK_BYTES:
        yield Finding(
            "low-disk",
            "warn",
            f"{_gib(free)} free in the work directory, less than {_gib(FREE_DISK_BYTES)}: a run may fill it",
            "free some space, or put the work directory on a larger disk",
        )


def _flush(facts: Mapping[str, Any]) -> Iterator[Finding]:
    flush = _number(facts, "filesystem", "fsync_ns")
    # On a file system in memory every flush is fast, and that has been said.
    if flush is None or flush >= FASTEST_FLUSH_NS or _at(facts, "filesystem", "ram_backed") is True:
        return
    yield Finding(
        "fast-flush",
        "bad",
        f"a flush of 4 kB takes {flush / 1000:.1f} µs, too fast to be true: tier power is not what it says",
        "look for a file system or a disk that ignores flushes (nobarrier, a host cache set to unsafe)",
    )


def _loop(facts: Mapping[str, Any]) -> Iterator[Finding]:
    cost = _number(facts, "loop", "operation_ns")
    if _at(facts, "loop", "name") == "python" and cost is not None:
        yield Finding(
            "python-loop",
            "warn",
            f"the Python loop measures here: {cost:.0f} ns an operation, several times what the native one takes",
            "install a Rust toolchain (cargo), and Dyno again",
        )


def _left_behind(facts: Mapping[str, Any]) -> Iterator[Finding]:
    directories, servers = (_at(facts, "left_behind", what) or [] for what in ("directories", "servers"))
    if directories:
        text = f"killed runs left {len(directories)} director{'y' if len(directories) == 1 else 'ies'}"
        running = f" and {', '.join(servers)}, which still run{'s' if len(servers) == 1 else ''}" if servers else ""
        where = ", ".join(directories[:3]) + (", …" if len(directories) > 3 else "")
        weight: Severity = "warn" if servers else "ok"
        yield Finding("left-behind", weight, f"{text}{running}: {where}", "the next `dyno run` takes it away")


def _others(facts: Mapping[str, Any]) -> Iterator[Finding]:
    load, cores = _number(facts, "load", "minutes_1"), _number(facts, "cpu", "logical_cores")
    if load is not None and cores and load > LOAD_SHARE * cores:
        yield Finding(
            "load",
            "bad" if load > cores else "warn",
            f"load average {load:.1f} on {cores:.0f} cores: others are at work",
            "stop what else is running (top shows it), and wait a minute",
        )
    busy = _number(facts, "pressure", "others_busy_percent")
    if busy is not None and busy > OTHERS_BUSY_PERCENT:
        yield Finding(
            "others-busy",
            "warn",
            f"other processes take {busy:.0f} % of the CPU time right now",
            "stop what else is running (top shows it)",
        )
    now, ever = _number(facts, "pressure", "steal_percent"), _number(facts, "steal_percent")
    steal = max((s for s in (now, ever) if s is not None), default=0.0)
    if steal > STEAL_PERCENT:
        when = "right now" if steal == now else "since boot"
        yield Finding(
            "steal",
            "bad" if steal > STEAL_BAD_PERCENT else "warn",
            f"the hypervisor gives {steal:.1f} % of the CPU time to others, {when}",
            "use a machine with cores of its own, or take more samples",
        )


def _memory(facts: Mapping[str, Any]) -> Iterator[Finding]:
    used, total = _number(facts, "memory", "swap_used_bytes"), _number(facts, "memory", "total_bytes")
    if used is not None and used > SWAP_SHARE * (total or 0):
        yield Finding(
            "swap-used",
            "warn",
            f"{_gib(used)} of swap in use: memory has been short",
            "sudo swapoff -a && sudo swapon -a",
        )
    moved = sum(_number(facts, "pressure", f"swapped_{way}_bytes") or 0 for way in ("in", "out"))
    if moved > 0:
        yield Finding(
            "swapping",
            "bad",
            f"swapping right now: {moved / 2**20:.1f} MiB in and out while it was watched",
            "stop what takes the memory (top, then M, shows it)",
        )
    available = _number(facts, "memory", "available_bytes")
    limit = _number(facts, "memory", "cgroup_limit_bytes")
    if limit is not None and limit < min(FREE_MEMORY_BYTES, available or FREE_MEMORY_BYTES):
        yield Finding(
            "low-memory",
            "warn",
            f"a control group allows {_gib(limit)} of memory, less than {_gib(FREE_MEMORY_BYTES)}",
            "raise the container's memory limit",
        )
    elif available is not None and available < FREE_MEMORY_BYTES:
        yield Finding(
            "low-memory",
            "warn",
            f"{_gib(available)} of memory available, less than {_gib(FREE_MEMORY_BYTES)}: caches go short",
            "stop what takes the memory (top, then M, shows it)",
        )


def _cores(facts: Mapping[str, Any]) -> Iterator[Finding]:
    quota = _number(facts, "cpu", "quota_cores")
    available = _number(facts, "cpu", "available_cores")
    logical = _number(facts, "cpu", "logical_cores")
    if quota is not None and (logical is None or quota < logical):
        yield Finding(
            "cpu-quota",
            "warn",
            f"a control group allows {quota:g} cores of CPU time: who needs more is stopped for a while",
            "lift the container's CPU limit, or pin it to whole cores (docker run --cpuset-cpus)",
        )
    usable = min((n for n in (available, logical, quota) if n is not None), default=None)
    if usable is not None and usable < CORES:
        yield Finding(
            "few-cores",
            "warn",
            f"{usable:g} core{'' if usable == 1 else 's'} to run on: client, server and kernel take turns",
            f"give it at least {CORES} cores",
        )


def _frequency(facts: Mapping[str, Any]) -> Iterator[Finding]:
    governor = _at(facts, "cpu", "governor")
    if governor is not None and governor != "performance":
        yield Finding(
            "governor",
            "warn",
            f"CPU frequency governor is {governor}, not performance: the clock rate follows the load",
            "sudo cpupower frequency-set -g performance",
        )
    if governor is None and _at(facts, "cpu", "virtualised") is True:
        yield Finding(
            "virtual-machine",
            "ok",
            "a virtual machine: its clock rate is its host's affair and can't be seen from here",
            "",
        )


def _wake_ups(facts: Mapping[str, Any]) -> Iterator[Finding]:
    cost = _number(facts, "wakeups", "cost_ns")
    if cost is not None and cost > SLOW_WAKE_UP_NS:
        yield Finding(
            "wake-ups",
            "ok",
            f"waking up a sleeping core takes {cost / 1000:.0f} µs: with few clients, much of a server's latency",
            "dyno run --awake keeps the cores awake, as a server's are that has much to do",
        )


def _clock(facts: Mapping[str, Any]) -> Iterator[Finding]:
    source, cost = _at(facts, "clock", "source"), _number(facts, "clock", "cost_ns")
    price = "" if cost is None else f" ({cost:.0f} ns a reading)"
    if source is not None and source not in _CHEAP_CLOCKS:
        yield Finding(
            "clock-source",
            "warn",
            f"clock source is {source}, not the processor's own counter{price}",
            "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource",
        )
    elif cost is not None and cost > SLOW_CLOCK_NS:
        yield Finding(
            "slow-clock",
            "warn",
            f"reading the clock costs {cost:.0f} ns, more than {SLOW_CLOCK_NS}: short operations look longer",
            "trust no difference between operations that are shorter than this",
        )


def _at(facts: Mapping[str, Any], *path: str) -> Any:
    """The value at `path`, or None where any step of it is missing: old run files know fewer facts."""
    value: Any = facts
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _number(facts: Mapping[str, Any], *path: str) -> float | None:
    value = _at(facts, *path)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _gib(size: float) -> str:
    return f"{size / _GIB:.1f} GiB"
