"""Compression: what is the cost of compressing records in batches before they are stored, and what is the gain?

Based on David Wilson, acid (its performance page and examples/batch.py), 2013.
"""

from dyno.contracts.model import Phase, Preset
from dyno.contracts.settings import Setting, integer
from dyno.contracts.suite import Axis, Column, Curve, Layout, Suite
from dyno.suites.compression import packers

PACKERS = tuple(packers.PACKER_SPECS)
PARAMS = (
    Setting("packer", packers.parse, "zlib", f"{', '.join(PACKERS)}; a level, where it has some: zlib:9"),
    Setting("batch", integer(1, 100_000), 1, "records in a batch, which is compressed and stored as one entry"),
    Setting("records", integer(1), 777, "records in the collection, of about 1.5 kB each"),
    Setting("gets", integer(1), 4_000, "lookups of the phase gets", phases=("gets",)),
    Setting("iterations", integer(1), 20, "iterations of the phase iterate", phases=("iterate",)),
)

# Leave out brotli, which takes seconds at its default level.
QUICK_PACKERS = tuple(name for name in PACKERS if name != "brotli")
# Batch sizes of the published table.
BATCHES = (1, 2, 4, 5, 8, 16, 32, 64)

_QUICK = {"packer": QUICK_PACKERS, "batch": (1, 16), "gets": 2_000, "iterations": 5}
_ALL = {"packer": PACKERS, "batch": BATCHES}
PRESETS = {
    "quick": Preset(_QUICK, samples=3, budget=1, timeout=60),
    "standard": Preset(_ALL, samples=5, budget=20, timeout=300),
    "full": Preset({**_ALL, "records": 20_000, "gets": 20_000}, samples=10, budget=120, timeout=3_600),
}

_INSERT = "encode, compress and store all records, batch by batch, in one transaction"
_IN_ORDER = "every record, in order"
PHASES = (
    Phase("insert", _INSERT, "record", True, checked="every record and the number of entries, by reading the store"),
    Phase("gets", "get records by key: seek, decompress, pick, decode", "op", False, "hot", "every record"),
    Phase("iterate", "read all records in key order, again and again", "record", False, "hot", _IN_ORDER),
)

# Columns of the published table in its order, then the cost of compression.
LAYOUT = Layout(
    columns=(
        Column("packer", "param", "packer"),
        Column("size", "fact", "stored_bytes", "bytes"),
        Column("count", "fact", "entries", "count"),
        Column("ratio", "fact", "ratio", "ratio"),
        Column("batch", "param", "batch"),
        Column("gets/s", "rate", "gets", "rate"),
        Column("iters/s", "operations", "iterate", "rate"),
        Column("records/s", "rate", "iterate", "rate"),
        Column("compress/MB", "fact", "compress_cpu_ns_per_mb", "ns"),
        Column("decompress/MB", "fact", "decompress_cpu_ns_per_mb", "ns"),
    ),
    legend=(
        "size, count: stored bytes (keys and values) and entries; ratio: size of uncompressed records in batches of"
        " 1, divided by size",
        "gets/s: lookups by key; iters/s: iterations over all records; records/s: records iterated",
        "compress/MB, decompress/MB: CPU time of the packer alone per MB (10^6 bytes) of uncompressed data",
    ),
)

TRADEOFF = Curve(
    name="tradeoff",
    title="Compression against speed",
    reading="How many times smaller the store is than uncompressed records, against the items done in a second: the"
    " median over trials, with its 95 % interval. Up is smaller and right is faster. A line is a packer, and beside"
    " its points stands how many records are in a batch.",
    x=Axis("metric", "throughput", scale="log"),
    y=Axis("fact", "ratio", "compression ratio", "ratio"),
    line="packer",
    point="batch",
)


class CompressionSuite(Suite):
    name = "compression"
    title = "records compressed in batches, in an ordered key-value store"
    ports = ("ordered-kv",)
    # The published table is of lmdb. The suite compares packers rather than engines.
    engines = ("lmdb",)
    params, presets, phases = PARAMS, PRESETS, PHASES
    layout = LAYOUT
    charts = (TRADEOFF,)


SUITE = CompressionSuite()
