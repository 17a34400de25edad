"""`dyno replicate`: runs a published experiment, or all of them, and prints the figures next to this machine's."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from dyno import published, registry, results
from dyno.bundles.container import ENDING
from dyno.cli import engines, files, flag_values, publish
from dyno.cli.console import output
from dyno.cli.flag_values import Quantity, output_option, work_option
from dyno.cli.resuming import resume_command
from dyno.cli.run import FAILED, NOTHING, OVERWRITE, RESUME, carry_out, run_flags, status
from dyno.contracts import quantities
from dyno.contracts.model import UsageError
from dyno.published import Experiment
from dyno.report.replicate import experiments, replica
from dyno.report.tables import sections
from dyno.results import Run, as_read, planned_cells
from dyno.runner import plan, plan_file
from dyno.runner.parent import forecast_time
from dyno.runner.plan import Plan
from dyno.runner.rows import find_unavailable, parse_entry

ALL, QUICK = "all", "quick"
PAGE = "index.html"


@click.command(name="replicate")
@click.argument("experiment", required=False, shell_complete=flag_values.EXPERIMENT)
@run_flags("samples", "preset", preset="Another size than the published one, such as quick.")
@output_option("Run file to write; with all, a directory. Default: SUITE-DATE-TIME.json, or all-DATE-TIME.", "RUN")
@RESUME
@OVERWRITE
@click.option(
    "--within",
    type=Quantity(quantities.seconds, 1),
    metavar="TIME",
    help="With all: divide about this time among the experiments, with fewer samples if needed.",
)
@work_option()
@click.option("--trust", is_flag=True, help="Run the code of a bundle, and don't ask.")
def replicate_command(
    experiment: str | None,
    preset: str | None,
    samples: int | None,
    within: float | None,
    trust: bool,
    **flags: Any,
) -> int:
    """Run a published EXPERIMENT, or a bundle, on this machine; without a name, list the experiments.

    \b
    dyno replicate acid-2013 --preset quick
    dyno replicate all --preset quick --within 30m -o replicas
    dyno replicate r.dyno
    """
    console = output()
    if within is not None and experiment != ALL:
        raise UsageError("--within divides a time among the experiments: use it with all")
    if experiment is None:
        console.print()
        rows = [(each.name, each.citation) for each in map(published.experiment, published.names())]
        engines.table(("experiment", "published"), rows, console)
        return 0
    if experiment.endswith(ENDING):
        if preset is not None:
            raise UsageError("--preset is for published experiments: a bundle's plan has its own size")
        return publish.repeat(Path(experiment), trust, samples, **flags)
    if trust:
        raise UsageError("--trust is for bundles: the experiments are a part of Dyno")
    if experiment == ALL:
        return _replicate_all(preset, samples, within, **flags)
    return status(_measure(_prepare(published.experiment(experiment), preset, samples), **flags))


@dataclass(frozen=True)
class _Prepared:
    experiment: Experiment
    plan: Plan


def _prepare(original: Experiment, preset: str | None, samples: int | None) -> _Prepared:
    """Returns the plan that repeats the experiment. Raises UsageError if it can't run here."""
    request = plan_file.parse(original.plan_at_preset(preset), original.name)
    missing = find_unavailable(registry.suite(request.suite), request.engines)
    able = [entry for entry in request.engines if parse_entry(entry).asked not in missing]
    if not able:
        raise UsageError(f"no engine of {original.name} can run here; `dyno list` says what to install")
    made = plan.make(replace(request, engines=able, samples=samples or request.samples))
    reasons = {"missing": dict(missing), "left_out": list(made.left_out)}
    return _Prepared(original, replace(made, declared={**made.declared, "experiment": original.name, **reasons}))


def _measure(prepared: _Prepared, **flags: Any) -> Run:
    """Runs the plan, and prints its tables, also those of an interrupted run."""

    def show(run: Run) -> None:
        _show(prepared.experiment, run)

    run = carry_out(prepared.plan, **flags, show=show)
    show(run)
    return run


def _show(experiment: Experiment, run: Run) -> None:
    sections.render(replica.sections(experiment, run), output(), aligned=False, blank_first=False)


def _at_its_size(prepared: _Prepared, run: Run, samples: int | None) -> _Prepared:
    """Returns the experiment as its run continues: at the quick size, if an earlier command chose that."""
    quick = _prepare(prepared.experiment, QUICK, samples)
    same = all(run.recorded["plan"].get(name) == value for name, value in quick.plan.data().items())
    if same and planned_cells(run.path) == as_read(quick.plan.cells):
        return quick
    return prepared


