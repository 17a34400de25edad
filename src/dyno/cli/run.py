"""`dyno run`: a suite or a plan file, from flags to a run file and its table."""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from dyno import results
from dyno.cli import completion, files
from dyno.cli.console import output, tell
from dyno.cli.flag_values import NAME, PATH
from dyno.cli.progress import observer
from dyno.cli.run_flags import request, run_flags
from dyno.cli.show import PRICES
from dyno.contracts.model import UsageError
from dyno.host.directories import trouble
from dyno.options import MOST_SAMPLES
from dyno.report.about import plan_preview
from dyno.report.tables import cost_table, sections, text
from dyno.report.tables.table import groups
from dyno.results import FLOOR_BLOCKS, Run, beside
from dyno.runner import parent, plan, work_directory
from dyno.runner.plan import Plan, unpaced
from dyno.runner.strategy import StopRule, forecast_time
from dyno.stats.costs import costs, read_prices
from dyno.stats.summary import absences, unsure_floors, widest
from dyno.text.passwords import mask_argument

FAILED, NOTHING = 1, 3
PASSWORD_SHOWN = (
    "dyno: warning: other users can read the password on this command line (ps): use url=env:NAME or url=file:PATH"
)


@click.command(name="run")
@click.argument("what", metavar="SUITE|PLAN.toml", shell_complete=completion.SUITE)
@run_flags("engines")
@click.option(
    "--on",
    metavar="ADDRESS",
    help="Run them on your own server or cluster: tcp://scheduler:8786, spark://host:7077; or env:NAME, file:PATH.",
)
@run_flags(but=["engines"])
@click.option("-o", "--output", "path", type=NAME, metavar="RUN", help="The run file.")
@click.option("--resume", is_flag=True, help="Continue the run file where it was interrupted.")
@click.option("--overwrite", is_flag=True, help="Replace the run file.")
@click.option(
    "--blocks",
    "most",
    type=click.IntRange(1, MOST_SAMPLES),
    metavar="N",
    help="Stop after so many blocks; --resume does the rest. To measure two versions in turns.",
)
@click.option(
    "--all", "whole", is_flag=True, help="Print every table afterwards, with intervals, latencies and doubts."
)
@click.option("--prices", "table", type=PATH, metavar="FILE", help=PRICES)
@click.option("--dry-run", "dry", is_flag=True, help="Print the plan and how long it measures, and run nothing.")
@click.option("--work", "root", type=PATH, metavar="DIR", help="Where the engines' data live.")
def command(
    what: str,
    path: str | None,
    resume: bool,
    overwrite: bool,
    most: int | None,
    dry: bool,
    whole: bool,
    root: Path | None,
    table: Path | None,
    on: str | None,
    **given: Any,
) -> int:
    """Measure engines doing the work of SUITE, or what a plan file says.

    \b
    dyno run records
    dyno run records -e lmdb,sqlite:journal_mode=delete --tier power --samples 5 -o r.json
    dyno run records -e sqlite -p txn=1,100,all
    """
    made, found = plan.make(request(what, given, on)), None if table is None else read_prices(table)
    if any(mask_argument(word) != word for word in (*given["engines"], on or "")):
        print(PASSWORD_SHOWN, file=sys.stderr)
    if dry:
        plan_preview.render(made.suite, made.phases, made.cells, _sentence(made), output())
        return 0
    run = carry_out(made, path, root, resume, overwrite, most)
    text.render(run, output(), whole=whole)
    if found is not None:
        sections.render([cost_table.section([(run, "", costs(run, found))], found)], output())
    return status(run)


def _sentence(made: Plan) -> str:
    trials, seconds = forecast_time(made)
    fewer = made.samples > FLOOR_BLOCKS and any(beside(made.cells, cell) for cell in made.cells)
    said = plan_preview.told(trials, made.samples, len(made.phases), seconds, FLOOR_BLOCKS if fewer else None)
    if made.until is not None and made.within is not None:
        said += (
            f"; further blocks follow until each interval is narrow, for {plan_preview.clock(made.within)} at most"
        )
    return f"{said}\n{lost}" if (lost := unpaced(made)) else said


def carry_out(
    made: Plan, path: str | None, root: Path | None, resume: bool, overwrite: bool, most: int | None = None
) -> Run:
    """Executes the plan with a progress display, and says where the run file is. Raises UsageError."""
    if resume and overwrite:
        raise UsageError("--resume and --overwrite exclude each other")
    if resume and path is None:
        raise UsageError("--resume needs -o RUN, the file to continue")
    if sys.stderr.isatty():
        tell(_sentence(made))
    elif lost := unpaced(made):
        # Not progress, but something asked for that will not be done.
        tell(lost)
    file = files.run_file(path or f"{made.suite}-{datetime.now():%Y%m%d-%H%M%S}.json")
    try:
        with observer() as watching:
            judge, home = StopRule(widest, unsure_floors), root or work_directory.default_root()
            run = parent.execute(made, file, home, watching, resume, overwrite, judge, most)
    except KeyboardInterrupt:
        if kept := _kept(file):
            print(kept, file=sys.stderr)
        raise
    except results.RunFileLost as error:
        print(f"dyno: the run stopped: {trouble(error)}; what it measured is not kept there", file=sys.stderr)
        raise click.exceptions.Exit(FAILED) from None
    except OSError as error:
        if kept := _kept(file):
            print(f"dyno: the run stopped: {trouble(error)}; {kept}", file=sys.stderr)
            raise click.exceptions.Exit(FAILED) from None
        raise UsageError(f"{trouble(error)}; nothing was measured") from None
    if made.until is not None and run.ending == "time":
        print(f"The time was up: {widest(run, made.until) or 'every interval is narrow enough'}", file=sys.stderr)
    print(f"Written to {file}", file=sys.stderr)
    return run


def _kept(file: Path) -> str | None:
    """What there is of a run that was stopped; None where no trial has ended."""
    with suppress(UsageError):
        ended, planned = results.load(file).progress
        if ended:
            return (
                f"{ended} of {planned} trials are kept in {file}; the same command with -o {file} --resume goes on"
                " from there"
            )
    return None


def status(run: Run) -> int:
    """The exit status that the run deserves."""
    rows = [row.summary for group in groups(run) for row in group.rows if not row.summary.cell.floor]
    valid = [row for row in rows if row.valid]
    if not valid and (rows or absences(run)):
        return NOTHING
    return 0 if len(valid) == len(rows) else FAILED
