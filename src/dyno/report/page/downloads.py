"""Texts packed into the page: data for its program, and files that the reader can download without a network."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator
from dataclasses import dataclass

from dyno.contracts.sanitize import sanitize
from dyno.report.export import documents
from dyno.report.export.json_stream import compact
from dyno.results import Run, lines, parsed

MOST_BYTES = 2_000_000
"""Target size of a page."""
MOST_RUN_BYTES = 64_000_000
"""Larger run files are not packed, not even in part."""
LARGE = 4_000_000
"""From this size on, the best compression would take too long."""


@dataclass(frozen=True)
class Part:
    """A packed text in the page."""

    id: str
    packed: str


@dataclass(frozen=True)
class Download(Part):
    """A packed file for the reader."""

    name: str
    title: str
    kind: str
    remark: str = ""
    """Why no file, or only a part of it, is packed."""


def pack(text: str | bytes) -> str:
    """Packs a text with gzip and base64."""
    content = text.encode() if isinstance(text, str) else text
    return base64.b64encode(gzip.compress(content, 9 if len(content) < LARGE else 6, mtime=0)).decode()


def results(run: Run, at: int) -> Iterator[Download]:
    """Yields the results of the page's run number `at`, in the formats of `dyno show`."""
    stem = _file_name(run.path.stem)
    yield Download(f"csv-{at}", pack(documents.as_csv(run)), f"{stem}.csv", "The results as CSV", "text/csv")
    packed = pack(compact(documents.as_data(run)))
    yield Download(f"json-{at}", packed, f"{stem}-results.json", "The results as JSON", "application/json")


def whole(run: Run, at: int) -> Download:
    """Returns the run file, byte for byte."""
    name = _file_name(run.path.name)
    return Download(f"raw-{at}", pack(run.path.read_bytes()), name, "The run file", "application/json")


def part(run: Run, at: int) -> Download:
    """Returns the run file without histograms and time series, which are most of its size. The result is still a
    valid run file. If even that is too large, nothing is packed."""
    size = run.path.stat().st_size
    if size > MOST_RUN_BYTES:
        why = f"With {size / 1e6:,.0f} MB it is too large for a page"
        return Download(f"raw-{at}", "", run.path.name, "The run file", "application/json", why)
    content = []
    for line in map(parsed, lines(run.path)):
        for sample in line["samples"] if line.get("kind") == "trial" else ():
            sample.update(histogram=None, by_kind={}, response=None, late=None, series=[])
        content.append(f"{compact(line)}\n")
    name = f"{_file_name(run.path.stem)}-without-histograms.json"
    remark = (
        "Without histograms and time series, with which the page would be larger than"
        f" {MOST_BYTES / 1e6:g} MB; {_file_name(run.path.name)} has them."
    )
    return Download(f"raw-{at}", pack("".join(content)), name, "The run file in part", "application/json", remark)


def _file_name(name: str) -> str:
    """Sanitizes a file name, which may contain bytes that are not text."""
    return sanitize(name, keep="")
