"""Reasons to distrust figures of a machine, from its facts, and each row's share of the machine's probed ceilings
(see `dyno.host.ceilings`).

All functions are pure functions of data in a run file, so that a run can be judged later and elsewhere. They never
look at the machine that they run on. A missing or null fact raises no doubt. The texts are in machine.toml.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from string import Template
from typing import Any, Literal

from dyno.contracts.model import Tier
from dyno.contracts.safe_read import toml
from dyno.results import Run
from dyno.stats.summary import CellSummary, summarize

Severity = Literal["ok", "warn", "bad"]

_WORST_FIRST: tuple[Severity, ...] = ("bad", "warn", "ok")
_GIB = 2**30

STEAL_PERCENT = 1.0
STEAL_BAD_PERCENT = 10.0
OTHERS_BUSY_PERCENT = 10.0
LOAD_SHARE = 0.5
"""Load average, as a share of the cores."""
SWAP_SHARE = 0.01
"""Swap in use, as a share of memory. Below it, the swapped pages are probably unused."""
SLOW_CLOCK_NS = 100
SLOW_WAKE_UP_NS = 5_000
FREE_DISK_BYTES = 5 * _GIB
FREE_MEMORY_BYTES = 2 * _GIB
FASTEST_FLUSH_NS = 20_000
CORES = 2
"""Minimum number of cores: one for the client, one for the server or the kernel's work."""

# Clocks that are read without a system call: processors' counters, and two clocks that a hypervisor scales.
_PROCESSOR_CLOCKS = ("tsc", "arch_sys_counter", "riscv_clocksource", "timebase", "tod")
_CHEAP_CLOCKS = frozenset((*_PROCESSOR_CLOCKS, "kvm-clock", "hyperv_clocksource_tsc_page"))


def texts(name: str, limits: Mapping[str, object]) -> dict[str, dict[str, str]]:
    """Returns a table of texts in this folder, with the values of its limits."""
    rows = toml(Path(__file__).with_name(name))
    limits = {name: f"{limit:g}" if isinstance(limit, int | float) else limit for name, limit in limits.items()}
    return {code: {key: Template(text).substitute(limits) for key, text in row.items()} for code, row in rows.items()}


def _gib(size: float) -> str:
    return f"{size / _GIB:.1f} GiB"


_LIMITS = {
    "free_disk": _gib(FREE_DISK_BYTES),
    "free_memory": _gib(FREE_MEMORY_BYTES),
    "slow_clock": SLOW_CLOCK_NS,
    "cores": CORES,
}
FINDINGS = {code: (row["text"], row["remedy"]) for code, row in texts("machine.toml", _LIMITS).items()}
"""Text and remedy of each finding: format strings of one line."""


@dataclass(frozen=True)
class Finding:
    """A reason to distrust figures of this machine. A finding of severity 'ok' is only a remark."""

    code: str
    severity: Severity
    text: str
    """One line, with the number."""
    remedy: str
    """One line, a command if there is one; empty if there is no remedy."""


def _finding(code: str, severity: Severity, remedy: str | None = None, **values: Any) -> Finding:
    text, usual = FINDINGS[code]
    return Finding(code, severity, text.format(**values), usual if remedy is None else remedy)


def machine_doubts(facts: Mapping[str, Any]) -> list[Finding]:
    """Returns the findings on `facts`, the worst first. See `dyno.host.facts.facts`; `pressure` is included if it was
    measured."""
    judges = (_storage, _load, _processor, _left_behind)
    findings = [finding for judge in judges for finding in judge(facts)]
    return sorted(findings, key=lambda finding: _WORST_FIRST.index(finding.severity))


def _storage(facts: Mapping[str, Any]) -> Iterator[Finding]:
    where = f"{fact(facts, 'filesystem.mount_point')} ({fact(facts, 'filesystem.type')})"
    in_memory = fact(facts, "filesystem.ram_backed") is True
    if in_memory:
        yield _finding("ram-filesystem", "bad", where=where)
    if fact(facts, "filesystem.network") is True:
        yield _finding("network-filesystem", "warn", where=where)
    free = _number(facts, "filesystem.free_bytes")
    if free is not None and free < FREE_DISK_BYTES:
        yield _finding("low-disk", "warn", free=_gib(free))
    flush = _number(facts, "filesystem.fsync_ns")
    # In memory every flush is fast, and `ram-filesystem` already says so.
    if flush is not None and flush < FASTEST_FLUSH_NS and not in_memory:
        yield _finding("fast-flush", "bad", micros=flush / 1000)


def _left_behind(facts: Mapping[str, Any]) -> Iterator[Finding]:
    directories, servers = (fact(facts, f"left_behind.{what}") or [] for what in ("directories", "servers"))
    if directories:
        count = f"{len(directories)} director{'y' if len(directories) == 1 else 'ies'}"
        running = f" and the running server{'s' * (len(servers) > 1)} {', '.join(servers)}" if servers else ""
        where = ", ".join(directories[:3]) + (", …" if len(directories) > 3 else "")
        yield _finding("left-behind", "warn" if servers else "ok", left=f"{count}{running}: {where}")


