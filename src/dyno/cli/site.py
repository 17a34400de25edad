"""`dyno site`: many run files as a directory of pages, for any web server or none."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from dyno.cli.console import progress
from dyno.report.site import directory
from dyno.report.site.build import build
from dyno.report.site.find import find


@click.command(name="site")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN|DIR...")
@click.option(
    "-o",
    "--output",
    "path",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where the site goes.",
)
def command(runs: tuple[Path, ...], path: Path) -> None:
    """Write a static site over the run files RUN, and those in and below each DIR.

    \b
    dyno site runs/ -o site/
    dyno site before.json after.json -o site/
    """
    directory.check(path)
    found = find(runs)
    directory.write(path, _told(build(found, lambda why: print(f"passed over: {why}", file=sys.stderr))))
    print(path / "index.html")


def _told(files: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Says on a terminal how far it is."""
    with progress().status("Reading the runs") as status:
        for name, text in files:
            status.update(f"Made {name}")
            yield name, text
