"""Reasons to distrust figures of a machine, from its facts, and each row's share of the machine's probed ceilings
(see `dyno.host.ceilings`).

All functions are pure functions of data in a run file, so that a run can be judged later and elsewhere. They never
look at the machine that they run on. A missing or null fact raises no doubt. The texts are in machine.toml.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from string import Template
from typing import Literal

from dyno.contracts.decoded_types import Loop
from dyno.contracts.model import Tier
from dyno.contracts.safe_read import toml
from dyno.results import Run
from dyno.results.header import Ceilings, Host
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
    """`warn` or `bad`; `ok` for a remark, which `dyno show` leaves out."""
    text: str
    """One line, with the number."""
    remedy: str
    """One line, a command if there is one; empty if there is no remedy."""


def _make_finding(code: str, severity: Severity, remedy: str | None = None, **values: object) -> Finding:
    text, usual = FINDINGS[code]
    return Finding(code, severity, text.format(**values), usual if remedy is None else remedy)


def machine_doubts(host: Host) -> list[Finding]:
    """Returns the findings on the machine, the worst first."""
    return worst_first(finding for judge in (_storage, _load, _processor) for finding in judge(host))


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: _WORST_FIRST.index(finding.severity))


def _storage(host: Host) -> Iterator[Finding]:
    filesystem = host.filesystem
    where = f"{filesystem.mount_point} ({filesystem.type})"
    if filesystem.ram_backed:
        yield _make_finding("ram-filesystem", "bad", where=where)
    if filesystem.network:
        yield _make_finding("network-filesystem", "warn", where=where)
    free = filesystem.free_bytes
    if free is not None and free < FREE_DISK_BYTES:
        yield _make_finding("low-disk", "warn", free=_gib(free))
    flush = filesystem.fsync_ns
    # In memory every flush is fast, and `ram-filesystem` already says so.
    if flush is not None and flush < FASTEST_FLUSH_NS and not filesystem.ram_backed:
        yield _make_finding("fast-flush", "bad", micros=flush / 1000)


def leftovers(directories: Sequence[str], servers: Sequence[str]) -> Iterator[Finding]:
    """Yields a finding on what an earlier run left in the work directory, if anything."""
    if directories:
        count = "1 directory"
        if len(directories) > 1:
            count = f"{len(directories)} directories"
        running = ""
        if servers:
            running = f" and the running server{'s' * (len(servers) > 1)} {', '.join(servers)}"
        where = ", ".join(directories[:3]) + (", …" if len(directories) > 3 else "")
        yield _make_finding("left-behind", "warn" if servers else "ok", left=f"{count}{running}: {where}")


def slow_loop(loop: Loop) -> Iterator[Finding]:
    """Yields a finding on the measuring loop, if it is the slow one."""
    if loop["name"] == "python":
        yield _make_finding("python-loop", "warn", ns=loop["operation_ns"])


def _load(host: Host) -> Iterator[Finding]:
    load = host.load.minutes_1
    cores = host.cpu.logical_cores
    if load is not None and cores and load > LOAD_SHARE * cores:
        yield _make_finding("load", "bad" if load > cores else "warn", load=load, cores=cores)
    busy = host.pressure.others_busy_percent
    if busy is not None and busy > OTHERS_BUSY_PERCENT:
        yield _make_finding("others-busy", "warn", percent=busy)
    now = host.pressure.steal_percent
    steal = max((percent for percent in (now, host.steal_percent) if percent is not None), default=0.0)
    if steal > STEAL_PERCENT:
        if steal > STEAL_BAD_PERCENT:
            severity: Severity = "bad"
        else:
            severity = "warn"
        yield _make_finding("steal", severity, percent=steal, when="right now" if steal == now else "since boot")
    memory = host.memory
    if memory.swap_used_bytes is not None and memory.swap_used_bytes > SWAP_SHARE * (memory.total_bytes or 0):
        yield _make_finding("swap-used", "warn", used=_gib(memory.swap_used_bytes))
    moved = (host.pressure.swapped_in_bytes or 0) + (host.pressure.swapped_out_bytes or 0)
    if moved > 0:
        yield _make_finding("swapping", "bad", mib=moved / 2**20)
    available = memory.available_bytes
    limit = memory.cgroup_limit_bytes
    if limit is not None and limit < min(FREE_MEMORY_BYTES, available or FREE_MEMORY_BYTES):
        text = f"a control group allows {_gib(limit)} of memory"
        yield _make_finding("low-memory", "warn", "raise the container's memory limit", memory=text)
    elif available is not None and available < FREE_MEMORY_BYTES:
        yield _make_finding("low-memory", "warn", memory=f"{_gib(available)} of memory available")


def _processor(host: Host) -> Iterator[Finding]:
    cpu = host.cpu
    if cpu.quota_cores is not None and (cpu.logical_cores is None or cpu.quota_cores < cpu.logical_cores):
        yield _make_finding("cpu-quota", "warn", quota=cpu.quota_cores)
    numbers = (cpu.available_cores, cpu.logical_cores, cpu.quota_cores)
    usable = min((number for number in numbers if number is not None), default=None)
    if usable is not None and usable < CORES:
        yield _make_finding("few-cores", "warn", cores=usable, s="s" * (usable != 1))
    if cpu.governor is not None and cpu.governor != "performance":
        yield _make_finding("governor", "warn", governor=cpu.governor)
    if cpu.governor is None and cpu.virtualised:
        yield _make_finding("virtual-machine", "ok")
    wake_up = None
    if host.wakeups is not None:
        wake_up = host.wakeups.cost_ns
    if wake_up is not None and wake_up > SLOW_WAKE_UP_NS:
        yield _make_finding("wake-ups", "ok", micros=wake_up / 1000)
    source = host.clock.source
    cost = host.clock.cost_ns
    if source is not None and source not in _CHEAP_CLOCKS:
        price = ""
        if cost is not None:
            price = f" ({cost:.0f} ns a reading)"
        yield _make_finding("clock-source", "warn", source=source, price=price)
    elif cost is not None and cost > SLOW_CLOCK_NS:
        yield _make_finding("slow-clock", "warn", ns=cost)


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


def shares(run: Run) -> list[CeilingShare]:
    """Returns the shares of every row with a number, without null engines. Empty if the machine was not probed."""
    ceilings = run.header.host.ceilings
    if ceilings is None:
        return []
    rows = (row for row in summarize(run) if row.valid and row.samples and not row.cell.floor)
    return [share_of_ceilings(row, ceilings) for row in rows]


def share_of_ceilings(row: CellSummary, ceilings: Ceilings) -> CeilingShare:
    """Returns the shares of a row with a number."""
    flushes = ceilings.flushes_per_second
    memory = ceilings.memory_bytes_per_second
    commits = row.cell.tier is Tier.POWER and row.about.writes and not any(sample.bulk for sample in row.samples)
    rate = median(sample.operations / max(sample.elapsed_ns, 1) * 1e9 for sample in row.samples)
    moved = None
    if row.bandwidth is not None:
        moved = row.bandwidth.median
    cores = list[float]()
    for sample in row.samples:
        usages = [usage for usage in (sample.client, sample.server) if usage]
        used = [usage.get(name) for usage in usages for name in ("user_ns", "system_ns")]
        if used and None not in used and sample.elapsed_ns > 0:
            cores.append(sum(ns or 0 for ns in used) / sample.elapsed_ns)
    flushed = None
    if commits and flushes:
        flushed = rate / flushes
    bandwidth = None
    if moved and memory:
        bandwidth = moved / memory
    used_cores = None
    if len(cores) == len(row.samples):
        used_cores = median(cores)
    return CeilingShare(row, flushed, bandwidth, used_cores)