def _load(facts: Mapping[str, Any]) -> Iterator[Finding]:
    load, cores = _number(facts, "load.minutes_1"), _number(facts, "cpu.logical_cores")
    if load is not None and cores and load > LOAD_SHARE * cores:
        yield _finding("load", "bad" if load > cores else "warn", load=load, cores=cores)
    busy = _number(facts, "pressure.others_busy_percent")
    if busy is not None and busy > OTHERS_BUSY_PERCENT:
        yield _finding("others-busy", "warn", percent=busy)
    now, ever = _number(facts, "pressure.steal_percent"), _number(facts, "steal_percent")
    steal = max((percent for percent in (now, ever) if percent is not None), default=0.0)
    if steal > STEAL_PERCENT:
        severity: Severity = "bad" if steal > STEAL_BAD_PERCENT else "warn"
        yield _finding("steal", severity, percent=steal, when="right now" if steal == now else "since boot")
    used, total = _number(facts, "memory.swap_used_bytes"), _number(facts, "memory.total_bytes")
    if used is not None and used > SWAP_SHARE * (total or 0):
        yield _finding("swap-used", "warn", used=_gib(used))
    moved = sum(_number(facts, f"pressure.swapped_{way}_bytes") or 0 for way in ("in", "out"))
    if moved > 0:
        yield _finding("swapping", "bad", mib=moved / 2**20)
    available = _number(facts, "memory.available_bytes")
    limit = _number(facts, "memory.cgroup_limit_bytes")
    if limit is not None and limit < min(FREE_MEMORY_BYTES, available or FREE_MEMORY_BYTES):
        memory = f"a control group allows {_gib(limit)} of memory"
        yield _finding("low-memory", "warn", "raise the container's memory limit", memory=memory)
    elif available is not None and available < FREE_MEMORY_BYTES:
        yield _finding("low-memory", "warn", memory=f"{_gib(available)} of memory available")


def _processor(facts: Mapping[str, Any]) -> Iterator[Finding]:
    quota = _number(facts, "cpu.quota_cores")
    available, logical = _number(facts, "cpu.available_cores"), _number(facts, "cpu.logical_cores")
    if quota is not None and (logical is None or quota < logical):
        yield _finding("cpu-quota", "warn", quota=quota)
    usable = min((number for number in (available, logical, quota) if number is not None), default=None)
    if usable is not None and usable < CORES:
        yield _finding("few-cores", "warn", cores=usable, s="s" * (usable != 1))
    governor = fact(facts, "cpu.governor")
    if governor is not None and governor != "performance":
        yield _finding("governor", "warn", governor=governor)
    if governor is None and fact(facts, "cpu.virtualised") is True:
        yield _finding("virtual-machine", "ok")
    wake_up = _number(facts, "wakeups.cost_ns")
    if wake_up is not None and wake_up > SLOW_WAKE_UP_NS:
        yield _finding("wake-ups", "ok", micros=wake_up / 1000)
    source, cost = fact(facts, "clock.source"), _number(facts, "clock.cost_ns")
    if source is not None and source not in _CHEAP_CLOCKS:
        price = "" if cost is None else f" ({cost:.0f} ns a reading)"
        yield _finding("clock-source", "warn", source=source, price=price)
    elif cost is not None and cost > SLOW_CLOCK_NS:
        yield _finding("slow-clock", "warn", ns=cost)
    operation = _number(facts, "loop.operation_ns")
    if fact(facts, "loop.name") == "python" and operation is not None:
        yield _finding("python-loop", "warn", ns=operation)


def fact(facts: Mapping[str, Any], path: str) -> Any:
    """Returns the fact at a dotted path, or None if a step is missing: old run files have fewer facts."""
    value: Any = facts
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _number(facts: Mapping[str, Any], path: str) -> float | None:
    value = fact(facts, path)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


# -- shares of the ceilings --------------------------------------------------------------------------------


@dataclass(frozen=True)
class CeilingShare:
    """A row's shares of the machine's ceilings, as medians over trials. A share is None if it is unknown or
    meaningless."""

    row: CellSummary
    flushes: float | None
    """Operations per second of a phase that writes at tier power, divided by the flushes per second that a single
    writer reaches. Over 1 if several operations share a flush; low if an operation needs several."""
    memory: float | None
    """The row's bandwidth, divided by the memory's."""
    cores: float | None
    """CPU time of client and server, divided by the elapsed time; 1 is one core."""


def probed(run: Run) -> Mapping[str, Any] | None:
    """Returns the machine's ceilings; None if they were not probed."""
    ceilings: Mapping[str, Any] | None = run.header.get("host", {}).get("ceilings")
    return ceilings


def shares(run: Run) -> list[CeilingShare]:
    """Returns the shares of every row with a number, without null engines. Empty if the machine was not probed."""
    ceilings = probed(run)
    if ceilings is None:
        return []
    flushes, memory = ceilings.get("flushes_per_second"), ceilings.get("memory_bytes_per_second")
    shares = list[CeilingShare]()
    for row in (row for row in summarize(run) if row.valid and row.samples and not row.cell.floor):
        commits = row.cell.tier is Tier.POWER and row.about.writes and not any(sample.bulk for sample in row.samples)
        rate = median(sample.operations / max(sample.elapsed_ns, 1) * 1e9 for sample in row.samples)
        moved = None if row.bandwidth is None else row.bandwidth.median
        cores = list[float]()
        for sample in row.samples:
            usages = [usage for usage in (sample.client, sample.server) if usage]
            used = [usage.get(name) for usage in usages for name in ("user_ns", "system_ns")]
            if used and None not in used and sample.elapsed_ns > 0:
                cores.append(sum(ns or 0 for ns in used) / sample.elapsed_ns)
        flushed = rate / flushes if commits and flushes else None
        bandwidth = moved / memory if moved and memory else None
        shares.append(
            CeilingShare(row, flushed, bandwidth, median(cores) if len(cores) == len(row.samples) else None)
        )
    return shares
