"""Memory: what are the bandwidth and latency of a machine's memory and caches, by working set?

Based on Cloud Mercato, Why you should use sysbench, which uses sysbench's memory test; J. D. McCalpin, Memory
bandwidth and machine balance, 1995 (the triad); and lmbench's pointer chase (L. McVoy and C. Staelin, 1996).
"""

from functools import partial
from types import MappingProxyType

from dyno.contracts.model import Phase, Preset, Value
from dyno.contracts.settings import Setting, integer
from dyno.contracts.suite import Suite

BLOCKS = ("sequential-read", "sequential-write", "random-read", "random-write")
"""Phases of sysbench. Each event accesses a block of the thread's own memory, word by word or in random order."""
TRIAD, CHASE = "triad", "chase"
CACHES = ("L1d", "L2", "L3")
"""Names of data caches, as in `dyno.host.procfs`."""
LINE_BYTES, TRIAD_BYTES = 64, 24
"""Bytes of a node of the chase, and bytes moved for an element of the triad: two doubles read and one written."""

CHECKED = "consistency of the report's figures"
TITLES = ("read", "write", "random read", "random write")
SIZES = (16, 64, 256, 1_024, 4_096, 16_384, 65_536)
THREADS = ("1", "cpus/2", "cpus", "2cpus")
MORE_SIZES = tuple(1 << at for at in range(2, 19))

_phase = partial(Phase, unit="MB", writes=False, checked=CHECKED, reported=True)
_number = integer(4, 1 << 24)
_TRIAD = "{range} MB of the triad a second, with working sets of {size_kib} KiB"
_CHASE = "{range} hops between cache lines a second"


def _power(text: str) -> Value:
    """Parses a power of two, since sysbench accepts no other block size."""
    size = int(_number(text))
    if size & (size - 1):
        raise ValueError("expected a power of two")
    return size


class MemorySuite(Suite):
    name = "memory"
    title = "the memory and its caches: bandwidth and latency, by working set and threads"
    ports = ("memory-access",)
    params = (Setting("size_kib", _power, 65_536, "working set of each thread, in KiB: a power of two"),)
    presets = MappingProxyType(
        {
            "quick": Preset({"size_kib": SIZES}, samples=3, budget=1, timeout=60),
            "standard": Preset({"size_kib": MORE_SIZES, "clients": ("1", "cpus")}, samples=5, budget=2, timeout=120),
            "full": Preset({"size_kib": MORE_SIZES, "clients": THREADS}, samples=10, budget=5, timeout=300),
        }
    )
    phases = (
        *(
            _phase(each, f"sysbench: {t}s, block after block", says=f"{{range}} MB of {t}s a second")
            for t, each in zip(TITLES, BLOCKS, strict=True)
        ),
        _phase(TRIAD, "a = b + 3 c, pass after pass", checked=f"{CHECKED}; every element", says=_TRIAD),
        _phase(CHASE, "hops from cache line to cache line", unit="hop", checked=f"{CHECKED}; the ring", says=_CHASE),
    )


SUITE = MemorySuite()
