"""The picture that stands beside a link to a page, where people share one: its answer, and the first bars of it.

Those who draw such previews run no program, read no SVG and take an address alone: so it is a PNG beside the page,
and is made only where it is known where the page will be. 1,200 by 630 pixels is what the large services show whole
(The Open Graph protocol, "Structured Properties").
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from dyno.contracts.model import UsageError
from dyno.report.charts import draw, theme
from dyno.report.page import parts, relative
from dyno.report.tables import heading, wording
from dyno.report.tables.overview import called
from dyno.results import Run

WIDTH, HEIGHT, EDGE = 1200, 630, 60
LINES, LETTERS = 3, 50
"""Of the headline."""
NAME, SAID, FOOT = 40, 44, 100
"""Characters that have room."""
TOP, LINE = 128, 50
"""Of the headline: where its first line stands, and how far the next is below."""
BARS, STEP = 4, 62
WEB = ("https:", "http:")


@dataclass(frozen=True)
class Link:
    """Where a page will be, and the picture beside it: addresses of a web server."""

    page: str
    image: str
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def file(self) -> str:
        """The picture's name, as an address has it."""
        return PurePosixPath(urlsplit(self.image).path).name


def check(url: str) -> None:
    """Raises UsageError for what is no address of a page."""
    try:
        address = urlsplit(url)
        whole = f"{address.scheme}:" in WEB and bool(address.hostname)
    except ValueError:
        whole = False
    if not whole or address.query or address.fragment or address.username is not None:
        raise UsageError(f"--url {url}: wants the address that the page will have, as https://example.org/bench/")


def link(url: str, page: str) -> Link:
    """Of `page`: a path below `url` where that ends in a slash, or else at `url` itself. Raises UsageError."""
    check(url)
    target = urljoin(url, quote(page)) if url.endswith("/") else url
    name = quote(PurePosixPath(page).with_suffix(".png").name)
    return Link(target, urljoin(target, name))


def png(run: Run) -> bytes:
    """The picture. Raises UsageError where a library is missing."""
    return draw.png(svg(run), 1.0)


def svg(run: Run) -> str:
    names = called(run)
    answers = wording.answers(run, names)
    said = answers[0].partition(". ")[0] if answers else "No engine has a valid figure: there is no answer"
    # Its figures are those of the bars.
    plain = re.sub(rf" \([^()]*{wording.SURE}[^()]*\)", "", said).rstrip(".")
    headline = textwrap.wrap(plain, LETTERS, max_lines=LINES, placeholder=" …")
    pictures = relative.pictures(run, names)
    trials = heading.trials(run).partition(";")[0]
    first = TOP + LINE * len(headline) + 10
    drawn: str = parts.template("card.svg").render(
        width=WIDTH,
        height=HEIGHT,
        edge=EDGE,
        top=TOP,
        line=LINE,
        step=STEP,
        first=first,
        font=theme.FONT,
        ground=theme.LIGHT,
        accent=theme.PALETTE[0],
        suite=run.plan["suite"],
        headline=headline,
        bars=[_bar(bar) for bar in pictures[0].bars[:BARS]] if pictures else [],
        foot=textwrap.shorten(f"{heading.machine(run)} · {trials}", FOOT, placeholder=" …"),
    )
    return drawn


def _bar(bar: relative.Bar) -> Mapping[str, Any]:
    """In pixels."""
    scale = (WIDTH - 2 * EDGE) / 100
    low, high = (None if part is None else EDGE + part * scale for part in (bar.low, bar.high))
    return {
        "name": _short(bar.name, NAME),
        "figure": bar.figure,
        "said": _short(bar.mark or bar.verdict, SAID),
        "colour": bar.colour,
        "at": None if bar.at is None else bar.at * scale,
        "low": low,
        "high": high,
    }


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
