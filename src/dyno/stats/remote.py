"""Doubts about rows whose clients ran on other machines. Each names its machine; the worst trial counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from dyno.fields import Sample
from dyno.stats.load_limit import CLIENT_PERCENT, machine_percent

if TYPE_CHECKING:
    from dyno.contracts.decoded_types import Machine

UNEVEN_PERCENT = 80.0
NETWORK_PERCENT = 25.0
CLOCK_PERCENT = 1.0
LATE_PERCENT, LATE_NS = 10.0, 50_000
"""Limits of lateness, as for clients on this machine."""


@dataclass(frozen=True, slots=True)
class Raised:
    """A doubt: its code, the words of the row, the name of its sentence in doubts.toml, and the figures of that."""

    code: str
    short: str
    sentence: str
    values: Mapping[str, object]


def find_doubts(samples: Sequence[Sample], p50_ns: int | None, consequence: str) -> Iterator[Raised]:
    """Yields the doubts about a row with these samples and this median latency. `consequence` is added to a sentence
    about exhausted clients."""
    hosts = dict.fromkeys(host for sample in samples for host in sample.machines)
    for host in hosts:
        machines = [sample.machines[host] for sample in samples if host in sample.machines]
        if (percent := max(map(machine_percent, machines))) > CLIENT_PERCENT:
            figures = {"host": host, "percent": percent, "consequence": consequence}
            yield Raised("client", f"client {host}", "client of machine", figures)
        late = [machine for machine in machines if _late(machine)]
        if late:
            worst = max(late, key=lambda machine: machine["late_p99_ns"] or 0)
            late_us = (worst["late_p99_ns"] or 0) / 1000
            response_us = (worst["response_p99_ns"] or 0) / 1000
            figures = {"host": host, "late": late_us, "response": response_us}
            yield Raised("late", f"late {host}", "late machine", figures)
        shares = [_rate(s.machines[host]) / middle * 100 for s in samples if (middle := _middle(s, host))]
        if (percent := min(shares, default=100.0)) < UNEVEN_PERCENT:
            yield Raised("uneven", f"uneven {host}", "uneven", {"host": host, "percent": percent})
        moved = max(machine["skew_ns"] / max(machine["elapsed_ns"], 1) * 100 for machine in machines)
        if moved > CLOCK_PERCENT:
            yield Raised("clock", f"clock {host}", "clock", {"host": host, "percent": moved})
    trips = [(machine["round_trip_ns"] or 0, host) for s in samples for host, machine in s.machines.items()]
    trip, host = max(trips, default=(0, ""))
    if p50_ns and (percent := trip / p50_ns * 100) > NETWORK_PERCENT:
        figures = {"host": host, "trip": trip / 1000, "percent": min(percent, 100.0), "p50": p50_ns / 1000}
        yield Raised("network", f"network {figures['percent']:.0f} %", "network", figures)


def _late(machine: Machine) -> bool:
    late, response = machine["late_p99_ns"], machine["response_p99_ns"]
    return late is not None and response is not None and late > LATE_NS and late * 100 > response * LATE_PERCENT


def _rate(machine: Machine) -> float:
    """Returns the operations of one client per ns."""
    return float(machine["operations"] / machine["clients"] / max(machine["elapsed_ns"], 1))


def _middle(sample: Sample, host: str) -> float:
    """Returns the median rate of all machines; 0 if `host` is the only one, or has no clients in this sample."""
    if host in sample.machines and len(sample.machines) > 1:
        return median(map(_rate, sample.machines.values()))
    return 0.0
