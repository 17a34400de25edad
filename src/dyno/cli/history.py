"""`dyno history`: in which of many runs the speed of a row changed."""

from __future__ import annotations

from pathlib import Path

import click

from dyno import results
from dyno.cli.compare import read_margin
from dyno.cli.console import output
from dyno.cli.flag_values import PATH
from dyno.report.tables import comparison, sections
from dyno.stats.history import steps
from dyno.stats.metric import metric
from dyno.stats.verdict import MARGIN


@click.command(name="history")
@click.argument("runs", type=PATH, metavar="RUN...", nargs=-1, required=True)
@click.option("--metric", "by", metavar="NAME", help="throughput, cpu, p50, p99, p999, response-p50 or response-p99.")
@click.option("--margin", metavar="PERCENT", help="Rows whose difference is no larger are equal. Default: 5%.")
def command(runs: tuple[Path, ...], by: str | None, margin: str | None) -> None:
    """Say in which of the run files RUN the speed of a row changed, and by how much.

    \b
    dyno history runs/*.json
    """
    chosen = None if by is None else metric(by)
    loaded = [results.load(path) for path in dict.fromkeys(runs)]
    found = steps(loaded, chosen, MARGIN if margin is None else read_margin(margin))
    console = output()
    sections.render(comparison.history(found), console)
    if found:
        console.print()
    for line in comparison.history_lines(found, len(loaded)):
        console.print(line, soft_wrap=True)
