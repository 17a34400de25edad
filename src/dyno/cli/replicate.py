"""`dyno replicate`: runs a published experiment, or all of them, and prints the figures next to this machine's."""

from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from dyno import published, registry
from dyno.cli import engines, files, flag_values, publish
from dyno.cli.console import output
from dyno.cli.flag_values import output_option, work_option
from dyno.cli.run import FAILED, NOTHING, OVERWRITE, RESUME, carry_out, run_flags, status
from dyno.contracts.model import UsageError
from dyno.published import Experiment
from dyno.report.replicate import experiments, replica
from dyno.report.tables import sections
from dyno.results import Run
from dyno.runner import plan, plan_file
from dyno.runner.plan import Plan
from dyno.runner.rows import lacking, split

ALL = "all"
PAGE = "index.html"


@click.command(name="replicate")
@click.argument("experiment", required=False, shell_complete=flag_values.EXPERIMENT)
@run_flags("samples", "preset", preset="Another size than the published one, such as quick.")
@output_option("Run file to write; with all, a directory. Default: SUITE-DATE-TIME.json, or all-DATE-TIME.", "RUN")
@RESUME
@OVERWRITE
@work_option()
@click.option("--trust", is_flag=True, help="Run the code of a bundle, and don't ask.")
def replicate_command(
    experiment: str | None, preset: str | None, samples: int | None, trust: bool, **flags: Any
) -> int:
    """Run a published EXPERIMENT, or a bundle, on this machine; without a name, list the experiments.

    \b
    dyno replicate acid-2013 --preset quick
    dyno replicate all --preset quick -o replicas
    dyno replicate r.dyno
    """
    console = output()
    if experiment is None:
        console.print()
        rows = [(each.name, each.citation) for each in map(published.experiment, published.names())]
        engines.table(("experiment", "published"), rows, console)
        return 0
    if experiment.endswith(publish.ENDING):
        if preset is not None:
            raise UsageError("--preset is for published experiments: a bundle's plan has its own size")
        return publish.repeat(Path(experiment), trust, samples, **flags)
    if trust:
        raise UsageError("--trust is for bundles: the experiments are a part of Dyno")
    if experiment == ALL:
        return _replicate_all(preset, samples, **flags)
    return status(_measure(_prepare(published.experiment(experiment), preset, samples), **flags))


@dataclass(frozen=True)
class _Prepared:
    experiment: Experiment
    plan: Plan


def _prepare(original: Experiment, preset: str | None, samples: int | None) -> _Prepared:
    """Returns the plan that repeats the experiment. Raises UsageError if it can't run here."""
    request = plan_file.parse(original.sized(preset), original.name)
    missing = lacking(registry.suite(request.suite), request.engines)
    able = [entry for entry in request.engines if split(entry).asked not in missing]
    if not able:
        raise UsageError(f"no engine of {original.name} can run here; `dyno list` says what to install")
    made = plan.make(replace(request, engines=able, samples=samples or request.samples))
    reasons = {"missing": dict(missing), "left_out": list(made.left_out)}
    return _Prepared(original, replace(made, declared={**made.declared, "experiment": original.name, **reasons}))


def _measure(prepared: _Prepared, **flags: Any) -> Run:
    """Runs the plan, and prints its tables, also those of an interrupted run."""

    def show(run: Run) -> None:
        parts = replica.sections(prepared.experiment, run)
        sections.render(parts, output(), aligned=False, blank_first=False)

    run = carry_out(prepared.plan, **flags, show=show)
    show(run)
    return run


def _replicate_all(
    preset: str | None, samples: int | None, path: str | None, resume: bool, overwrite: bool, **flags: Any
) -> int:
    """Runs each experiment into a run file of its own in a directory, and writes their page. Returns the worst exit
    status."""
    if resume and path is None:
        raise UsageError("--resume needs -o DIR, the directory to continue")
    path = path or f"{ALL}-{datetime.now():%Y%m%d-%H%M%S}"
    directory = Path(path)
    taken = [name for name in published.names() if experiments.run_file(directory, name).exists()]
    if taken and not (resume or overwrite):
        raise UsageError(f"{directory} has the run of {taken[0]}: continue by --resume, or replace it by --overwrite")
    # Without its library, the page could not be written at the end.
    experiments.template()
    files.directory(path)
    statuses, reasons = list[int](), dict[str, str]()
    console = output()
    for name in published.names():
        console.print(f"\n{name}", style="bold")
        try:
            prepared = _prepare(published.experiment(name), preset, samples)
        except UsageError as error:
            reasons[name] = str(error)
            console.print(f"not run: {error}")
            continue
        file = experiments.run_file(directory, name)
        run = _measure(prepared, path=str(file), resume=resume and file.exists(), overwrite=overwrite, **flags)
        statuses.append(status(run))
    replicas = experiments.replicas(directory, reasons)
    page = directory / PAGE
    files.save(str(page), experiments.page(replicas).encode())
    sections.render([experiments.overview(replicas)], console)
    console.print(f"\nAll on one page: {page}")
    if not statuses or set(statuses) == {NOTHING}:
        return NOTHING
    return FAILED if any(statuses) else 0
