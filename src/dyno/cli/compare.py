"""`dyno compare`: engines within a run, or two runs, with a verdict on each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from dyno import library
from dyno.cli.console import output
from dyno.cli.flag_values import PATH
from dyno.contracts.model import UsageError
from dyno.contracts.settings import percent
from dyno.report.tables import sections
from dyno.stats.metric import metric
from dyno.stats.verdict import MARGIN


@click.command(name="compare")
@click.argument("before", type=PATH, metavar="RUN")
@click.argument("after", type=PATH, metavar="[RUN2]", required=False)
@click.option("--baseline", metavar="ENGINE", help="What the others are compared with. Default: the fastest of each.")
@click.option("--halves", is_flag=True, help="The second half of RUN's blocks with the first: did the machine drift?")
@click.option("--metric", "by", metavar="NAME", help="throughput, cpu, p50, p99, p999, response-p50 or response-p99.")
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
    if baseline is not None and (after is not None or halves):
        raise UsageError("--baseline is for engines within a run; of two runs the first one is the baseline")
    if halves and after is not None:
        raise UsageError("--halves is for one run")
    found = library.compare(before, after, baseline=baseline, metric=by, margin=margin, halves=halves)
    if given["as_json"]:
        print(json.dumps(found.to_dict(), indent=2))
        return
    if not found.sections:
        raise UsageError(f"{before}: nothing to compare: no two engines have a number in a phase at the same tier")
    show(found.sections, found.lines, given)


def shared(given: dict[str, Any]) -> tuple[str | None, float]:
    """What is compared, and the margin. Raises UsageError."""
    if given["as_json"] and given["as_markdown"]:
        raise UsageError("--json and --markdown exclude each other")
    if given["by"] is not None:
        metric(given["by"])
    return given["by"], MARGIN if given["margin"] is None else read_margin(given["margin"])


def show(parts: list[sections.Section], lines: list[str], given: dict[str, Any]) -> None:
    """On a terminal, or as Markdown."""
    if given["as_markdown"]:
        print(sections.markdown(parts, lines), end="")
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
