"""`dyno selftest`: proves on this machine that the measuring is right, or that durability tiers are."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from dyno.cli.console import output, print_note, progress
from dyno.cli.flag_values import split, work_option
from dyno.contracts.model import UsageError
from dyno.report.about.proofs import TIERS, check_line, check_summary
from dyno.runner import work_directory
from dyno.selftest import chosen, made
from dyno.selftest.flushes import WRONG, claims, proofs


@click.command(name="selftest")
@click.option("--only", metavar="NAME[,NAME...]", help="Run only these checks.")
@click.option("--tiers", is_flag=True, help="Prove durability tiers instead, by the system calls of commits.")
@click.option("-e", "--engine", "engines", multiple=True, metavar="NAME[:OPT=VALUE+...]", help="With --tiers: these.")
@click.option("--tier", metavar="TIER", help="With --tiers: only this tier.")
@click.option("--json", "as_json", is_flag=True, help="Print verdicts and figures as JSON.")
@click.option("--markdown", "as_markdown", is_flag=True, help="With --tiers: print a Markdown table.")
@work_option()
def selftest_command(tiers: bool, root: Path | None, **flags: Any) -> int:
    """Prove on this machine that the measuring is right, in about a minute.

    Measures known faults and known costs, which must show in the figures. With --tiers: checks that acknowledged
    writes are flushed as each engine's tiers promise. Exit status: 0, or 1 if a check failed, a tier is broken or an
    engine crashed.
    """
    for name, flag in {"engines": "-e", "tier": "--tier", "as_markdown": "--markdown"}.items():
        if flags[name] and not tiers:
            raise UsageError(f"{flag} needs --tiers")
    if flags["only"] and tiers:
        raise UsageError("--only and --tiers exclude each other")
    if flags["as_json"] and flags["as_markdown"]:
        raise UsageError("--json and --markdown exclude each other")
    with work_directory.directory(root or work_directory.default_root(), print_note) as work:
        return _tiers(work.path, flags) if tiers else _checks(work.path, flags["only"], flags["as_json"])


def _checks(work: Path, only: str | None, as_json: bool) -> int:
    checks, verdicts, console = chosen(split([only or ""])), [], output()
    with progress().status("") as status:
        results = made(checks, work)
        for number, check in enumerate(checks, 1):
            status.update(f"{number} of {len(checks)}, {check.name}: {check.guards}")
            verdicts.append(next(results)[1])
            if not as_json:
                check_line(check.name, check.guards, verdicts[-1].passed, verdicts[-1].text, console)
    if as_json:
        data = [{"name": c.name, "guards": c.guards, **asdict(v)} for c, v in zip(checks, verdicts, strict=True)]
        click.echo(json.dumps({"checks": data}, indent=2))
    else:
        check_summary([verdict.passed for verdict in verdicts], console)
    return 1 if any(verdict.passed is False for verdict in verdicts) else 0


def _tiers(work: Path, flags: Mapping[str, Any]) -> int:
    tiers, results = claims(split(flags["engines"]), flags["tier"]), []
    with progress().status("") as status:
        remaining = proofs(tiers, work)
        for number, claim in enumerate(tiers, 1):
            status.update(f"{number} of {len(tiers)}: {claim.engine}, tier {claim.tier.value}")
            results.append(next(remaining))
    data = [proof.data() for proof in results]
    if flags["as_json"]:
        click.echo(json.dumps({"tiers": data}, indent=2))
    elif flags["as_markdown"]:
        click.echo(TIERS.markdown(data), nl=False)
    else:
        TIERS.render(data, output())
    return 1 if any(proof.verdict in WRONG for proof in results) else 0
