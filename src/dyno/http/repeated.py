"""A request made many times: percentiles of each part, in seconds. No request is made here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dyno.http.stages import STAGES

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
    codes, errors, doubts = Counter[str](), Counter[str](), dict[str, int]()
    count = reused = 0
    for record in records:
        count += 1
        if record["error"] is not None:
            errors[record["error"]] += 1
            continue
        codes[str(record["http_code"])] += 1
        reused += record["num_connects"] == 0
        for doubt in record["doubts"]:
            doubts[doubt] = doubts.get(doubt, 0) + 1
        for name, values in kept.items():
            value = record[name] if name in TIMES else record["stages"][name]
            if value is not None:
                values.append(value)
    return {
        "url": url,
        "count": count,
        "failed": sum(errors.values()),
        "errors": dict(errors),
        "http_codes": dict(codes),
        "reused": reused,
        **{name: summary(kept[name]) for name in TIMES},
        "stages": {name: summary(kept[name]) for name in STAGES},
        "doubts": [f"{times:,} of {count:,}: {doubt}" for doubt, times in doubts.items()],
    }


def summary(values: Sequence[float]) -> dict[str, float | int | None] | None:
    """None where there are no values. A percentile that no value lies beyond is None: it would be the largest."""
    if not values:
        return None
    found = np.percentile(values, list(PERCENTILES.values()), method="inverted_cdf").tolist()
    known = [(100 - at) * len(values) >= 99.999 for at in PERCENTILES.values()]
    told = (value if yes else None for value, yes in zip(found, known, strict=True))
    return {
        "count": len(values),
        "min": min(values),
        "mean": sum(values) / len(values),
        "max": max(values),
        **dict(zip(PERCENTILES, told, strict=True)),
    }
