"""`dyno report`: run files as one HTML page that works by itself."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path

import click

from dyno import results
from dyno.cli import files
from dyno.cli.console import output
from dyno.cli.flag_values import NAME, PATH
from dyno.cli.show import PRICES
from dyno.contracts.model import UsageError
from dyno.report.page import card
from dyno.report.page.build import OPENING, build
from dyno.report.page.downloads import MOST_BYTES
from dyno.report.tables import by_location, sections
from dyno.stats.costs import read_prices

HEAD = 4_000
"""Bytes of a page in which its picture is named."""
_PRINTED = "to print it, open it in a browser"
_DRAWN = "for a picture, see `dyno plot`"
_DATA = "for the figures, see `dyno show`"
OTHERS = {
    ".pdf": _PRINTED,
    **dict.fromkeys((".png", ".svg", ".jpg", ".jpeg"), _DRAWN),
    **dict.fromkeys((".csv", ".md", ".json", ".txt", ".tsv", ".xlsx"), _DATA),
}


@click.command(name="report")
@click.argument("runs", nargs=-1, required=True, type=PATH, metavar="RUN...")
@click.option("-o", "--output", "path", type=NAME, metavar="FILE.html", help="The page. -: standard output.")
@click.option("--overwrite", is_flag=True, help="Replace FILE.html, whatever it is. A report is replaced anyway.")
@click.option("--open", "show", is_flag=True, help="Open the page in the browser.")
@click.option(
    "--url", metavar="URL", help="Where the page will be: links to it then have a picture, a .png beside FILE.html."
)
@click.option("--prices", "table", type=PATH, metavar="FILE", help=PRICES)
@click.option(
    "--by",
    type=click.Choice(["place"]),
    help="No page: a table of where from, where to, part by part. A place is called as its run file is.",
)
def command(
    runs: tuple[Path, ...],
    path: str | None,
    overwrite: bool,
    show: bool,
    url: str | None,
    table: Path | None,
    by: str | None,
) -> None:
    """Write one self-contained HTML page of the run files RUN.

    \b
    dyno report r.json
    dyno report before.json after.json -o both.html
    dyno report paris.json tokyo.json --by place
    """
    if by is not None:
        if path is not None or show or url or table:
            raise UsageError("--by prints a table, and no page: leave -o, --open, --url and --prices out")
        tables = by_location.sections([results.load(run) for run in runs])
        sections.render(tables, output(), aligned=False, blank_first=False)
        return
    page = path or str(runs[0].with_suffix(".html"))
    if show and files.is_output(page):
        raise UsageError("--open wants a file: leave -o - out")
    if url and files.is_output(page):
        raise UsageError("--url puts a picture beside the page: -o names a file")
    _may_write(page, path is not None, overwrite)
    _is_page(page)
    link, picture = card.link(url, Path(page).name) if url else None, str(Path(page).with_suffix(".png"))
    if link:
        _may_draw(picture, page, link, overwrite)
    found = None if table is None else read_prices(table)
    loaded = [results.load(run) for run in runs]
    content = build(loaded, link=link, prices=found).encode()
    if link:
        files.save(picture, card.png(loaded[0]))
    files.save(page, content)
    if len(content) > MOST_BYTES:
        print(f"{page} has {len(content) / 1e6:.1f} MB: the results alone are that large", file=sys.stderr)
    for run in loaded:
        if not run.complete:
            print(f"{run.path} is not complete; the page says so", file=sys.stderr)
    if show and not webbrowser.open(Path(page).absolute().as_uri()):
        print("no browser was found to open it", file=sys.stderr)


def _is_page(page: str) -> None:
    """Raises UsageError for a name that promises something else than a page."""
    if (suffix := Path(page).suffix.lower()) in OTHERS:
        raise UsageError(f"{page}: a report is one HTML page, not {suffix}: name a .html; {OTHERS[suffix]}")


def _may_draw(picture: str, page: str, link: card.Link, overwrite: bool) -> None:
    """Raises UsageError where another picture than the page's would be replaced."""
    if Path(picture).is_symlink():
        # Its name follows from the page's: nobody asked to write to what it leads to.
        raise UsageError(f"{picture} is a link, which is not followed: remove it, or name another page with -o")
    named = f'/{link.file}"'.encode()
    if not overwrite and Path(picture).exists() and named not in (files.opening(page, HEAD) or b""):
        raise UsageError(
            f"{picture} exists and is not the picture of {page}: --overwrite replaces it, -o names another"
        )
    files.check(picture)


def _may_write(page: str, named: bool, overwrite: bool) -> None:
    """Raises UsageError where something else than a report would be replaced. `named`: whether the user named the
    page; if not, a link is not followed."""
    if not named and Path(page).is_symlink():
        raise UsageError(f"{page} is a link: -o {page} replaces what it leads to, another name leaves it alone")
    if not overwrite and files.opening(page, len(OPENING)) not in (None, OPENING.encode()):
        raise UsageError(f"{page} exists and is no report: --overwrite replaces it, -o names another")
    files.check(page)
