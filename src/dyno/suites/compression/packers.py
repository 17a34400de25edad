"""Packers, which compress batches: their names, levels and libraries.

A packer's library is imported when the packer is opened, in a trial's process. The plan only checks that the library
is installed.
"""

import zlib
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import NamedTuple

from dyno.contracts.model import Value
from dyno.contracts.settings import closest_match
from dyno.host import installation
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
    """Declaration of a packer."""

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
        raise ValueError(f"needs {spec.module}, which is not installed: {installation.extra('compression')}")
    return f"{name}:{int(level)}" if colon else name


def open_packer(text: str) -> Packer:
    """Opens a packer by a text that `parse` returned. Without a level, the library's default applies."""
    name, _, level = text.partition(":")
    compress: Compress
    if name == "plain":
        return Packer(bytes, bytes, None)
    if name == "zlib":
        compress = partial(zlib.compress, level=int(level)) if level else zlib.compress
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
        compressor = zstandard.ZstdCompressor(int(level)) if level else zstandard.ZstdCompressor()
        return Packer(compressor.compress, zstandard.ZstdDecompressor().decompress, library)
    import brotli

    compress = partial(brotli.compress, quality=int(level)) if level else brotli.compress
    return Packer(compress, brotli.decompress, f"Brotli {version('Brotli')}")
