"""Parts of pages: templates, their programs, the charting library, the policy that allows these to run, and packed
texts: data for the program, and files that the reader can download without a network."""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

from dyno.contracts.model import UsageError
from dyno.contracts.sanitize import sanitize
from dyno.host import installation
from dyno.host.directories import cache
from dyno.host.filesystem import replace
from dyno.report import export
from dyno.report.charts import plot
from dyno.report.tables import display, units
from dyno.results import Run, encode, lines, parse_line

if TYPE_CHECKING:
    from types import ModuleType

    import jinja2

NEEDS = "the report needs Jinja2 and vl-convert; install them by"
BESIDE = "'self' file:"
"""Policy for scripts in files next to the page, from the same server or the same directory."""
ENTRY = "window.vegaEmbed = vegaEmbed;"
MOST_BYTES = 2_000_000
"""Target size of a page."""
MOST_RUN_BYTES = 64_000_000
"""Larger run files are not packed, not even in part."""
LARGE = 4_000_000
"""From this size on, the best compression would take too long."""


def text(name: str) -> str:
    """Returns the content of a file of this folder."""
    return (files(__package__) / name).read_text(encoding="utf-8")


@lru_cache
def template(name: str, source: Callable[[str], str] = text) -> jinja2.Template:
    """Returns a Jinja2 template. Raises UsageError if Jinja2 is missing."""
    try:
        import jinja2
    except ImportError:
        raise UsageError(f"{NEEDS}: {installation.extra_command('report')}") from None
    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        loader=jinja2.FunctionLoader(source),
    )
    environment.globals.update(places=display, units=units)
    return environment.get_template(name)


def library() -> str:
    """Returns the charting library. Raises UsageError if vl-convert is missing."""
    return script(plot.load(NEEDS))


def script(vl_convert: ModuleType) -> str:
    """Returns Vega, Vega-Lite and Vega-Embed as one script, which defines only `window.vegaEmbed`. It is cached on
    disk with its checksum, because bundling takes longer than building most pages."""
    file = cache() / "charts" / f"vl-convert-{vl_convert.__version__}.js"
    with suppress(OSError, ValueError):
        checksum, _, content = file.read_bytes().partition(b"\n")
        if checksum == _checksum(content):
            return content.decode()
    bundle: str = vl_convert.javascript_bundle(ENTRY)
    # Wrapped in a function, so that its thousands of names don't become global.
    bundle = f"(() => {{\n{bundle}\n}})();\n"
    content = bundle.encode()
    # Without space or permission, it is bundled again the next time.
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        replace(file, _checksum(content) + b"\n" + content)
    return bundle


def _checksum(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def program(*scripts: str) -> str:
    """Joins scripts to one, in a scope of their own."""
    return "\n".join(["(() => {", '"use strict";', *scripts, "})();\n"])


def source_hash(content: str) -> str:
    """Returns the source expression of the page's policy that allows this script or style: its hash."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


# -- packed texts --------------------------------------------------------------------------------------------


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
    stem, packed = sanitize(run.path.stem, keep=""), pack(export.as_csv(export.cells(run)))
    yield Download(f"csv-{at}", packed, f"{stem}.csv", "The results as CSV", "text/csv")
    packed = pack(export.compact(export.as_data(run)))
    yield Download(f"json-{at}", packed, f"{stem}-results.json", "The results as JSON", "application/json")


def whole(run: Run, at: int) -> Download:
    """Returns the run file, byte for byte."""
    name = sanitize(run.path.name, keep="")
    return Download(f"raw-{at}", pack(run.path.read_bytes()), name, "The run file", "application/json")


def part(run: Run, at: int) -> Download:
    """Returns the run file without histograms and time series, which are most of its size. The result is still a
    valid run file. If even that is too large, nothing is packed."""
    size = run.path.stat().st_size
    if size > MOST_RUN_BYTES:
        why = f"With {size / 1e6:,.0f} MB it is too large for a page"
        return Download(f"raw-{at}", "", run.path.name, "The run file", "application/json", why)
    content = []
    for line in map(parse_line, lines(run.path)):
        for sample in line["samples"] if line.get("kind") == "trial" else ():
            sample.update(histogram=None, by_kind={}, response=None, late=None, series=[])
        content.append(encode(line) + b"\n")
    name = f"{sanitize(run.path.stem, keep='')}-without-histograms.json"
    remark = (
        "Without histograms and time series, with which the page would be larger than"
        f" {MOST_BYTES / 1e6:g} MB; {sanitize(run.path.name, keep='')} has them."
    )
    return Download(f"raw-{at}", pack(b"".join(content)), name, "The run file in part", "application/json", remark)
