"""`dyno export`: a run in the format of another tool, on standard output or in a file."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from dyno import results
from dyno.cli import files
from dyno.cli.flag_values import NAME, PATH
from dyno.contracts.model import UsageError
from dyno.contracts.settings import unknown
from dyno.report.formats import FORMATS


@click.command(name="export")
@click.argument("run", type=PATH, metavar="RUN")
@click.option("--format", "form", required=True, metavar="NAME", help=f"One of: {', '.join(FORMATS)}.")
@click.option(
    "-o", "--output", "path", type=NAME, metavar="FILE", help="A file to write instead. -: standard output."
)
def command(run: Path, form: str, path: str | None) -> None:
    """Write the run file RUN in the format of another tool.

    \b
    dyno export r.json --format junit -o junit.xml
    dyno export r.json --format bmf
    """
    if form not in FORMATS:
        raise UsageError(unknown("format", form, FORMATS))
    if path is not None:
        files.check(path)
    made = FORMATS[form].text(results.load(run))
    if path is None:
        sys.stdout.write(made)
    else:
        files.save(path, made.encode())
