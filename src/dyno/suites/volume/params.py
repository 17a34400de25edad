"""The parameters, presets, phases, the table and the charts of the suite volume."""

from __future__ import annotations

from dyno.contracts.model import Phase, Preset, Value
from dyno.contracts.settings import Setting, integer
from dyno.contracts.suite import Axis, Column, Curve, Layout
from dyno.suites.volume.port import READ, WRITE

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SUFFIXES = {"k": KIB, "m": MIB, "g": GIB}
SECTOR = 512


def sectors(text: str) -> Value:
    """Bytes, with k, m or g for powers of 1,024: a multiple of 512. Raises ValueError."""
    number, factor = (text[:-1], SUFFIXES[text[-1].lower()]) if text[-1:].lower() in SUFFIXES else (text, 1)
    try:
        found = int(number) * factor
    except ValueError:
        found = 0
    if found < SECTOR or found % SECTOR or found > 1 << 62:
        raise ValueError("wants bytes, a multiple of 512, such as 4096, 4k or 1m")
    return found


PARAMS = (
    Setting("area", sectors, 256 * MIB, "bytes of the file, or of the device's begin, that are worked on"),
    Setting("block_size", sectors, 4 * KIB, "bytes of a request: 4k, 1m"),
    Setting("depth", integer(1, 4096), 1, "requests in flight of each job"),
    Setting("jobs", integer(1, 256), 1, "processes that do the same at the same time"),
    Setting("mix", integer(1, 99), 70, "of the mixed phases: reads, in percent", phases=("seq-mixed", "rand-mixed")),
    Setting("warm", integer(1, 86_400), 10, "seconds of the phase warm-up at most", phases=("warm-up",)),
)

PRESETS = {
    "quick": Preset(
        {"area": 64 * MIB, "block_size": (4 * KIB, MIB), "depth": (1, 16), "warm": 5},
        samples=3,
        budget=1,
        timeout=300,
    ),
    "standard": Preset(
        {"area": GIB, "block_size": (4 * KIB, 64 * KIB, MIB), "depth": (1, 4, 16, 64), "warm": 60},
        samples=5,
        budget=10,
        timeout=1_800,
    ),
    "full": Preset(
        {
            "area": 8 * GIB,
            "block_size": (4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB),
            "depth": (1, 2, 4, 8, 16, 32, 64),
            "warm": 1_800,
        },
        samples=5,
        budget=30,
        timeout=14_400,
    ),
}

COUNTED = "that bytes, operations and histogram fit together"
PARTS = ("submission", "completion")
MIXED = {READ: False, WRITE: True}


def _phase(name: str, title: str, writes: bool, mixed: bool = False, metric: str = "throughput") -> Phase:
    return Phase(
        name,
        title,
        unit="op",
        writes=writes,
        checked=COUNTED,
        kinds=MIXED if mixed else {},
        parts=PARTS,
        reported=True,
        metric=metric,
    )


def _copy(name: str, title: str) -> Phase:
    return Phase(name, title, "op", True, checked="how many bytes it wrote", reported=True, metric="bandwidth")


UNWRITTEN, WARM_UP, FLUSH = "unwritten-read", "warm-up", "flush"
PATTERNS = {
    UNWRITTEN: "randread",
    WARM_UP: "randwrite",
    "seq-write": "write",
    "seq-read": "read",
    "seq-mixed": "rw",
    "rand-write": "randwrite",
    "rand-read": "randread",
    "rand-mixed": "randrw",
    FLUSH: "write",
}
COPIES = {"dd": "plain", "dd-fdatasync": "fdatasync", "dd-direct": "direct"}
SINGLE = (FLUSH, *COPIES)
"""Phases of one request at a time, by their nature."""

PHASES = (
    _phase(UNWRITTEN, "read at random what was never written", writes=False),
    _phase(WARM_UP, "write at random to what was never written, until the rate is steady", writes=True),
    _phase("seq-write", "write in order", writes=True, metric="bandwidth"),
    _phase("seq-read", "read in order", writes=False, metric="bandwidth"),
    _phase("seq-mixed", "read and write in order", writes=True, mixed=True, metric="bandwidth"),
    _phase("rand-write", "write at random", writes=True),
    _phase("rand-read", "read at random", writes=False),
    _phase("rand-mixed", "read and write at random", writes=True, mixed=True),
    Phase(
        FLUSH,
        "write, fdatasync, and again: a request is in flight only while none is flushed",
        unit="op",
        writes=True,
        checked=COUNTED,
        parts=("writing", "flushing"),
        reported=True,
    ),
    _copy("dd", "dd as it is mostly run: it ends when memory has the data"),
    _copy("dd-fdatasync", "dd conv=fdatasync: flushed once, at the end"),
    _copy("dd-direct", "dd oflag=direct: past the page cache, one request at a time"),
)

# What the tables by phase have apart.
LAYOUT = Layout(
    title="dd beside fio, writing in order; reads of what was never written beside others; the warm-up",
    beside=True,
    columns=(
        Column("block", "param", "block_size"),
        Column("depth", "param", "depth"),
        Column("dd", "bandwidth", "dd"),
        Column("dd flushed", "fact", "flushed_bytes_per_second", "bandwidth"),
        Column("dd fdatasync", "bandwidth", "dd-fdatasync"),
        Column("dd direct", "bandwidth", "dd-direct"),
        Column("fio direct", "bandwidth", "seq-write"),
        Column("unwritten/s", "rate", UNWRITTEN),
        Column("written/s", "rate", "rand-read"),
        Column("steady after", "fact", "steady_after_ns", "ns"),
        Column("penalty %", "fact", "penalty_percent", "ratio"),
    ),
    legend=(
        "dd: as it is mostly run. It ends when memory has the data, so it tells how fast memory takes it; dd flushed:"
        " the same bytes by the time that it took and that fdatasync took after it",
        "dd fdatasync: dd conv=fdatasync, flushed once at the end, in the order and the sizes that the page cache"
        " likes; the truest of what dd can do, and still one thread, zeros alone, a new file, and a mean without"
        " latencies",
        "dd direct: dd oflag=direct, past the page cache and one request at a time: the device's latency more than"
        " its bandwidth",
        "fio direct: past the page cache, as many requests in flight as depth says, random bytes, blocks that were"
        " written before, a set time. A volume's bandwidth is where more depth adds no more",
        "unwritten/s, written/s: random reads of what was never written and of what was. The former may be answered"
        " without a look at the device, and tell nothing of it",
        "steady after, penalty: of the warm-up, random writes to what was never written: when the rate was steady by"
        " SNIA's test, and by how much it was lower until each block had been written once; nothing where it never"
        " was",
    ),
)

LOADED = Curve(
    name="iops-latency",
    title="IOPS against latency",
    reading="The latency that 99 % of the requests kept, against the requests done in a second: the median over"
    " trials, with its 95 % interval. A line is a block size, and beside its points stands the queue depth. Where"
    " more depth moves a point up and no longer to the right, the volume is saturated.",
    x=Axis("metric", "throughput", "IOPS", scale="log"),
    y=Axis("metric", "p99", scale="log"),
    line="block_size",
    point="depth",
    phases=("rand-read", "rand-write", "rand-mixed", "seq-read", "seq-write", "seq-mixed"),
)
