"""Prints an HTTP request as a waterfall of its stages, from its record."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from dyno.report.tables import units
from dyno.report.tables.sections import Column, print_table

WIDTH = 50
"""Width of the total time, in character columns."""


def render(record: Mapping[str, Any], console: Console) -> None:
    """Prints each hop with its stages on one time axis, then the totals and the doubts."""
    total, start = record["total_time"], 0.0
    for hop in record["hops"]:
        code, version, address = hop["http_code"], hop["http_version"], hop["primary_ip"]
        words = [
            f"{hop['method']} {hop['url']}",
            "" if code is None else f"{code}",
            "" if version is None else f"HTTP/{version}",
            "" if address is None else f"from {address} port {hop['primary_port']}",
            "on the same connection" if hop["reused"] else "",
        ]
        console.print(Text(", ".join(filter(None, words)), style="bold"), soft_wrap=True)
        rows = []
        for name, seconds in hop["stages"].items():
            bar = ""
            if seconds is not None and total:
                first, end = round(WIDTH * start / total), round(WIDTH * (start + seconds) / total)
                bar = " " * min(first, WIDTH - 1) + ("█" * (end - first) or "▏")
            rows.append((name, _time(seconds), bar))
            start += seconds or 0.0
        columns = [Column("", left=True), Column(""), Column("", left=True, spare=True)]
        print_table(columns, rows, console, indent=2)
    words = [f"total {_time(total)}"]
    if record["redirect_count"]:
        words.append(f"{record['redirect_count']} redirects {_time(record['redirect_time'])}")
    words += [f"{units.count(record['size_download'])} bytes", units.bandwidth(record["speed_download"])]
    console.print(Text(", ".join(words), style="bold"), soft_wrap=True)
    if record["error"] is not None:
        console.print(Text(f"error: {record['error']}", style="bold red"), soft_wrap=True)
    _print_doubts(record, console)


def summary(record: Mapping[str, Any], console: Console) -> None:
    """Prints the percentiles of each stage over many requests."""
    codes = ", ".join(f"{times:,} × {code}" for code, times in record["http_codes"].items())
    console.print(Text(f"{record['url']}: {record['count']:,} requests; {codes or 'no response'}", style="bold"))
    names = ("min", "p50", "p90", "p99", "max")
    stages = [*record["stages"].items(), ("total", record["total_time"])]
    rows = [(stage, *(_time(times and times[name]) for name in names)) for stage, times in stages]
    print_table([Column("", left=True), *map(Column, names)], rows, console)
    for error, times in record["errors"].items():
        console.print(Text(f"error: {times:,} × {error}", style="bold red"), soft_wrap=True)
    _print_doubts(record, console)


def _time(seconds: float | None) -> str:
    return units.duration(None if seconds is None else seconds * 1e9)


def _print_doubts(record: Mapping[str, Any], console: Console) -> None:
    for doubt in record["doubts"]:
        console.print(Text(f"doubt: {doubt}", style="yellow"), soft_wrap=True)
