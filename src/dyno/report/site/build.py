"""Puts a site together: pages with their style, program and data in them, and the charting library once for all."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Any

from dyno import results
from dyno.contracts.model import UsageError
from dyno.report.charts import theme
from dyno.report.export.json_stream import compact
from dyno.report.page import build as page
from dyno.report.page import card, downloads, parts
from dyno.report.site import chart
from dyno.report.site.catalogue import Entry, entry
from dyno.report.site.data import Collection
from dyno.report.site.find import Found, Names
from dyno.report.tables import units
from dyno.results import Run

LIBRARY = "library.js"
# By page: what its program is made of, after what all have. In the order of their use.
COMMON = ("base", "theme")
PROGRAMS = {
    "index": ("list",),
    "compare": ("runs", "compare"),
    "history": ("runs", "history"),
}
LARGE = 10 << 20
"""Bytes of a run file."""
File = tuple[str, "str | bytes"]
"""A path in the site, and what it holds."""
TITLES = {"index": "Runs", "compare": "Compare", "history": "History"}


def build(found: Sequence[Found], passed_over: Callable[[str], None], url: str = "") -> Iterator[File]:
    """Every file of the site. `url`: where the site will be; each run's page then has a picture for links to it.
    `passed_over` is told of each damaged run file that is in none of it. Raises UsageError where a library is missing
    or a file that was named can't be read."""
    yield LIBRARY, parts.library()
    collection, entries, names = Collection(), list[Entry](), Names()
    for file in found:
        try:
            made, pages = _taken(results.load(file.path), names.take(file.path), url, collection)
        except UsageError as error:
            if file.named:
                raise
            with suppress(OSError):
                if results.is_run_file(file.path):
                    passed_over(str(error))
            continue
        entries.append(made)
        yield from pages
        # A page that was rendered refers to itself and holds its run, beside which the next may have no room. To look
        # for such takes some time, of hundreds of small runs too much.
        if file.path.stat().st_size > LARGE:
            gc.collect()
    if not entries:
        raise UsageError("none of the files is a run file of dyno")
    entries.sort(key=lambda made: made.created, reverse=True)
    yield "compare.html", _page("compare", entries, collection.compare())
    charts = {
        "config": {name: theme.config(dark=name == "dark") for name in ("light", "dark")},
        "specs": chart.specs(collection.units(), _choices(entries)["machine"]),
    }
    yield "history.html", _page("history", entries, {**collection.history(), **charts})
    yield "index.html", _page("index", entries)


def _taken(run: Run, name: str, url: str, collection: Collection) -> tuple[Entry, list[File]]:
    """What the list says of a run, and its files."""
    made = entry(run, name)
    link = card.link(url, made.page) if url else None
    pages: list[File] = [(made.page, page.build([run], page.Site(f"../{LIBRARY}", "../index.html"), link))]
    if link:
        pages.append((f"{PurePosixPath(made.page).parent}/{link.file}", card.png(run)))
    collection.add(run, made)
    return made, pages


def _page(name: str, entries: Sequence[Entry], data: dict[str, Any] | None = None) -> str:
    program = parts.program(*(_text(f"{part}.js") for part in (*COMMON, *PROGRAMS[name])))
    style = _text("page.css") + _text("site.css")
    # Vega writes styles into what it draws, and is a file of its own.
    vega = name == "history"
    text: str = parts.template(f"{name}.html", _text).render(
        name=name,
        titles=TITLES,
        entries=entries,
        choices=_choices(entries),
        style=style,
        program=program,
        script_src=parts.allowed(program) + (f" {parts.BESIDE}" if vega else ""),
        style_src="'unsafe-inline'" if vega else parts.allowed(style),
        library=LIBRARY if vega else None,
        data=None if data is None else downloads.pack(compact({**data, "unknown": units.UNKNOWN})),
    )
    return text


def _choices(entries: Sequence[Entry]) -> dict[str, list[str]]:
    """What the list can be filtered by."""
    return {
        "suite": sorted({made.suite for made in entries}),
        "engine": sorted({engine for made in entries for engine in made.engines}),
        "machine": sorted({made.machine for made in entries}),
    }


def _text(name: str) -> str:
    """Of the site, or of the page of one run, whose looks and parts it shares."""
    ours = files(__package__) / name
    return (ours if ours.is_file() else files(parts.__package__) / name).read_text(encoding="utf-8")
