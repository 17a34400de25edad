"""The preview image that services show for a link to a page: the answer and its first bars.

Such services run no program, read no SVG and need absolute addresses. So the image is a PNG in a file next to the
page, and is made only if the page's address is known. Large services show 1,200 by 630 pixels without cropping (The
Open Graph protocol, "Structured Properties").
"""

import re
import textwrap
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import quote, urljoin, urlsplit

from dyno.contracts.model import UsageError
from dyno.report.charts import plot, vega
from dyno.report.page import parts, relative
from dyno.report.tables import notes, wording
from dyno.report.tables.overview import called
from dyno.results import Run

WIDTH, HEIGHT, EDGE = 1200, 630, 60
HEADLINE_LINES, HEADLINE_LETTERS = 3, 50
NAME, REMARK, FOOT = 40, 44, 100
"""Maximum lengths of texts, in characters."""
TOP, LINE = 128, 50
"""Position of the headline's first line, and the height of a line."""
BARS, STEP = 4, 62


@dataclass(frozen=True)
class Link:
    """Web addresses of a page and of its preview image."""

    page: str
    image: str
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def file(self) -> str:
        """The image's file name, as in its address."""
        return PurePosixPath(urlsplit(self.image).path).name


def check(url: str) -> None:
    """Raises UsageError unless `url` is an address for a page."""
    try:
        address = urlsplit(url)
        valid = url.lower().startswith(("https://", "http://")) and bool(address.hostname)
    except ValueError:
        valid = False
    if not valid or address.query or address.fragment or address.username is not None:
        raise UsageError(f"--url {url}: expected the page's future address, as https://example.org/bench/")


def link(url: str, page: str) -> Link:
    """Returns the addresses of `page`, a path, and of its image. If `url` ends in a slash, the page is below it; else
    `url` is the page's address. Raises UsageError."""
    check(url)
    target = urljoin(url, quote(page)) if url.endswith("/") else url
    return Link(target, urljoin(target, quote(PurePosixPath(page).with_suffix(".png").name)))


def png(run: Run) -> bytes:
    """Returns the image. Raises UsageError if a library is missing."""
    return plot.png(svg(run), 1.0)


def svg(run: Run) -> str:
    names = called(run)
    answers = wording.answers(run, names)
    answer = answers[0].partition(". ")[0] if answers else "No engine has a valid figure: there is no answer"
    # The figures are removed, because the bars show them.
    plain = re.sub(rf" \([^()]*{wording.SURE}[^()]*\)", "", answer).rstrip(".")
    headline = textwrap.wrap(plain, HEADLINE_LETTERS, max_lines=HEADLINE_LINES, placeholder=" …")
    bars, scale = [], (WIDTH - 2 * EDGE) / 100
    for bar in [bar for picture in relative.pictures(run, names)[:1] for bar in picture.bars[:BARS]]:
        # Lengths are in pixels.
        shown = {
            "name": _cut(bar.name, NAME),
            "figure": bar.figure,
            "said": _cut(bar.mark or bar.verdict, REMARK),
            "colour": bar.colour,
            "at": None if bar.at is None else bar.at * scale,
            "low": None if bar.low is None else EDGE + bar.low * scale,
            "high": None if bar.high is None else EDGE + bar.high * scale,
        }
        bars.append(shown)
    trials = notes.trials(run).partition(";")[0]
    drawn: str = parts.template("card.svg").render(
        width=WIDTH,
        height=HEIGHT,
        edge=EDGE,
        top=TOP,
        line=LINE,
        step=STEP,
        first=TOP + LINE * len(headline) + 10,
        font=vega.FONT,
        ground=vega.LIGHT,
        accent=vega.PALETTE[0],
        suite=run.plan["suite"],
        headline=headline,
        bars=bars,
        foot=textwrap.shorten(f"{notes.machine(run)} · {trials}", FOOT, placeholder=" …"),
    )
    return drawn


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
