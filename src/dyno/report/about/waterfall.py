"""A request as a waterfall of its stages, for a person: a pure function of its record. Nothing is measured here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from dyno.report.tables import grid, units

WIDTH = 50
"""Columns of the whole time."""


def render(record: Mapping[str, Any], console: Console) -> None:
    """Each hop with its stages, one below the other in the time of all; then the whole, and what is doubtful."""
    total = record["total_time"]
    begun = 0.0
    for hop in record["hops"]:
        console.print(Text(_headline(hop), style="bold"), soft_wrap=True)
        rows = []
        for name, seconds in hop["stages"].items():
            rows.append((name, _time(seconds), _bar(begun, seconds, total)))
            begun += seconds or 0.0
        columns = [grid.Column("", left=True), grid.Column(""), grid.Column("", left=True, spare=True)]
        grid.render(columns, rows, console, indent=2)
    words = [f"total {_time(total)}"]
    if record["redirect_count"]:
        words.append(f"{record['redirect_count']} redirects {_time(record['redirect_time'])}")
    words.append(f"{units.count(record['size_download'])} bytes")
    words.append(units.bandwidth(record["speed_download"]))
    console.print(Text(", ".join(words), style="bold"), soft_wrap=True)
    if record["error"] is not None:
        console.print(Text(f"error: {record['error']}", style="bold red"), soft_wrap=True)
    _doubts(record, console)


def summarised(record: Mapping[str, Any], console: Console) -> None:
    """Many requests: percentiles of each stage."""
    told = ", ".join(f"{times:,} × {code}" for code, times in record["http_codes"].items())
    console.print(Text(f"{record['url']}: {record['count']:,} requests; {told or 'no response'}", style="bold"))
    names = ("min", "p50", "p90", "p99", "max")
    stages = [*record["stages"].items(), ("total", record["total_time"])]
    rows = [(stage, *(_time(found and found[name]) for name in names)) for stage, found in stages]
    grid.render([grid.Column("", left=True), *map(grid.Column, names)], rows, console)
    for error, times in record["errors"].items():
        console.print(Text(f"error: {times:,} × {error}", style="bold red"), soft_wrap=True)
    _doubts(record, console)


def _headline(hop: Mapping[str, Any]) -> str:
    return ", ".join(_said(hop))


def _said(hop: Mapping[str, Any]) -> Iterator[str]:
    yield f"{hop['method']} {hop['url']}"
    if hop["http_code"] is not None:
        yield f"{hop['http_code']}"
    if hop["http_version"] is not None:
        yield f"HTTP/{hop['http_version']}"
    if hop["primary_ip"] is not None:
        yield f"from {hop['primary_ip']} port {hop['primary_port']}"
    if hop["reused"]:
        yield "on the same connection"


def _time(seconds: float | None) -> str:
    return units.duration(None if seconds is None else seconds * 1e9)


def _bar(begun: float, seconds: float | None, total: float) -> str:
    if seconds is None or not total:
        return ""
    start, end = round(WIDTH * begun / total), round(WIDTH * (begun + seconds) / total)
    return " " * min(start, WIDTH - 1) + ("█" * (end - start) or "▏")


def _doubts(record: Mapping[str, Any], console: Console) -> None:
    for doubt in record["doubts"]:
        console.print(Text(f"doubt: {doubt}", style="yellow"), soft_wrap=True)
