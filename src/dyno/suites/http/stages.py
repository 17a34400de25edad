"""Stages of HTTP requests, computed from libcurl's times, and their percentiles over many requests.

    lookup    name resolution                                 namelookup
    tcp       TCP connection                                  connect - namelookup
    tls       TLS handshake; None without TLS                 appconnect - connect
    send      building and sending the request                posttransfer - end of the previous stage
    wait      until the first byte of the response            starttransfer - posttransfer
    transfer  from the first byte to the last                 total - starttransfer

The stages add up to the total. On a reused connection the first three are None. See the section TIMES in libcurl's
documentation of curl_easy_getinfo.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dyno.contracts.rank import is_supported, rank
from dyno.contracts.value_types import JsonMapping, JsonObject

STAGES = ("lookup", "tcp", "tls", "send", "wait", "transfer")
FINE_US = 10
"""Shortest stage in µs for which libcurl's times, which are whole µs, have an error of at most 10 %."""
MICRO = 1e6
COARSE = f"under {FINE_US} µs, too fine for libcurl's clock, which has whole µs"

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}
TIMES = (
    *("namelookup_time", "connect_time", "appconnect_time", "pretransfer_time", "starttransfer_time"),
    *("redirect_time", "total_time", "speed_download"),
)
"""Fields of a record (besides its stages) that are summarised over many requests."""


class Moments(NamedTuple):
    """Times in µs since the start of a request, by libcurl's names: 0 if not reached, None if not reported."""

    namelookup: float | None
    connect: float
    appconnect: float
    pretransfer: float
    posttransfer: float
    starttransfer: float
    total: float


def stages(at: Moments, secure: bool, fresh: bool, failed: bool = False) -> dict[str, float | None]:
    """Returns the duration of each stage in µs; None for a stage that did not happen.

    `secure`: with TLS. `fresh`: on a new connection. The stage of a failure lasts until the end.
    """
    ends = {
        "lookup": at.namelookup if fresh else None,
        "tcp": at.connect if fresh else None,
        "tls": at.appconnect if fresh and secure else None,
        "send": at.posttransfer,
        "wait": at.starttransfer,
        "transfer": at.total,
    }
    durations: dict[str, float | None] = dict.fromkeys(STAGES)
    before = 0.0
    for name, end in ends.items():
        if end is None:
            continue
        if failed and not end:
            durations[name] = at.total - before
            break
        # A response may begin before the whole request is sent.
        end = min(max(end, before), at.total)
        durations[name], before = end - before, end
    return durations


def fine(requests: Iterable[Mapping[str, float | None]]) -> list[str]:
    """Returns the stages that were too short for libcurl's clock in at least one of the requests."""
    short = {name for stages in requests for name, us in stages.items() if us is not None and us < FINE_US}
    return [name for name in STAGES if name in short]


# -- many requests ------------------------------------------------------------------------------------------


def summarize_requests(records: Iterable[JsonMapping], url: str) -> JsonObject:
    """Summarises requests: percentiles in seconds of those that succeeded, and counts of the others' errors."""
    values: dict[str, list[float]] = {name: [] for name in (*TIMES, *STAGES)}
    codes, errors = Counter[str](), Counter[str]()
    succeeded = reused = 0
    for record in records:
        if record["error"] is not None:
            errors[record["error"]] += 1
            continue
        succeeded += 1
        codes[str(record["http_code"])] += 1
        reused += record["num_connects"] == 0
        for name, seconds in {**{name: record[name] for name in TIMES}, **record["stages"]}.items():
            if seconds is not None:
                values[name].append(seconds)
    short = {name: sum(seconds < FINE_US / MICRO for seconds in values[name]) for name in STAGES}
    count = succeeded + errors.total()
    named = ", ".join(f"{name} of {times:,} requests" for name, times in short.items() if times)
    return {
        "url": url,
        "count": count,
        "failed": errors.total(),
        "errors": dict(errors),
        "http_codes": dict(codes),
        "reused": reused,
        **{name: summary(values[name]) for name in TIMES},
        "stages": {name: summary(values[name]) for name in STAGES},
        "doubts": [f"{COARSE}: {named}, of {count:,}"] if named else [],
    }


def summary(values: Sequence[float]) -> dict[str, float | int | None] | None:
    """Returns count, minimum, mean, maximum and percentiles; None without values.

    A percentile is None if fewer than five values lie beyond it, since it would be one of the largest.
    """
    if not values:
        return None
    ordered, count = sorted(values), len(values)
    percentiles = {
        name: ordered[rank(at, count) - 1] if is_supported(at, count) else None for name, at in PERCENTILES.items()
    }
    return {"count": count, "min": ordered[0], "mean": sum(values) / count, "max": ordered[-1], **percentiles}
