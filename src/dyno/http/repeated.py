"""A request made many times: percentiles of each part, in seconds. No request is made here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dyno.http.stages import COARSE, FINE_US, MICRO, STAGES

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}
TIMES = (
    "namelookup_time",
    "connect_time",
    "appconnect_time",
    "pretransfer_time",
    "starttransfer_time",
    "redirect_time",
    "total_time",
    "speed_download",
)


def repeated(records: Iterable[Mapping[str, Any]], url: str) -> dict[str, Any]:
    """Of all that did not fail the percentiles; of those that did, what they failed of and how often."""
    kept: dict[str, list[float]] = {name: [] for name in (*TIMES, *STAGES)}
    codes, errors, short = Counter[str](), Counter[str](), Counter[str]()
    count = reused = 0
    for record in records:
        count += 1
        if record["error"] is not None:
            errors[record["error"]] += 1
            continue
        codes[str(record["http_code"])] += 1
        reused += record["num_connects"] == 0
        for name, values in kept.items():
            value = record[name] if name in TIMES else record["stages"][name]
            if value is not None:
                values.append(value)
                short[name] += name in STAGES and value < FINE_US / MICRO
    return {
        "url": url,
        "count": count,
        "failed": sum(errors.values()),
        "errors": dict(errors),
        "http_codes": dict(codes),
        "reused": reused,
        **{name: summary(kept[name]) for name in TIMES},
        "stages": {name: summary(kept[name]) for name in STAGES},
        "doubts": _doubts(short, count),
    }


def _doubts(short: Mapping[str, int], count: int) -> list[str]:
    named = ", ".join(f"{name} of {short[name]:,} requests" for name in STAGES if short[name])
    return [f"{COARSE}: {named}, of {count:,}"] if named else []


def summary(values: Sequence[float]) -> dict[str, float | int | None] | None:
    """None where there are no values. A percentile that no value lies beyond is None: it would be the largest."""
    if not values:
        return None
    ordered, count = sorted(values), len(values)
    return {
        "count": count,
        "min": ordered[0],
        "mean": sum(values) / count,
        "max": ordered[-1],
        **{name: _nearest(ordered, at) for name, at in PERCENTILES.items()},
    }


def _nearest(ordered: Sequence[float], percentile: float) -> float | None:
    """By the nearest rank."""
    count = len(ordered)
    if (100 - percentile) * count < 99.999:
        return None
    return ordered[min(max(int(percentile * count / 100 + 0.5), 1), count) - 1]