class _Shares:
    """Divides the time of `--within` among the experiments that are still to be measured."""

    def __init__(self, within: float) -> None:
        self._within, self._began = within, time.monotonic()
        self._expected = dict[str, float]()
        self.reduced = list[str]()
        """What was done with fewer samples or at a smaller size, as lines of output."""

    def add(self, prepared: _Prepared, run: Run | None, resume: bool) -> None:
        """Adds an experiment. `run`: an earlier run of it, perhaps of another size."""
        original, made = prepared.experiment, prepared.plan
        if run is not None and planned_cells(run.path) != as_read(made.cells):
            run = None
        quick = _prepare(original, QUICK, None).plan
        seconds = expected_seconds(made, run, resume, quick, original.quick_seconds)
        self._expected[original.name] = seconds

    def take_share(self, prepared: _Prepared, samples: int | None, going_on: bool) -> tuple[_Prepared, float]:
        """Returns the experiment, or its quick size if not even one sample fits, and its share of the time."""
        name, left = prepared.experiment.name, self._within - (time.monotonic() - self._began)
        share = share_time(left, list(self._expected.values()))
        one_sample = self._expected.pop(name) / prepared.plan.samples
        if not going_on and one_sample > share:
            quick = _prepare(prepared.experiment, QUICK, samples)
            if quick.plan != prepared.plan:
                self.reduced.append(f"{name}: to preset {QUICK}")
                return quick, share
        return prepared, share

    def note(self, run: Run, name: str) -> None:
        """Notes that a run has not all of its samples."""
        if not run.complete:
            begun = max((attempt.block + 1 for attempt in run.attempts), default=0)
            self.reduced.append(f"{name}: to {begun} of {run.blocks} samples")

    def show_reduced(self, directory: Path) -> None:
        """Prints what was reduced, with the command for the rest."""
        console = output()
        if self.reduced:
            console.print(f"\nReduced, to take about {engines.clock(self._within)} in all:")
            for line in self.reduced:
                console.print(f"  {line}")
            console.print(f"  The samples that are missing: {resume_command(directory)}", soft_wrap=True)


def _directory_for_all(path: str | None, resume: bool, overwrite: bool) -> Path:
    """Returns the directory of the experiments' run files. Raises UsageError."""
    if resume and path is None:
        raise UsageError("--resume needs -o DIR, the directory to continue")
    if resume and overwrite:
        raise UsageError("--resume and --overwrite exclude each other")
    return Path(path or f"{ALL}-{datetime.now():%Y%m%d-%H%M%S}")


def _replicate_all(
    preset: str | None,
    samples: int | None,
    within: float | None,
    path: str | None,
    resume: bool,
    overwrite: bool,
    **flags: object,
) -> int:
    """Runs each experiment into a run file of its own in a directory, and writes their page. Returns the worst exit
    status. With `resume`, complete runs are only shown, whether or not their engines can run here."""
    directory = _directory_for_all(path, resume, overwrite)
    taken = [name for name in published.names() if experiments.run_file(directory, name).exists()]
    if taken and not (resume or overwrite):
        raise UsageError(f"{directory} has the run of {taken[0]}: continue by --resume, or replace it by --overwrite")
    # Without its library, the page could not be written at the end.
    experiments.template()
    files.directory(str(directory))
    earlier = {
        name: run for name in taken if (run := _load_earlier_run(experiments.run_file(directory, name), resume))
    }
    statuses = list[int]()
    reasons = dict[str, str]()
    prepared = dict[str, _Prepared]()
    shares = None if within is None else _Shares(within)
    for name in published.names():
        if resume and name in earlier and earlier[name].complete:
            continue
        try:
            prepared[name] = _prepare(published.experiment(name), preset, samples)
            if resume and name in earlier:
                prepared[name] = _at_its_size(prepared[name], earlier[name], samples)
            if shares is not None:
                shares.add(prepared[name], earlier.get(name), resume)
        except UsageError as error:
            reasons[name] = str(error)
    console = output()
    for name in published.names():
        console.print(f"\n{name}", style="bold")
        if name in reasons:
            console.print(f"not run: {reasons[name]}")
        elif name not in prepared:
            _show(published.experiment(name), earlier[name])
            statuses.append(status(earlier[name]))
        else:
            file, going_on = str(experiments.run_file(directory, name)), resume and name in earlier
            each, limit = prepared[name], None
            if shares is not None:
                each, limit = shares.take_share(each, samples, going_on)
            given = {"path": file, "resume": going_on, "overwrite": overwrite, "within": limit, **flags}
            run = _measure(each, directory=directory, **given)
            if shares is not None:
                shares.note(run, name)
            statuses.append(status(run))
    replicas = experiments.replicas(directory, reasons)
    page = directory / PAGE
    files.save(str(page), experiments.page(replicas).encode())
    sections.render([experiments.overview(replicas)], console)
    if shares is not None:
        shares.show_reduced(directory)
    console.print(f"\nAll on one page: {page}")
    if not statuses or set(statuses) == {NOTHING}:
        return NOTHING
    if any(statuses):
        return FAILED
    return 0


def _load_earlier_run(file: Path, resume: bool) -> Run | None:
    """Returns the run of an earlier command. A damaged file has none, if it is to be replaced. Raises UsageError."""
    try:
        return results.load(file)
    except UsageError:
        if resume:
            raise
        return None


def expected_seconds(plan: Plan, measured: Run | None, resume: bool, quick: Plan, quick_seconds: float) -> float:
    """Returns the time that the plan's trials will take: of those that are missing in `measured`, if that is resumed.
    It is based on the trials of `measured`, a run of the same cells. Without them, it is based on `quick_seconds`,
    the time of the plan `quick`, and on how much longer the plan may measure."""
    if measured is not None and measured.attempts:
        ended, planned = measured.progress
        each = sum(attempt.duration_ns for attempt in measured.attempts) / 1e9 / ended
        return each * (planned - ended if resume else planned)
    return quick_seconds * forecast_time(plan)[1] / forecast_time(quick)[1]


def share_time(left: float, expected: Sequence[float]) -> float:
    """Returns the first run's share of the time that is left for all of these runs."""
    total = sum(expected)
    if total:
        return max(left, 0.0) * expected[0] / total
    return max(left, 0.0)
