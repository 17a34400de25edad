"""Pictures of relative speeds. Next to the answer, they show every engine as a multiple of the fastest. Below the
overview, a small picture shows each phase of the first place. They are drawn when the page is built, so that they are
visible before any program runs. Lengths are percentages of the width, which suits phones and large screens. Texts
belong to the page and are never cut.

The preview image of a link to the page shows the answer and its first bars. Services that show it run no program,
read no SVG and need absolute addresses. So the image is a PNG in a file next to the page, and is made only if the
page's address is known. Large services show 1,200 by 630 pixels without cropping (The Open Graph protocol,
"Structured Properties").
"""

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from urllib.parse import quote, urljoin, urlsplit

from dyno.contracts.model import UsageError
from dyno.report.charts import plot, vega
from dyno.report.page import parts
from dyno.report.tables import display, notes, units, wording
from dyno.report.tables.overview import Overview, Place, Ranking, phase_aliases
from dyno.report.tables.table import varying_params
from dyno.results import Run
from dyno.stats.verdict import Verdict

BEYOND = 1.12
"""End of the axis as a multiple of the largest point. Longer intervals are cut, because they would squash the
others."""
PHASE_SCALE = 100 / BEYOND
"""Length of the fastest engine's bar in the pictures of phases, in percent."""
READS = (
    "Speed as a multiple of the fastest's, block by block. Lines and brackets:"
    f" {wording.LEVEL} intervals; an arrow marks one that goes on."
)
PHASES_READ = (
    "Each phase by itself: speeds as shares of the fastest's, which is the dotted line, with"
    f" {wording.LEVEL} intervals; figures as in the table above."
)


@dataclass(frozen=True)
class Bar:
    """The bar of one engine."""

    name: str
    colour: str
    mark: str
    """'fastest', 'equally fast', "can't tell", or empty."""
    figure: str
    """Figure with its interval, if there is one."""
    verdict: str
    at: float | None
    low: float | None = None
    high: float | None = None
    cut: bool = False
    """Whether the interval is cut at the end of the axis."""


@dataclass(frozen=True)
class Picture:
    """A picture of one answer (one tier, combination of parameters and temperature), or of one phase."""

    title: str
    bars: tuple[Bar, ...]
    one: float
    """Length of the fastest engine's bar, in percent."""
    rest: str = ""
    """Sentence about engines that are left out."""
    unit: str = ""
    """Unit of a phase's figures; empty in the picture of an answer."""


def pictures(run: Run, names: Mapping[str, str] | None = None) -> list[Picture]:
    """Returns the pictures of the first answers that compare engines."""
    changing = varying_params(run)
    colours = _colours(run)
    pictures = []
    answers = [answer for answer in wording.rename_phases(run, names) if answer.others]
    for answer in answers[: display.PICTURES]:
        others, rest = display.take_first(answer.others, display.BARS - 1, "others", "the overview has more")
        scale = 100 / (max([1.0, *(verdict.ratio for _, verdict in others if verdict.ratio is not None)]) * BEYOND)
        marks, best = wording.name_leaders(answer), answer.best.label
        text = "the best figures"
        if marks:
            text = ""
        bars = [Bar(best, colours[best], marks.get(best, ""), units.ratio(1), text, scale)]
        for cell, verdict in others:
            if verdict.low is None:
                interval = ""
            else:
                interval = f" [{wording.interval(verdict)}]"
            figure, mark = wording.point(verdict) + interval, marks.get(cell.label, "")
            bar = Bar(cell.label, colours[cell.label], mark, figure, wording.verdict(verdict), None)
            bars.append(_add_lengths(bar, verdict, scale))
        pictures.append(Picture(wording.place(answer, changing), tuple(bars), scale, rest))
    return pictures


def _colours(run: Run) -> dict[str, str]:
    scale = vega.scale(notes.engines(run), "color")
    return dict(zip(scale["domain"], scale["range"], strict=True))


def _add_lengths(bar: Bar, verdict: Verdict | None, scale: float) -> Bar:
    """Returns the bar, with its lengths if the verdict has an interval. `scale`: length of the fastest engine's
    bar."""
    if verdict is None or verdict.ratio is None or verdict.low is None or verdict.high is None:
        return bar
    at, low, high = (min(part * scale, 100.0) for part in (verdict.ratio, verdict.low, verdict.high))
    return replace(bar, at=at, low=low, high=high, cut=verdict.high * scale > 100)


def phases(run: Run, views: Sequence[Overview], ranked: Mapping[Place, Ranking]) -> tuple[list[Picture], str]:
    """Returns the pictures of the first place's phases, and a sentence about phases and engines that are left out.
    Empty if fewer than two phases compare engines, because the picture next to the answer shows a single phase."""
    if not views:
        return [], ""
    colours = _colours(run)
    engines, rest = display.take_first(views[0].engines, display.BARS, "engines", "the table has more")
    lines, more = display.take_first(views[0].lines, display.PANELS, "phases", "the table has more")
    pictures = []
    for line in lines:
        bars, ranking = [], ranked.get(line.at)
        for name, figure in zip(engines, line.figures, strict=False):
            if figure is None:
                continue
            text = figure.value + ("?" if figure.doubts and figure.valid else "")
            if figure.valid and ranking is not None and name == ranking.best:
                bars.append(Bar(name, colours[name], figure.standing, text, "", PHASE_SCALE))
                continue
            if figure.valid and ranking is not None:
                seen = ranking.seen.get(name)
            else:
                seen = None
            bar = Bar(name, colours[name], "", text, figure.verdict, None)
            bars.append(_add_lengths(bar, seen.verdict if seen else None, PHASE_SCALE))
        if sum(bar.at is not None for bar in bars) > 1:
            pictures.append(Picture(line.phase, tuple(bars), PHASE_SCALE, unit=line.unit))
    if len(pictures) > 1:
        return (pictures, f"{rest} {more}".strip())
    return ([], "")


# -- preview image ------------------------------------------------------------------------------------------

WIDTH = 1200
HEIGHT = 630
EDGE = 60
HEADLINE_LINES, HEADLINE_LETTERS = 3, 50
NAME = 40
REMARK = 44
FOOT = 100
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


def check_url(url: str) -> None:
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
    check_url(url)
    if url.endswith("/"):
        target = urljoin(url, quote(page))
    else:
        target = url
    return Link(target, urljoin(target, quote(PurePosixPath(page).with_suffix(".png").name)))


def preview(run: Run) -> bytes:
    """Returns the image. Raises UsageError if a library is missing."""
    return plot.png(svg(run), 1.0)


def svg(run: Run) -> str:
    names = phase_aliases(run)
    answers = wording.answers(run, names)
    if answers:
        answer = answers[0].partition(". ")[0]
    else:
        answer = "No engine has a valid figure: there is no answer"
    # The figures are removed, because the bars show them.
    plain = re.sub(rf" \([^()]*{wording.SURE}[^()]*\)", "", answer).rstrip(".")
    headline = textwrap.wrap(plain, HEADLINE_LETTERS, max_lines=HEADLINE_LINES, placeholder=" …")
    bars, scale = [], (WIDTH - 2 * EDGE) / 100
    for bar in [bar for picture in pictures(run, names)[:1] for bar in picture.bars[:BARS]]:
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
        suite=run.plan.suite,
        headline=headline,
        bars=bars,
        foot=textwrap.shorten(f"{notes.machine(run)} · {trials}", FOOT, placeholder=" …"),
    )
    return drawn


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[: most - 1]}…"
