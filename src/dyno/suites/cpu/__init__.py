"""CPU: how much does a processor compute, and how does that scale with threads?

Based on Cloud Mercato, Why you should use sysbench: a search for primes in one thread up to twice the number of CPUs.
"""

from types import MappingProxyType

from dyno.contracts.model import Phase, Preset
from dyno.contracts.settings import Setting, integer
from dyno.contracts.suite import Column, Layout, Suite

# Numbers of threads, up to twice the CPUs of this machine (see `dyno.contracts.settings.by_cpus`).
SCALE = ("1", "cpus/4", "cpus/2", "cpus", "1.5cpus", "2cpus")

LAYOUT = Layout(
    columns=(
        Column("threads", "param", "clients"),
        Column("events/s", "rate", "primes", "rate"),
        Column("min", "fact", "latency_min_ns", "ns"),
        Column("avg", "fact", "latency_avg_ns", "ns"),
        Column("p95", "fact", "latency_p95_ns", "ns"),
        Column("max", "fact", "latency_max_ns", "ns"),
        Column("events/thread", "fact", "events_per_thread", "rate"),
        Column("deviation", "fact", "events_deviation", "rate"),
        Column("MHz", "fact", "clock_mhz", "count"),
        Column("steal %", "fact", "stolen_percent", "ratio"),
        Column("held back", "fact", "held_back_ns", "ns"),
    ),
    legend=(
        "events/s: searches for all primes below max_prime, all threads together; min, avg, p95, max: time of one",
        "events/thread, deviation: mean and standard deviation of the searches per thread: fairness",
        "MHz: the processors' clock in the middle of the phase; steal, held back: time lost to the hypervisor, and to"
        " a limit of CPU time",
    ),
)


class CpuSuite(Suite):
    name = "cpu"
    title = "the processor: a search for primes, by the number of threads"
    ports = ("primes",)
    params = (Setting("max_prime", integer(3, 10_000_000), 64_000, "an event searches all primes below it"),)
    presets = MappingProxyType(
        {
            "quick": Preset({"clients": SCALE}, samples=3, budget=2, timeout=60),
            "standard": Preset({"clients": SCALE}, samples=5, budget=10, timeout=120),
            "full": Preset({"clients": SCALE}, samples=10, budget=30, timeout=300),
        }
    )
    phases = (
        Phase(
            "primes",
            "search for the primes below max_prime, repeated in each thread",
            unit="event",
            writes=False,
            checked="consistency of the report's figures; the number of primes, if reported",
            reported=True,
        ),
    )
    layout = LAYOUT


SUITE = CpuSuite()
