"""`dyno replicate`: runs a published experiment, and prints its figures next to this machine's."""

from dataclasses import replace
from typing import Any

import click

from dyno import published, registry
from dyno.cli import engines, flag_values
from dyno.cli.console import output
from dyno.cli.flag_values import output_option, work_option
from dyno.cli.run import OVERWRITE, RESUME, carry_out, run_flags, status
from dyno.contracts.model import UsageError
from dyno.report.replicate import replica
from dyno.report.tables import sections
from dyno.results import Run
from dyno.runner import plan, plan_file
from dyno.runner.rows import lacking, split


@click.command(name="replicate")
@click.argument("experiment", required=False, shell_complete=flag_values.EXPERIMENT)
@run_flags("samples", "preset", preset="Another size than the published one, such as quick.")
@output_option("Run file to write. Default: SUITE-DATE-TIME.json.", "RUN")
@RESUME
@OVERWRITE
@work_option()
def replicate_command(experiment: str | None, preset: str | None, samples: int | None, **flags: Any) -> int:
    """Run a published EXPERIMENT on this machine; without a name, list the experiments."""
    console = output()
    if experiment is None:
        console.print()
        rows = [(each.name, each.citation) for each in map(published.experiment, published.names())]
        engines.table(("experiment", "published"), rows, console)
        return 0
    original = published.experiment(experiment)
    run_request = plan_file.parse(original.sized(preset), original.name)
    missing = lacking(registry.suite(run_request.suite), run_request.engines)
    able = [entry for entry in run_request.engines if split(entry).asked not in missing]
    if not able:
        raise UsageError(f"no engine of {original.name} can run here; `dyno list` says what to install")
    run_request = replace(run_request, engines=able, samples=samples or run_request.samples)
    run_plan = plan.make(run_request)
    run_plan = replace(run_plan, declared={**run_plan.declared, "experiment": original.name})

    def show(run: Run) -> None:
        parts = replica.sections(original, run, missing, run_plan.left_out)
        sections.render(parts, console, aligned=False, blank_first=False)

    run = carry_out(run_plan, **flags, show=show)
    show(run)
    return status(run)
