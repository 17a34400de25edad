"""What a sample can't be: more time than has passed, more work than fits into it, less than nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dyno.contracts.sample import Sample

SLACK_NS, ROUNDED_NS = 100_000_000, 1_000_000_000
"""Which times may be longer by: they were taken by another process, or rounded by an outside tool."""
MOST_ITEMS = 1_000
"""Of what a throughput counts, which may be bytes, in a ns of each client's time. Of operations, each of which is
timed, it is one."""
NUMBERS = ("operations", "items", "elapsed_ns", "busy_ns", "errors", "checked", "wall_ns", "due", "bytes")


def impossible(sample: Sample, passed_ns: int, since_start_ns: int, cores: int) -> str | None:
    """Why a sample can't be true; None where it may be. `passed_ns` went by between the begin of its phase, with all
    that is prepared, and the sample; `since_start_ns` since the trial began."""
    return next(_impossible(sample, passed_ns, since_start_ns, cores), None)


def _impossible(sample: Sample, passed_ns: int, since_start_ns: int, cores: int) -> Iterator[str]:
    for name in NUMBERS:
        if (getattr(sample, name) or 0) < 0:
            yield f"{name} is {getattr(sample, name)}"
    elapsed_ns, wall_ns = sample.elapsed_ns, sample.wall_ns or 0
    clients_ns = max(elapsed_ns, 1) * sample.clients
    if wall_ns > passed_ns + SLACK_NS:
        yield f"it took {_s(wall_ns)}, and only {_s(passed_ns)} went by"
    if elapsed_ns > (wall_ns or passed_ns) + (SLACK_NS if sample.reported_by is None else ROUNDED_NS):
        yield f"{_s(elapsed_ns)} were measured, and only {_s(wall_ns or passed_ns)} went by"
    if sample.busy_ns > clients_ns + SLACK_NS:
        yield f"{_s(sample.busy_ns)} were the engine's, of {_s(clients_ns)}"
    if sample.items > clients_ns * MOST_ITEMS:
        yield f"{sample.items:,} {sample.unit}s do not fit into {_s(elapsed_ns)}"
    if not sample.bulk and sample.reported_by is None and sample.operations > clients_ns:
        yield f"{sample.operations:,} operations do not fit into {_s(elapsed_ns)}"
    # A server's processes come and go: what one had used that was missed before is counted when it has ended.
    for who, used, ns in (("client", sample.client, passed_ns), ("server", sample.server, since_start_ns)):
        if _cpu_ns(used) > cores * (ns + SLACK_NS):
            yield f"the {who} used {_s(_cpu_ns(used))} of CPU time, and {cores} cores have {_s(cores * ns)}"


def _cpu_ns(used: Mapping[str, int | None] | None) -> int:
    return sum((used or {}).get(name) or 0 for name in ("user_ns", "system_ns"))


def _s(ns: int) -> str:
    return f"{ns / 1e9:.3g} s"
