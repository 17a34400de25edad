"""Texts that are packed into the page: for its program, and files that it gives back without a network."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dyno.harmless import harmless
from dyno.report import data
from dyno.results import Run, lines, parsed

MOST_BYTES = 2_000_000
"""Of a page, if that can be."""


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


def pack(text: str | bytes) -> str:
    """gzip and base64: what the page unpacks again. The same text always gives the same."""
    whole = text.encode() if isinstance(text, str) else text
    return base64.b64encode(gzip.compress(whole, 9, mtime=0)).decode()


def compact(found: Any) -> str:
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False)


def results(run: Run, at: int) -> Iterator[Download]:
    """What `dyno show` gives of the run that is the page's `at`th."""
    stem = _named(run.path.stem)
    yield Download(f"csv-{at}", pack(data.as_csv(run)), f"{stem}.csv", "The results as CSV", "text/csv")
    as_json = pack(compact(data.as_data(run)))
    yield Download(f"json-{at}", as_json, f"{stem}-results.json", "The results as JSON", "application/json")


def whole(run: Run, at: int) -> Download:
    """The run file, byte for byte."""
    name = _named(run.path.name)
    return Download(f"raw-{at}", pack(run.path.read_bytes()), name, "The run file", "application/json")


def part(run: Run, at: int) -> Download:
    """The run file without histograms and time series, which are most of its size. Still a run file."""
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
    return harmless(name, keep="")
