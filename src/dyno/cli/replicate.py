"""`dyno replicate`: a published experiment, its table and ours side by side, and what it found, checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from dyno import published, registry
from dyno.cli import completion
from dyno.cli.console import output
from dyno.cli.flag_values import NAME, PATH
from dyno.cli.run import carry_out, status
from dyno.cli.run_flags import run_flags
from dyno.contracts.model import UsageError
from dyno.report.replicate import replica
from dyno.runner import plan, plan_file
from dyno.runner.rows import lacking, split


@click.command(name="replicate")
@click.argument("experiment", required=False, shell_complete=completion.EXPERIMENT)
@run_flags("samples", "preset", preset="Another size than the published one: quick, for a first look.")
@click.option("-o", "--output", "path", type=NAME, metavar="RUN", help="The run file.")
@click.option("--resume", is_flag=True, help="Continue the run file where it was interrupted.")
@click.option("--overwrite", is_flag=True, help="Replace the run file.")
@click.option("--work", "root", type=PATH, metavar="DIR", help="Where the engines' data live.")
def command(
    experiment: str | None,
    preset: str | None,
    samples: int | None,
    path: str | None,
    resume: bool,
    overwrite: bool,
    root: Path | None,
) -> int:
    """Run a published EXPERIMENT on this machine; without a name, list them."""
    console = output()
    if experiment is None:
        replica.listing([published.experiment(name) for name in published.names()], console)
        return 0
    found = published.experiment(experiment)
    asked = plan_file.parse(found.sized(preset), found.name)
    missing = lacking(registry.suite(asked.suite), asked.engines)
    here = [entry for entry in asked.engines if split(entry).asked not in missing]
    if not here:
        raise UsageError(f"no engine of {found.name} can run here; `dyno list` says what to install")
    said: dict[str, Any] = {} if samples is None else {"samples": samples}
    made = plan.make(replace(asked, engines=here, **said))
    run = carry_out(made, path, root, resume, overwrite)
    replica.render(found, run, console, missing)
    return status(run)
