"""`dyno show` and `dyno export`: a run file as tables, JSON, CSV, Markdown, Parquet, or another tool's format."""

import sys
from pathlib import Path

import click

from dyno import results
from dyno.cli import files
from dyno.cli.console import output
from dyno.cli.flag_values import PATH, output_option
from dyno.contracts.model import UsageError
from dyno.contracts.settings import unknown_name_message
from dyno.report import export
from dyno.report.formats import FORMATS
from dyno.report.tables import notes, sections, side_by_side, text
from dyno.results import Run
from dyno.stats.costs import Prices, costs, read_prices

ENDINGS = {".json": "json", ".csv": "csv", ".md": "markdown", ".markdown": "markdown", ".parquet": "parquet"}
PRICES = "Also print what the rows cost, by a table of your prices (TOML)."


@click.command(name="show")
@click.argument("run", type=PATH, metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with a stable schema.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, a line for each cell and phase.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown tables.")
@click.option("--parquet", "as_parquet", is_flag=True, help="Write Parquet with the columns of the CSV; needs -o.")
@click.option("--all", "whole", is_flag=True, help="Print every table: intervals, latencies and doubts.")
@click.option("--by-phase", is_flag=True, help="Print tables by phase even if the suite has its own table.")
@click.option("--failures", is_flag=True, help="Print failed attempts and operations, with reasons and last output.")
@click.option("--samples", is_flag=True, help="Print a row for each sample (JSON, CSV and Parquet).")
@click.option("--prices", "table", type=PATH, metavar="FILE", help=PRICES)
@output_option("File to write, in the format of its ending unless a flag names one. -: standard output.")
def show_command(run: Path, samples: bool, table: Path | None, path: str | None, **flags: bool) -> None:
    """Print the run file RUN, complete or not.

    \b
    dyno show r.json
    dyno show r.json --csv
    dyno show r.json --samples -o samples.parquet
    dyno show r.json --prices prices.toml
    """
    form = _format([name.removeprefix("as_") for name, given in flags.items() if given and "as_" in name], path)
    if samples and form not in ("json", "csv", "parquet"):
        raise UsageError("--samples needs --json, --csv or --parquet")
    for name, flag in {"by_phase": "--by-phase", "whole": "--all", "failures": "--failures"}.items():
        if flags[name] and form is not None:
            raise UsageError(f"{flag} is for the terminal: the other formats have all phases")
    if table is not None and (form not in (None, "json") or samples):
        raise UsageError("--prices is for the terminal and for --json without --samples")
    prices = None if table is None else read_prices(table)
    if path is not None:
        files.check(path)
    loaded = results.load(run)
    if flags["failures"]:
        sections.render(notes.failed_attempts(loaded), output())
    elif form is None:
        if prices is None:
            charges = None
        else:
            charges = costs(loaded, prices)
        text.render(loaded, output(), flags["by_phase"], flags["whole"])
        if prices is not None and charges is not None:
            sections.render([side_by_side.by_cost([(loaded, "", charges)], prices)], output())
    elif path is None:
        sys.stdout.write(_text(loaded, form, samples, prices))
    elif form == "parquet":
        if samples:
            rows = export.samples(loaded)
        else:
            rows = export.cells(loaded)
        files.save(path, export.as_parquet(rows, loaded))
    else:
        files.save(path, _text(loaded, form, samples, prices).encode())


def _format(flags: list[str], path: str | None) -> str | None:
    """The format by flag or file name; None for tables on the terminal. Raises UsageError."""
    if len(flags) > 1:
        raise UsageError("--json, --csv, --markdown and --parquet exclude each other")
    form = flags[0] if flags else None
    to_file = path is not None and not files.is_output(path)
    if form == "parquet" and not to_file:
        raise UsageError("--parquet needs -o FILE: it is not for a terminal or a pipe")
    if form is None and to_file:
        form = ENDINGS.get(Path(path or "").suffix.lower())
        if form is None:
            raise UsageError(f"-o {path}: expected a name in .json, .csv, .md or .parquet, or a flag for the format")
    return form


def _text(run: Run, form: str, samples: bool, prices: Prices | None) -> str:
    if form == "markdown":
        return text.as_markdown(run)
    if form == "csv":
        return export.as_csv((export.samples if samples else export.cells)(run))
    if samples:
        return export.table_json(export.samples(run), run)
    return export.as_json(run, prices)


@click.command(name="export")
@click.argument("run", type=PATH, metavar="RUN")
@click.option("--format", "form", required=True, metavar="NAME", help=f"One of: {', '.join(FORMATS)}.")
@output_option("File to write. Default, and -: standard output.")
def export_command(run: Path, form: str, path: str | None) -> None:
    """Write the run file RUN in the format of another tool.

    \b
    dyno export r.json --format junit -o junit.xml
    dyno export r.json --format bmf
    """
    if form not in FORMATS:
        raise UsageError(unknown_name_message("format", form, FORMATS))
    if path is not None:
        files.check(path)
    exported = FORMATS[form](results.load(run))
    if path is None:
        sys.stdout.write(exported)
    else:
        files.save(path, exported.encode())
