"""`dyno extrapolate`: how times grow with a parameter, and what they would be at values that were not measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from dyno import results
from dyno.cli.console import output
from dyno.cli.flag_values import PATH
from dyno.contracts.model import UsageError
from dyno.contracts.settings import unknown
from dyno.report.tables import growth as report
from dyno.report.tables import sections
from dyno.results import Run
from dyno.stats import growth
from dyno.stats.sweep import swept


@click.command(name="extrapolate")
@click.argument("path", type=PATH, metavar="RUN")
@click.option("--to", "wanted", metavar="PARAM=V[,V...]", help="The parameter, and values that were not measured.")
@click.option("--hold-out", "held", metavar="V[,V...]", help="Values that are not fitted, but held against the fit.")
@click.option("--json", "as_json", is_flag=True, help="JSON, with a stable schema.")
def command(path: Path, wanted: str | None, held: str | None, as_json: bool) -> None:
    """Say how the times in RUN grow with a parameter, and what they would be at other values.

    \b
    dyno extrapolate r.json --to half_hours=336,1440
    dyno extrapolate r.json --to half_hours=1440 --hold-out 32
    """
    run = results.load(path)
    name, _, values = (wanted or "").partition("=")
    parameter = _parameter(run, name)
    to = {value: f"{value:g}" for value in _numbers("--to", values)}
    found = growth.growths(run, parameter, _numbers("--hold-out", held or ""))
    if not found:
        raise UsageError(f"{path}: no engine has several values of {parameter} in a phase that was done whole")
    if as_json:
        print(json.dumps(report.data(found, parameter, to), indent=2))
    else:
        sections.render(report.sections(found, parameter, to), output())


def _parameter(run: Run, name: str) -> str:
    """The one that was asked for, or the only one that there is. Raises UsageError."""
    known = swept(run)
    if not known:
        raise UsageError(f"{run.path}: no parameter has several values that are numbers")
    if name in known:
        return name
    if name or len(known) > 1:
        raise UsageError(unknown("--to: parameter", name, known))
    return known[0]


def _numbers(flag: str, text: str) -> Sequence[float]:
    """Of a list with commas; none of an empty text. Raises UsageError."""
    found = []
    for part in text.split(",") if text else ():
        try:
            found.append(float(part.replace("_", "")))
        except ValueError:
            raise UsageError(f"{flag}: {part!r} is not a number") from None
        if not 0 < found[-1] < float("inf"):
            raise UsageError(f"{flag}: {part!r} is not a number over 0")
    return found
