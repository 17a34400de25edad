"""Compression: what is the cost of compressing records in batches before they are stored, and what is the gain?

Based on David Wilson, acid (its performance page and examples/batch.py), 2013.
"""

import zlib
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import NamedTuple

from dyno.contracts.model import NotInstalled, Phase, Preset, Value
from dyno.contracts.settings import Setting, closest_match, integer
from dyno.contracts.suite import Suite
from dyno.host.installation import version

Compress = Callable[[bytes], bytes]


class Packer(NamedTuple):
    """An opened packer, for which `decompress(compress(text)) == text`. Each client needs its own, since some
    libraries' objects are not thread-safe."""

    compress: Compress
    decompress: Compress
    library: str | None
    """Name and version of the library; None for the packer that doesn't compress."""


class PackerSpec(NamedTuple):
    module: str
    """Module that the packer imports."""
    levels: range = range(0)
    """Supported levels; empty if the packer has no levels."""


PACKER_SPECS = {
    "plain": PackerSpec("zlib"),
    "zlib": PackerSpec("zlib", range(1, 10)),
    "snappy": PackerSpec("cramjam"),
    "lz4": PackerSpec("lz4", range(1, 13)),
    "zstd": PackerSpec("zstandard", range(1, 23)),
    "brotli": PackerSpec("brotli", range(12)),
}


def parse(text: str) -> Value:
    """Parses a packer's name with an optional level: 'zlib', 'zlib:9'. Raises ValueError."""
    name, colon, level = text.partition(":")
    if name not in PACKER_SPECS:
        raise ValueError(f"is not known; {closest_match(name, PACKER_SPECS)}")
    spec = PACKER_SPECS[name]
    if colon and not spec.levels:
        raise ValueError(f"{name} has no levels")
    if colon and not (level.isdecimal() and int(level) in spec.levels):
        raise ValueError(f"expected {name}, or {name}:LEVEL from {spec.levels[0]} to {spec.levels[-1]}")
    if find_spec(spec.module) is None:
        raise NotInstalled(f"packer {name} needs {spec.module}: dyno install compression")
    if colon:
        return f"{name}:{int(level)}"
    return name


def open_packer(text: str) -> Packer:
    """Opens a packer by a text that `parse` returned. Without a level, the library's default applies."""
    name, _, level = text.partition(":")
    compress: Compress
    if name == "plain":
        return Packer(bytes, bytes, None)
    if name == "zlib":
        if level:
            compress = partial(zlib.compress, level=int(level))
        else:
            compress = zlib.compress
        return Packer(compress, zlib.decompress, f"zlib {zlib.ZLIB_RUNTIME_VERSION}")
    if name == "snappy":
        from cramjam import snappy

        def decompress(text: bytes) -> bytes:
            # Both functions return the library's own buffer type.
            return bytes(snappy.decompress_raw(text))

        return Packer(lambda text: bytes(snappy.compress_raw(text)), decompress, f"cramjam {version('cramjam')}")
    if name == "lz4":
        from lz4 import block, library_version_string

        hard: Compress = partial(block.compress, mode="high_compression", compression=int(level or 0))
        library = f"lz4 {version('lz4')} (LZ4 {library_version_string()})"
        return Packer(hard if level else block.compress, block.decompress, library)
    if name == "zstd":
        import zstandard

        library = f"zstandard {zstandard.__version__} (Zstandard {'.'.join(map(str, zstandard.ZSTD_VERSION))})"
        if level:
            compressor = zstandard.ZstdCompressor(int(level))
        else:
            compressor = zstandard.ZstdCompressor()
        return Packer(compressor.compress, zstandard.ZstdDecompressor().decompress, library)
    import brotli

    if level:
        compress = partial(brotli.compress, quality=int(level))
    else:
        compress = brotli.compress
    return Packer(compress, brotli.decompress, f"Brotli {version('Brotli')}")


PACKERS = tuple(PACKER_SPECS)
PARAMS = (
    Setting("packer", parse, "zlib", f"{', '.join(PACKERS)}; a level, where it has some: zlib:9"),
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
    Phase(
        "insert",
        _INSERT,
        "record",
        True,
        checked="every record and the number of entries, by reading the store",
        says="{figure} records compressed and stored a second",
    ),
    Phase(
        "gets",
        "get records by key: seek, decompress, pick, decode",
        "op",
        False,
        "hot",
        "every record",
        says="{figure} records read by key a second, p99 {p99}",
    ),
    Phase(
        "iterate",
        "read all records in key order, again and again",
        "record",
        False,
        "hot",
        _IN_ORDER,
        says="{figure} records read in key order a second",
    ),
)


class CompressionSuite(Suite):
    name = "compression"
    title = "records compressed in batches, in an ordered key-value store"
    ports = ("ordered-kv",)
    # The published table is of lmdb. The suite compares packers rather than engines.
    engines = ("lmdb",)
    params = PARAMS
    presets = PRESETS
    phases = PHASES


SUITE = CompressionSuite()
