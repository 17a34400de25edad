"""`dyno selftest`: proves on this machine that the measuring is right, or that tiers are. Parses and delegates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from dyno.cli.console import output, progress, tell
from dyno.cli.flag_values import PATH, split
from dyno.contracts.model import UsageError
from dyno.report.about import tiers as tables
from dyno.report.about.verdicts import line, summary
from dyno.runner import work_directory
from dyno.selftest import Check, Verdict, chosen, made
from dyno.selftest.flushes import WRONG, Proof, claims, proofs


@click.command(name="selftest")
@click.option("--only", metavar="NAME[,NAME...]", help="Only these checks.")
@click.option("--tiers", is_flag=True, help="Prove durability tiers instead, by the system calls of their commits.")
@click.option(
    "-e", "--engine", "engines", multiple=True, metavar="NAME[:OPT=VALUE+...]", help="Of --tiers: these engines."
)
@click.option("--tier", metavar="TIER", help="Of --tiers: this tier alone.")
@click.option("--json", "as_json", is_flag=True, help="Print verdicts and figures as JSON.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Of --tiers: a Markdown table.")
@click.option("--work", "root", type=PATH, metavar="DIR", help="Where data live meanwhile.")
def command(tiers: bool, root: Path | None, **given: Any) -> int:
    """Prove on this machine that the measuring is right, in about a minute.

    Known faults and known costs go in, and must be found. With --tiers: that acknowledged writes are flushed as each
    engine's tiers promise. Exit status: 0, or 1 if a check failed, a tier is broken or an engine crashed.
    """
    _refuse_mixed(tiers, given)
    with work_directory.directory(root or work_directory.default_root(), tell) as place:
        return _tiers(place.path, given) if tiers else _checks(place.path, given["only"], given["as_json"])


def _refuse_mixed(tiers: bool, given: Mapping[str, Any]) -> None:
    alone = {"only": "--only"} if tiers else {"engines": "-e", "tier": "--tier", "as_markdown": "--markdown"}
    for name, flag in alone.items():
        if given[name]:
            raise UsageError(f"{flag} and --tiers exclude each other" if tiers else f"{flag} wants --tiers")
    if given["as_json"] and given["as_markdown"]:
        raise UsageError("--json and --markdown exclude each other")


def _checks(place: Path, only: str | None, as_json: bool) -> int:
    wanted = chosen(split([only or ""]))
    console, found = output(), list[tuple[Check, Verdict]]()
    with progress().status("") as status:
        results = made(wanted, place)
        for number, check in enumerate(wanted, 1):
            status.update(f"{number} of {len(wanted)}, {check.name}: {check.guards}")
            found.append(next(results))
            if not as_json:
                line(*found[-1], console)
    if as_json:
        told = [{"name": c.name, "guards": c.guards, **asdict(v)} for c, v in found]
        click.echo(json.dumps({"checks": told}, indent=2))
    else:
        summary([verdict for _, verdict in found], console)
    return 1 if any(verdict.passed is False for _, verdict in found) else 0


def _tiers(place: Path, given: Mapping[str, Any]) -> int:
    wanted, found = claims(split(given["engines"]), given["tier"]), list[Proof]()
    with progress().status("") as status:
        results = proofs(wanted, place)
        for number, claim in enumerate(wanted, 1):
            status.update(f"{number} of {len(wanted)}: {claim.engine}, tier {claim.tier.value}")
            found.append(next(results))
    told = [proof.data() for proof in found]
    if given["as_json"]:
        click.echo(json.dumps({"tiers": told}, indent=2))
    elif given["as_markdown"]:
        click.echo(tables.markdown(told), nl=False)
    else:
        tables.render(told, output())
    return 1 if any(proof.verdict in WRONG for proof in found) else 0
