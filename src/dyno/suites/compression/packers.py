"""What a batch is compressed with: names, levels, and the libraries behind them.

A library is imported when a packer is opened, in a trial's process, and nowhere else. That it is there is looked at
when a run is planned.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import NamedTuple

from dyno.contracts.model import Value
from dyno.contracts.settings import closest_match
from dyno.host import installation
from dyno.host.versions import version

Compress = Callable[[bytes], bytes]


class Packer(NamedTuple):
    """`decompress(compress(text)) == text`. For one client: some libraries' objects serve one thread."""

    compress: Compress
    decompress: Compress
    library: str | None
    """With its version; None for a packer that leaves a batch as it is."""


class PackerSpec(NamedTuple):
    """A packer as it is declared."""

    module: str
    """What must be importable."""
    levels: range
    """Those that may be asked for; empty where there are none."""
    open: Callable[[int | None], Packer]
    """Called with the level; None for the library's default."""


def _plain(level: int | None) -> Packer:
    return Packer(bytes, bytes, None)


def _zlib(level: int | None) -> Packer:
    compress: Compress = zlib.compress if level is None else partial(zlib.compress, level=level)
    return Packer(compress, zlib.decompress, f"zlib {zlib.ZLIB_RUNTIME_VERSION}")


def _snappy(level: int | None) -> Packer:
    from cramjam import snappy

    def compress(text: bytes) -> bytes:
        # It answers a buffer of its own, as does its decompression.
        return bytes(snappy.compress_raw(text))

    def decompress(text: bytes) -> bytes:
        return bytes(snappy.decompress_raw(text))

    return Packer(compress, decompress, f"cramjam {version('cramjam')}")


def _lz4(level: int | None) -> Packer:
    from lz4 import block, library_version_string

    hard: Compress = partial(block.compress, mode="high_compression", compression=level)
    library = f"lz4 {version('lz4')} (LZ4 {library_version_string()})"
    return Packer(block.compress if level is None else hard, block.decompress, library)


def _zstd(level: int | None) -> Packer:
    import zstandard

    library = f"zstandard {zstandard.__version__} (Zstandard {'.'.join(map(str, zstandard.ZSTD_VERSION))})"
    compressor = zstandard.ZstdCompressor() if level is None else zstandard.ZstdCompressor(level)
    return Packer(compressor.compress, zstandard.ZstdDecompressor().decompress, library)


def _brotli(level: int | None) -> Packer:
    import brotli

    compress: Compress = brotli.compress if level is None else partial(brotli.compress, quality=level)
    return Packer(compress, brotli.decompress, f"Brotli {version('Brotli')}")


PACKER_SPECS = {
    "plain": PackerSpec("zlib", range(0), _plain),
    "zlib": PackerSpec("zlib", range(1, 10), _zlib),
    "snappy": PackerSpec("cramjam", range(0), _snappy),
    "lz4": PackerSpec("lz4", range(1, 13), _lz4),
    "zstd": PackerSpec("zstandard", range(1, 23), _zstd),
    "brotli": PackerSpec("brotli", range(12), _brotli),
}


def parse(text: str) -> Value:
    """A packer's name, with a level where one is wanted: 'zlib', 'zlib:9'. Raises ValueError."""
    name, colon, level = text.partition(":")
    if name not in PACKER_SPECS:
        raise ValueError(f"is not known; {closest_match(name, PACKER_SPECS)}")
    kind = PACKER_SPECS[name]
    if colon and not kind.levels:
        raise ValueError(f"{name} has no levels")
    if colon and not (level.isdecimal() and int(level) in kind.levels):
        raise ValueError(f"wants {name}, or {name}:LEVEL from {kind.levels[0]} to {kind.levels[-1]}")
    if find_spec(kind.module) is None:
        raise ValueError(f"needs {kind.module}, which is not installed: {installation.extra('compression')}")
    return f"{name}:{int(level)}" if colon else name


def open_packer(text: str) -> Packer:
    """Of what `parse` returned."""
    name, colon, level = text.partition(":")
    return PACKER_SPECS[name].open(int(level) if colon else None)
