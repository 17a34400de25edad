"""Texts that are packed into the page: for its program, and files that it gives back without a network."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from dyno.report.export import documents
from dyno.report.export.json_stream import compact
from dyno.results import Run, lines, parsed
from dyno.text.sanitize import sanitize

MOST_BYTES = 2_000_000
"""Of a page, if that can be."""
MOST_RUN_BYTES = 64_000_000
"""Of a run file that is in a page at all, be it in part."""
LARGE = 4_000_000
"""From here on packing as small as can be takes too long."""


@dataclass(frozen=True)
class Part:
    """A text that is packed into the page."""

    id: str
    packed: str


@dataclass(frozen=True)
class Download(Part):
    """One that is a file for the reader."""

    name: str
    title: str
    kind: str
    remark: str = ""
    """Where nothing is packed: why."""


def pack(text: str | bytes | Iterable[str]) -> str:
    """gzip and base64: what the page unpacks again. The same text always gives the same, in whatever pieces."""
    pieces = iter([text] if isinstance(text, (str, bytes)) else text)
    first, size = list[bytes](), 0
    for piece in map(_encoded, pieces):
        first.append(piece)
        size += len(piece)
        if size >= LARGE:
            break
    packer = zlib.compressobj(9 if size < LARGE else 6, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    packed = b"".join([*map(packer.compress, chain(first, map(_encoded, pieces))), packer.flush()])
    return base64.b64encode(packed).decode()


def _encoded(piece: str | bytes) -> bytes:
    return piece.encode() if isinstance(piece, str) else piece


def results(run: Run, at: int) -> Iterator[Download]:
    """What `dyno show` gives of the run that is the page's `at`th."""
    stem = _named(run.path.stem)
    yield Download(f"csv-{at}", pack(documents.as_csv(run)), f"{stem}.csv", "The results as CSV", "text/csv")
    as_json = pack(documents.as_dense_json(run))
    yield Download(f"json-{at}", as_json, f"{stem}-results.json", "The results as JSON", "application/json")


def whole(run: Run, at: int) -> Download:
    """The run file, byte for byte."""
    name = _named(run.path.name)
    return Download(f"raw-{at}", pack(run.path.read_bytes()), name, "The run file", "application/json")


def part(run: Run, at: int) -> Download:
    """The run file without histograms and time series, which are most of its size. Still a run file. Nothing of one
    that is too large even so."""
    size = run.path.stat().st_size
    if size > MOST_RUN_BYTES:
        why = f"With {size / 1e6:,.0f} MB it is too large for a page"
        return Download(f"raw-{at}", "", run.path.name, "The run file", "application/json", why)
    kept = []
    for found in map(parsed, lines(run.path)):
        for sample in found["samples"] if found.get("kind") == "trial" else ():
            sample.update(histogram=None, by_kind={}, response=None, late=None, series=[])
        kept.append(f"{compact(found)}\n")
    name = f"{_named(run.path.stem)}-without-histograms.json"
    remark = (
        "Without histograms and time series, with which the page would be larger than"
        f" {MOST_BYTES / 1e6:g} MB; {_named(run.path.name)} has them."
    )
    return Download(f"raw-{at}", pack("".join(kept)), name, "The run file in part", "application/json", remark)


def _named(name: str) -> str:
    """A file's name need not be text."""
    return sanitize(name, keep="")
