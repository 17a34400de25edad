"""`dyno show`: a run file as a table, or as JSON, CSV or Markdown."""

from __future__ import annotations

import json
from pathlib import Path

import click

from dyno import results
from dyno.cli.console import output
from dyno.model import UsageError
from dyno.report import data, text


@click.command(name="show")
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="JSON, with a stable schema.")
@click.option("--csv", "as_csv", is_flag=True, help="CSV, a line for each cell and phase.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Markdown tables.")
def command(run: Path, as_json: bool, as_csv: bool, as_markdown: bool) -> None:
    """Print the run file RUN, complete or not."""
    if as_json + as_csv + as_markdown > 1:
        raise UsageError("--json, --csv and --markdown exclude each other")
    loaded = results.load(run)
    if as_json:
        print(json.dumps(data.as_data(loaded), indent=2))
    elif as_csv:
        print(data.as_csv(loaded), end="")
    elif as_markdown:
        print(data.as_markdown(loaded), end="")
    else:
        text.render(loaded, output())
