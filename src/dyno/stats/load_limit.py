"""Decides whether the load generator was the limit of a row. Such a row's figures are shown, but take part in no
comparison: they describe the clients, not the server.

The load generator was the limit of a trial in either of two cases. Its processes used more than CLIENT_PERCENT of the
CPU time that so many processes can use on this machine. Or client and server together used nearly all cores, and the
clients used more than the server; that rule is for clients on the server's machine. A row is limited if most of its
trials are. The rule is for engines with a server: the clients of other engines do the engine's own work. Samples of
earlier files lack the number of processes, so they are never limited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from dyno.contracts.histogram import count_values
from dyno.contracts.pace import LIBRARY_LOAD
from dyno.fields import Sample
from dyno.results.header import Host

if TYPE_CHECKING:
    from dyno.contracts.decoded_types import Machine

BUSY_PERCENT = 97.0
CLIENT_PERCENT = 80.0
CORES_PERCENT = 90.0
FAIR_OPERATIONS = 20
"""Least number of operations in an equal share. By chance, a client gets under 2 of 20 once in 20 million trials."""
UNFAIR_TIMES = 10
IDLE_WAKE_UPS_PERCENT, IDLE_CPU_PERCENT = 10.0, 1.0
SERVER_STEP_NS = 10_000_000
"""Resolution of a server's CPU time: a tick."""


@dataclass(frozen=True, slots=True)
class LoadLimit:
    """The load generator was the limit of a row."""

    percent: float
    """CPU time that the load generator used, of what its processes could use: the median of the limited trials."""


def has_starved_clients(sample: Sample) -> bool:
    """Returns whether the least served tenth of the clients got less than a tenth of an equal share. If operations
    ran out before the time, each client did all of its own. A share of few operations may be so by chance."""
    least, fair = sample.least_served, sample.fair_share
    if least is None or fair is None or sample.ended_by == "count":
        return False
    return fair >= FAIR_OPERATIONS and least * UNFAIR_TIMES < fair


def cpu_ns(used: Mapping[str, int | None] | None) -> int:
    return sum((used or {}).get(name) or 0 for name in ("user_ns", "system_ns"))


def machine_percent(machine: Machine) -> float:
    """Returns the CPU time of another machine's clients, as a percentage of what their processes could use: see
    `dyno.contracts.decoded_types.Machine`. 0 if it is unknown."""
    usable = min(machine["processes"], machine["cores"])
    return float((machine["cpu_ns"] or 0) / usable / max(machine["elapsed_ns"], 1) * 100)


def client_percent(sample: Sample, available: float | None) -> float | None:
    """Returns the CPU time of the load generator, as a percentage of what its processes could use; with clients on
    other machines, that of the busiest. None if their number is unknown, or if the engine has no server."""
    if sample.machines:
        return max(map(machine_percent, sample.machines.values()))
    if sample.load_processes is None or sample.client is None:
        return None
    usable = min(sample.load_processes, available or sample.load_processes)
    return cpu_ns(sample.client) / usable / max(sample.elapsed_ns, 1) * 100


def cores_percent(sample: Sample, available: float | None) -> float | None:
    """Returns the CPU time of client and server together, as a percentage of all cores of this machine. None without
    a server, or if the number of cores is unknown."""
    if sample.server is None or not available:
        return None
    clients = 0 if sample.machines else cpu_ns(sample.client)
    return (clients + cpu_ns(sample.server)) / available / max(sample.elapsed_ns, 1) * 100


def busy_percent(sample: Sample) -> float | None:
    """Returns the throughput times the mean latency, as a percentage of the clients: by Little's law, the share of
    the time in which they had an operation under way. None for one client, an open loop, work that was not timed by
    the operation, and an engine without a server, whose clients are busy with their own work in between."""
    timed = sample.load is not None and sample.histogram is not None and not sample.bulk
    if not timed or sample.clients == 1 or sample.response is not None or sample.elapsed_ns <= 0:
        return None
    times = count_values([sample.histogram])
    succeeded = sum(count for _, count in times)
    # Failed operations have no latency. They are taken to be as long as the others.
    latencies_ns = sum(value * count for value, count in times) * sample.operations / succeeded
    clients_ns = sample.elapsed_ns * sample.clients
    # Clients of a library may also wait for the transactions around their operations.
    return max(latencies_ns, sample.busy_ns if sample.load == LIBRARY_LOAD else 0) / clients_ns * 100


def server_idled(samples: Sequence[Sample]) -> bool:
    """Returns whether the servers of a row did nothing while operations were done. A server wakes up for a request,
    or uses CPU time to look for one. CPU time is in ticks, so in a short trial only a server that never woke up
    counts. False if either is unknown."""
    servers = [sample.server or {} for sample in samples]
    woken = [used.get("voluntary_switches") for used in servers]
    times = [used.get(name) for used in servers for name in ("user_ns", "system_ns")]
    requests = sum(1 if sample.bulk else sample.operations for sample in samples)
    if not requests or None in woken or None in times:
        return False
    wake_ups, used_ns = (sum(each or 0 for each in counts) for counts in (woken, times))
    if wake_ups == used_ns == 0:
        return True
    most_ns = used_ns + len(samples) * SERVER_STEP_NS
    elapsed_ns = sum(sample.elapsed_ns for sample in samples)
    return wake_ups * 100 < requests * IDLE_WAKE_UPS_PERCENT and most_ns * 100 < elapsed_ns * IDLE_CPU_PERCENT


def load_limit(samples: Sequence[Sample], host: Host) -> LoadLimit | None:
    """Returns the limit of a row with these samples, on this machine."""
    available = host.cpu.usable_cores
    limited = [percent for sample in samples if (percent := _limiting_percent(sample, available)) is not None]
    if 2 * len(limited) <= len(samples):
        return None
    return LoadLimit(median(limited))


def _limiting_percent(sample: Sample, available: float | None) -> float | None:
    """Returns `client_percent` of a trial whose limit was the load generator; None for another trial."""
    client, both = client_percent(sample, available), cores_percent(sample, available)
    if client is None:
        return None
    here = both is not None and not sample.machines
    exhausted = here and (both or 0.0) > CORES_PERCENT and cpu_ns(sample.client) > cpu_ns(sample.server)
    if client > CLIENT_PERCENT or exhausted:
        return client
    return None
