"""`dyno check`: a gate for CI. Is a run slower than its base, by more than a margin?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from dyno import results
from dyno.cli.compare import shared, show
from dyno.report import compared
from dyno.report.table import varying
from dyno.stats.between import between
from dyno.stats.gate import gate

FAILED, NOTHING = 1, 3


@click.command(name="check")
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
@click.option(
    "--against", "base", type=click.Path(path_type=Path), required=True, metavar="BASE", help="The run before."
)
@click.option("--margin", metavar="PERCENT", help="How much slower a row may be. Default: 5%.")
@click.option("--metric", "by", metavar="NAME", help="throughput, p50, p99, p999, response-p50 or response-p99.")
@click.option("--strict", is_flag=True, help="Fail too where one can't tell.")
@click.option("--json", "as_json", is_flag=True, help="JSON, with a stable schema.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Markdown tables.")
def command(run: Path, base: Path, strict: bool, **given: Any) -> int:
    """Exit with status 1 if RUN is shown to be slower than BASE by more than the margin, and with 0 if not.

    \b
    dyno check after.json --against before.json
    dyno check after.json --against before.json --margin 10% --strict
    """
    by, margin = shared(given)
    before, after = results.load(base), results.load(run)
    found = between(before, after, by, margin)
    judged = gate(found, margin)
    states = [one.state for one in judged]
    failed = "slower" in states or bool(found.lost) or (strict and "unclear" in states)
    if given["as_json"]:
        print(
            json.dumps(compared.between_data(before, after, found, margin, judged) | {"passed": not failed}, indent=2)
        )
    else:
        parts = [compared.changed(before, after, found.differences), *compared.gated(judged, varying(after))]
        show(
            parts,
            [
                *compared.gone(found),
                *compared.conditions(after),
                compared.how(found.paired),
                _summary(states, len(found.lost), margin, strict),
            ],
            given,
        )
    if not judged and not found.lost:
        return NOTHING
    return FAILED if failed else 0


def _summary(states: list[str], lost: int, margin: float, strict: bool) -> str:
    parts = [f"{states.count('slower')} of {len(states)} rows slower by more than {margin * 100:g} %"]
    if lost:
        parts.append(f"{lost} without a number now")
    if unclear := states.count("unclear"):
        told = "which fails under --strict" if strict else "which passes without --strict"
        parts.append(f"{unclear} that can't be told, {told}: more --samples would")
    return "; ".join(parts) + "."
