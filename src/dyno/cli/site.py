"""`dyno site`: many run files as a directory of pages, for any web server or none."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from dyno.cli import files
from dyno.cli.console import progress
from dyno.cli.flag_values import NAME, PATH
from dyno.contracts.model import UsageError
from dyno.report.page import card
from dyno.report.site import directory
from dyno.report.site.build import build
from dyno.report.site.find import find


@click.command(name="site")
@click.argument("runs", nargs=-1, required=True, type=PATH, metavar="RUN|DIR...")
@click.option(
    "-o",
    "--output",
    "path",
    type=NAME,
    required=True,
    metavar="DIR",
    help="Where the site goes.",
)
@click.option(
    "--url", default="", metavar="URL", help="Where the site will be: links to its pages then have a picture."
)
def command(runs: tuple[Path, ...], path: str, url: str) -> None:
    """Write a static site over the run files RUN, and those in and below each DIR.

    \b
    dyno site runs/ -o site/
    dyno site before.json after.json -o site/
    """
    if files.is_output(path):
        raise UsageError(f"-o {path}: a site is a directory; name one")
    site, place = Path(path), url and f"{url.rstrip('/')}/"
    if place:
        card.check(place)
    directory.check(site)
    found = find(runs)
    directory.write(site, _told(build(found, lambda why: print(f"passed over: {why}", file=sys.stderr), place)))
    print(site / "index.html")


def _told(made: Iterable[tuple[str, str | bytes]]) -> Iterator[tuple[str, str | bytes]]:
    """Says on a terminal how far it is."""
    with progress().status("Reading the runs") as status:
        for name, content in made:
            status.update(f"Made {name}")
            yield name, content
