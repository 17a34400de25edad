"""`dyno show`: a run file as a table, or as JSON, CSV, Markdown or Parquet, on standard output or in a file."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from dyno import results
from dyno.cli import files
from dyno.cli.console import output
from dyno.cli.flag_values import NAME, PATH
from dyno.contracts.model import UsageError
from dyno.report.export import data_tables, documents
from dyno.report.tables import cost_table, notes, sections, text
from dyno.results import Run
from dyno.stats.costs import Prices, costs, read_prices

ENDINGS = {".json": "json", ".csv": "csv", ".md": "markdown", ".markdown": "markdown", ".parquet": "parquet"}
ROWS = ("json", "csv", "parquet")
PRICES = "What the rows cost, by a table of prices of yours (TOML)."


@click.command(name="show")
@click.argument("run", type=PATH, metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="JSON, with a stable schema.")
@click.option("--csv", "as_csv", is_flag=True, help="CSV, a line for each cell and phase.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Markdown tables.")
@click.option("--parquet", "as_parquet", is_flag=True, help="Parquet, the columns of the CSV. Wants -o.")
@click.option("--all", "whole", is_flag=True, help="Every table, with intervals, latencies and doubts.")
@click.option("--by-phase", is_flag=True, help="Tables by phase, also where the suite has one of its own.")
@click.option(
    "--failures",
    "failures",
    is_flag=True,
    help="Failed attempts and operations: why, and what they printed last.",
)
@click.option("--samples", is_flag=True, help="A row for each sample: of JSON, CSV and Parquet.")
@click.option("--prices", "table", type=PATH, metavar="FILE", help=PRICES)
@click.option(
    "-o",
    "--output",
    "path",
    type=NAME,
    metavar="FILE",
    help="A file to write instead; its ending says the form, where no flag does. -: standard output.",
)
def command(
    run: Path,
    samples: bool,
    whole: bool,
    by_phase: bool,
    failures: bool,
    table: Path | None,
    path: str | None,
    **flags: bool,
) -> None:
    """Print the run file RUN, complete or not.

    \b
    dyno show r.json
    dyno show r.json --csv
    dyno show r.json --samples -o samples.parquet
    dyno show r.json --prices prices.toml
    """
    form = _form([name.removeprefix("as_") for name, given in flags.items() if given], path)
    if samples and form not in ROWS:
        raise UsageError("--samples wants --json, --csv or --parquet")
    for flag, given in (("--by-phase", by_phase), ("--all", whole), ("--failures", failures)):
        if given and form is not None:
            raise UsageError(f"{flag} is for the terminal: the other forms have all phases")
    if table is not None and (form not in (None, "json") or samples):
        raise UsageError("--prices is for the terminal and for --json by cells")
    found = None if table is None else read_prices(table)
    if path is not None:
        files.check(path)
    loaded = results.load(run)
    if failures:
        sections.render(notes.failed_attempts(loaded), output())
    elif form is None:
        charged = None if found is None else costs(loaded, found)
        text.render(loaded, output(), by_phase, whole)
        if found is not None and charged is not None:
            sections.render([cost_table.section([(loaded, "", charged)], found)], output())
    elif path is None:
        for piece in _pieces(loaded, form, samples, found):
            sys.stdout.write(piece)
    elif form == "parquet":
        files.save(
            path, data_tables.as_parquet((data_tables.samples if samples else data_tables.cells)(loaded), loaded)
        )
    else:
        files.save(path, "".join(_pieces(loaded, form, samples, found)).encode())


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


def _pieces(run: Run, form: str, samples: bool, found: Prices | None) -> Iterable[str]:
    if form == "markdown":
        return [documents.as_markdown(run)]
    if form == "csv":
        return [data_tables.as_csv((data_tables.samples if samples else data_tables.cells)(run))]
    return data_tables.as_json(data_tables.samples(run), run) if samples else documents.as_json(run, found)
