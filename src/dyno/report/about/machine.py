"""Shows a person what machine this is, and what on it would spoil a measurement.

A pure function of facts and findings: nothing here may look at the machine, or judge it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from dyno.report.tables import grid, units
from dyno.stats.machine import OTHERS_BUSY_PERCENT, Finding

_STYLE = {"ok": "green", "warn": "yellow", "bad": "bold red"}


def render(facts: Mapping[str, Any], findings: Sequence[Finding], console: Console) -> None:
    """Prints the facts (as `dyno.host.facts.facts` gives them), the findings, and the verdict in one line."""
    rows = [(name, ", ".join(filter(None, words)) or "unknown") for name, words in _rows(facts)]
    columns = [grid.Column("", left=True, style="bold"), grid.Column("", left=True, folds=True)]
    grid.render(columns, rows, console, marks={"unknown": "dim"})
    console.print()
    for finding in findings:
        line = Text(f"{finding.severity:<6}", style=_STYLE[finding.severity]).append(finding.text, style="none")
        console.print(line, soft_wrap=True)
        if finding.remedy:
            console.print(Text(f"      {finding.remedy}", style="dim"), soft_wrap=True)
    spoilers = sum(finding.severity != "ok" for finding in findings)
    console.print(Text(verdict(spoilers), style="bold"), soft_wrap=True)


def verdict(spoilers: int) -> str:
    if not spoilers:
        return "quiet: ready to measure"
    return f"{spoilers} thing{'s' if spoilers > 1 else ''} would spoil a measurement"


def _size(count: float | None) -> str:
    """As `units.size`, and empty for None: a fact that is not known is not printed."""
    return "" if count is None else units.size(int(count))


def _rows(facts: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """A name and its facts in words; an unknown fact is an empty word."""
    system, python = facts.get("system") or {}, facts.get("python") or {}
    yield "system", [_said("{}", system.get(key)) for key in ("os", "kernel", "libc")]
    yield "python", [" ".join(str(python[k]) for k in ("implementation", "version") if python.get(k))]
    yield "processor", _processor(facts.get("cpu") or {}, system.get("architecture"))
    yield "cores", _cores(facts.get("cpu") or {})
    yield "memory", _memory(facts.get("memory") or {})
    yield from _filesystem(facts.get("filesystem") or {})
    clock = facts.get("clock") or {}
    yield "clock", [_said("{}", clock.get("source")), _said("{} ns a reading", clock.get("cost_ns"))]
    yield "wake-up", _wakeups(facts)
    yield "ceilings", _ceilings(facts.get("ceilings") or {})
    loop = facts.get("loop") or {}
    cost = _said("{:.0f} ns an operation", loop.get("operation_ns"))
    yield "loop", [_said("{}", loop.get("name")), _said("by the {}", loop.get("clock")), cost]
    yield "load", _load(facts.get("load") or {})
    yield "others", _others(facts)


def _processor(cpu: Mapping[str, Any], architecture: str | None) -> list[str]:
    return [
        _said("{}", cpu.get("model")),
        _said("{}", architecture),
        _said("{} MHz", cpu.get("mhz")),
        _said("at most {} MHz", cpu.get("max_mhz")),
        _said("governor {}", cpu.get("governor")),
        _either(cpu.get("turbo"), "turbo on", "turbo off"),
        _either(cpu.get("virtualised"), "virtual machine", ""),
    ]


def _cores(cpu: Mapping[str, Any]) -> list[str]:
    logical, available = cpu.get("logical_cores"), cpu.get("available_cores")
    return [
        _said("{}", logical),
        "" if available == logical else _said("{} for this process", available),
        _said("limited to the time of {}", cpu.get("quota_cores")),
    ]


def _memory(memory: Mapping[str, Any]) -> list[str]:
    limit = memory.get("cgroup_limit_bytes")
    swap = memory.get("swap_total_bytes")
    used = memory.get("swap_used_bytes")
    return [
        _size(memory.get("total_bytes")),
        _said("{} available", _size(memory.get("available_bytes")) or None),
        _said("limited to {}", _size(limit) or None),
        "no swap" if swap == 0 else _said("swap {}", _size(swap) or None),
        _said("{} of it used", _size(used) or None) if swap else "",
    ]


def _filesystem(fs: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    flush = fs.get("fsync_ns")
    yield (
        "work on",
        [
            _said("{}", fs.get("mount_point")),
            _said("{}", fs.get("type")),
            _said("{}", fs.get("device")),
            _either(fs.get("ram_backed"), "in memory", ""),
            _either(fs.get("network"), "over the network", ""),
            _either(fs.get("rotational"), "says it rotates", "does not rotate"),
            _said("cache {}", fs.get("write_cache")),
        ],
    )
    yield "mounted", [_said("{}", option) for option in fs.get("options") or ()]
    free, total = _size(fs.get("free_bytes")), _size(fs.get("total_bytes"))
    yield "space", [f"{free} free of {total}" if free and total else ""]
    yield "flush", [f"{flush / 1000:,.1f} µs for 4 kB" if flush is not None else ""]


def _wakeups(facts: Mapping[str, Any]) -> list[str]:
    wakeups = facts.get("wakeups") or {}
    cost = _said("{} of a sleeping core", _time(wakeups.get("cost_ns")))
    if cost and ((facts.get("pressure") or {}).get("others_busy_percent") or 0) > OTHERS_BUSY_PERCENT:
        cost += " (more where others keep none awake)"
    found = {where: wakeups.get(where) or {} for where in ("apart", "free")}
    trips = [
        f"round trip of two processes {how} {' and '.join(shown)}"
        for where, how in (("apart", "a core each"), ("free", "on any"))
        if (shown := [*_trip(found[where], "", "asleep"), *_trip(found[where], "awake_", "kept awake")])
    ]
    return [cost, *trips]


def _ceilings(found: Mapping[str, Any]) -> list[str]:
    if not found:
        return ["not probed: dyno doctor --probe"]
    moved = [found.get(f"{name}_bytes_per_second") for name in ("memory", "core")]
    flushes = found.get("flushes_per_second")
    return [
        "" if flushes is None else f"{flushes:,.0f} flushes/s",
        _said("memory {:.1f} GB/s", None if moved[0] is None else moved[0] / 1e9),
        _said("{:.1f} GB/s by one core", None if moved[1] is None else moved[1] / 1e9),
        _said("{} prime searches/s on one core", found.get("core_events_per_second")),
        _said("probed {}", found.get("probed")),
    ]


def _trip(times: Mapping[str, Any], which: str, how: str) -> list[str]:
    p50, p99 = (_time(times.get(f"{which}{name}_ns")) for name in ("p50", "p99"))
    return [f"{p50} (p99 {p99}) {how}"] if p50 and p99 else []


def _time(ns: float | None) -> str | None:
    return None if ns is None else f"{ns / 1000:,.1f} µs"


def _load(load: Mapping[str, Any]) -> list[str]:
    return [_said("{:.2f}", load.get(f"minutes_{minutes}")) for minutes in (1, 5, 15)]


def _others(facts: Mapping[str, Any]) -> list[str]:
    now, stalls = facts.get("pressure") or {}, facts.get("psi") or {}
    return [
        _said("{} % of the CPU time now", now.get("others_busy_percent")),
        _said("{} % stolen since boot", facts.get("steal_percent")),
        *(_said(what + " stalls {} %", stalls[what].get("some_avg10_percent")) for what in stalls),
    ]


def _said(template: str, value: object) -> str:
    return "" if value is None else template.format(value)


def _either(fact: bool | None, yes: str, no: str) -> str:
    return "" if fact is None else yes if fact else no
