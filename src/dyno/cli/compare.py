"""`dyno compare`: engines within a run, or two runs, with a verdict on each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from dyno import results
from dyno.cli.console import output
from dyno.model import UsageError
from dyno.report import compared, sections, words
from dyno.report.table import varying
from dyno.results import Run
from dyno.settings import percent
from dyno.stats import between, compare
from dyno.stats.metric import Metric, metric
from dyno.stats.verdict import MARGIN


@click.command(name="compare")
@click.argument("before", type=click.Path(path_type=Path), metavar="RUN")
@click.argument("after", type=click.Path(path_type=Path), metavar="[RUN2]", required=False)
@click.option("--baseline", metavar="ENGINE", help="What the others are compared with. Default: the fastest of each.")
@click.option("--halves", is_flag=True, help="The second half of RUN's blocks with the first: did the machine drift?")
@click.option("--metric", "by", metavar="NAME", help="throughput, p50, p99, p999, response-p50 or response-p99.")
@click.option("--margin", metavar="PERCENT", help="Rows whose difference is no larger are equal. Default: 5%.")
@click.option("--json", "as_json", is_flag=True, help="JSON, with a stable schema.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Markdown tables.")
def command(before: Path, after: Path | None, baseline: str | None, halves: bool, **given: Any) -> None:
    """Compare engines within RUN, or RUN2 with RUN: ratios with intervals, and a verdict on each.

    \b
    dyno compare r.json
    dyno compare r.json --baseline sqlite
    dyno compare before.json after.json
    """
    by, margin = shared(given)
    run = results.load(before)
    if baseline is not None and (after is not None or halves):
        raise UsageError("--baseline is for engines within a run; of two runs the first one is the baseline")
    if halves:
        if after is not None:
            raise UsageError("--halves is for one run")
        first, second = between.halves(run)
        _two(first, second, between.between(first, second, by, margin), margin, given)
    elif after is not None:
        second = results.load(after)
        _two(run, second, between.between(run, second, by, margin), margin, given)
    else:
        _one(run, baseline, by, margin, given)


def shared(given: dict[str, Any]) -> tuple[Metric | None, float]:
    """What is compared, and the margin. Raises UsageError."""
    if given["as_json"] and given["as_markdown"]:
        raise UsageError("--json and --markdown exclude each other")
    by = None if given["by"] is None else metric(given["by"])
    return by, MARGIN if given["margin"] is None else read_margin(given["margin"])


def _one(run: Run, baseline: str | None, by: Metric | None, margin: float, given: dict[str, Any]) -> None:
    compare.check_baseline(run, baseline)
    found = compare.tables(run, by)
    if given["as_json"]:
        print(json.dumps(compared.within_data(run, found, baseline, margin), indent=2))
        return
    parts = compared.within(run, found, baseline, margin)
    if not parts:
        raise UsageError(f"{run.path}: nothing to compare: no two engines have a number in a phase at the same tier")
    how = f"{compared.WITHIN} {compared.equal(margin)}"
    show(parts, [*words.answers(run), *compared.conditions(run), how], given)


def _two(before: Run, after: Run, found: between.Between, margin: float, given: dict[str, Any]) -> None:
    if given["as_json"]:
        print(json.dumps(compared.between_data(before, after, found, margin), indent=2))
        return
    parts = [compared.changed(before, after, found.differences), *compared.between(found, varying(after))]
    how = f"{compared.how(found.paired)} {compared.equal(margin)}"
    show(parts, [*compared.gone(found), *compared.conditions(after), how], given)


def show(parts: list[compared.Section], lines: list[str], given: dict[str, Any]) -> None:
    """On a terminal, or as Markdown."""
    if given["as_markdown"]:
        print(compared.markdown(parts, lines), end="")
        return
    console = output()
    sections.render(parts, console)
    console.print()
    for line in lines:
        console.print(line, soft_wrap=True)


def read_margin(text: str) -> float:
    try:
        return percent(text)
    except ValueError as error:
        raise UsageError(f"--margin {text}: {error}") from None
