"""`dyno selftest`: proves on this machine that the measuring is right. Parses and delegates."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from dyno.cli.console import output, progress
from dyno.report.verdicts import line, summary
from dyno.run import work
from dyno.selftest import Check, Verdict, chosen, made


@click.command(name="selftest")
@click.option("--only", metavar="NAME[,NAME...]", help="Only these checks.")
@click.option("--json", "as_json", is_flag=True, help="Print verdicts and figures as JSON.")
@click.option("--work", "root", type=click.Path(path_type=Path), metavar="DIR", help="Where data live meanwhile.")
def command(only: str | None, as_json: bool, root: Path | None) -> int:
    """Prove on this machine that the measuring is right, in about a minute.

    Known faults and known costs go in, and must be found. Exit status: 0, or 1 if a check failed.
    """
    wanted = chosen(name.strip() for name in (only or "").split(",") if name.strip())
    console, found = output(), list[tuple[Check, Verdict]]()
    with work.directory(root or work.default_root()) as place, progress().status("") as status:
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
