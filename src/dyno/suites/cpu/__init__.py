"""CPU: how much does a processor compute, and how does that scale with threads?

Based on Cloud Mercato, Why you should use sysbench: a search for primes in one thread up to twice the number of CPUs.
"""

from types import MappingProxyType

from dyno.contracts.model import Phase, Preset
from dyno.contracts.settings import Setting, integer
from dyno.contracts.suite import Suite

# Numbers of threads, up to twice the CPUs of this machine (see `dyno.contracts.settings.by_cpus`).
SCALE = ("1", "cpus/4", "cpus/2", "cpus", "1.5cpus", "2cpus")


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
            says="{range} searches for the primes below {max_prime} a second, with {clients} threads",
            writes=False,
            checked="consistency of the report's figures; the number of primes, if reported",
            reported=True,
        ),
    )


SUITE = CpuSuite()
