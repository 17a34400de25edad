"""Figures as people read them."""

from __future__ import annotations

from collections.abc import Mapping

UNKNOWN = "–"


def rate(per_second: float | None) -> str:
    """A throughput: whole from 100 up, three digits below."""
    if per_second is None:
        return UNKNOWN
    return f"{per_second:,.0f}" if per_second >= 100 else f"{per_second:.3g}"


def bandwidth(per_second: float | None) -> str:
    """Bytes a second as MB/s (10^6), as GB/s from 1,000 of them."""
    if per_second is None:
        return UNKNOWN
    size, unit = (1e9, "GB/s") if per_second >= 999.5e6 else (1e6, "MB/s")
    value = per_second / size
    return f"{value:.3g} {unit}" if value < 99.95 else f"{value:,.0f} {unit}"


def interval(low: float | None, high: float | None) -> str:
    return UNKNOWN if low is None or high is None else f"{rate(low)} – {rate(high)}"


def duration(ns: float | None) -> str:
    """Nanoseconds in the unit that leaves one to three digits before the point."""
    if ns is None:
        return UNKNOWN
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        # What would round up to 1000 of a unit is 1 of the next.
        if ns >= size * 0.9995:
            return f"{_digits(ns / size)} {unit}"
    return f"{ns:.0f} ns"


def cost(ns: float | None) -> str:
    """CPU time of an item: as a duration, to two digits or to whole units. It is not known better."""
    if ns is None:
        return UNKNOWN
    size, unit = next((each for each in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")) if ns >= each[0] * 0.9995), (1, "ns"))
    value = ns / size
    return f"{value:.2g} {unit}" if value < 0.995 else f"{value:.{1 if value < 9.95 else 0}f} {unit}"


def size(number: int | None) -> str:
    """Bytes in binary units."""
    if number is None:
        return UNKNOWN
    value, units = float(number), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 999.5 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{_digits(value) if units[0] != 'B' else number} {units[0]}"


def count(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number:,}"


def _digits(value: float) -> str:
    """Three digits, without an exponent."""
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def params(values: Mapping[str, object]) -> str:
    """'records=20000 txn=all'; several values with commas between them."""
    listed = {name: ",".join(map(str, v)) if isinstance(v, tuple) else v for name, v in values.items()}
    return " ".join(f"{name}={value}" for name, value in listed.items())
