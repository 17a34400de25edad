"""`dyno show`: a run file as a table, or as JSON, CSV, Markdown or Parquet, on standard output or in a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from dyno import results
from dyno.cli import files
from dyno.cli.console import output
from dyno.model import UsageError
from dyno.report import data, export, text
from dyno.results import Run

ENDINGS = {".json": "json", ".csv": "csv", ".md": "markdown", ".markdown": "markdown", ".parquet": "parquet"}
ROWS = ("json", "csv", "parquet")


@click.command(name="show")
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="JSON, with a stable schema.")
@click.option("--csv", "as_csv", is_flag=True, help="CSV, a line for each cell and phase.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Markdown tables.")
@click.option("--parquet", "as_parquet", is_flag=True, help="Parquet, the columns of the CSV. Wants -o.")
@click.option("--by-phase", is_flag=True, help="Tables by phase, also where the suite has one of its own.")
@click.option("--samples", is_flag=True, help="A row for each sample: of JSON, CSV and Parquet.")
@click.option(
    "-o",
    "--output",
    "path",
    metavar="FILE",
    help="A file to write instead; its ending says the form, where no flag does. -: standard output.",
)
def command(run: Path, samples: bool, by_phase: bool, path: str | None, **flags: bool) -> None:
    """Print the run file RUN, complete or not.

    \b
    dyno show r.json
    dyno show r.json --csv
    dyno show r.json --samples -o samples.parquet
    """
    form = _form([name.removeprefix("as_") for name, given in flags.items() if given], path)
    if samples and form not in ROWS:
        raise UsageError("--samples wants --json, --csv or --parquet")
    if by_phase and form is not None:
        raise UsageError("--by-phase is for the terminal: the other forms have all phases")
    if path is not None:
        files.check(path)
    loaded = results.load(run)
    if form is None:
        text.render(loaded, output(), by_phase)
    elif path is None:
        sys.stdout.write(_content(loaded, form, samples).decode())
    else:
        files.save(path, _content(loaded, form, samples))


def _form(asked: list[str], path: str | None) -> str | None:
    """None for the table on a terminal."""
    if len(asked) > 1:
        raise UsageError("--json, --csv, --markdown and --parquet exclude each other")
    form = asked[0] if asked else None
    if form == "parquet" and (path is None or files.is_output(path)):
        raise UsageError("--parquet wants -o FILE, the file to write: it is not for a terminal or a pipe")
    if path is not None and form is None and not files.is_output(path):
        form = ENDINGS.get(Path(path).suffix.lower())
        if form is None:
            raise UsageError(f"-o {path}: wants a name in .json, .csv, .md or .parquet, or a flag that says the form")
    return form


def _content(run: Run, form: str, samples: bool) -> bytes:
    table = export.samples if samples else export.cells
    if form == "parquet":
        return export.as_parquet(table(run), run)
    if form == "csv":
        return export.as_csv(table(run)).encode()
    if form == "markdown":
        return data.as_markdown(run).encode()
    return (export.as_json(table(run), run) if samples else json.dumps(data.as_data(run), indent=2) + "\n").encode()
