"""`dyno bisect`: finds the version, or the build, that changed the speed of an engine."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from dyno import registry
from dyno.cli import files
from dyno.cli.compare import read_metric_and_margin
from dyno.cli.console import output, print_note
from dyno.cli.engines import clock
from dyno.cli.flag_values import NAME, SUITE, split_at_commas, work_option
from dyno.cli.resuming import resume_command
from dyno.cli.run import FAILED, NOTHING, carry_out, request, run_flags
from dyno.cli.suite_flags import add_flags, apply_flags, flags_of, given_values
from dyno.contracts import versions
from dyno.contracts.engine import EngineSpec
from dyno.contracts.model import DECIDED, PROGRAM, VERSION, UsageError
from dyno.options import RunRequest
from dyno.report.tables import bisection as texts
from dyno.results import Run
from dyno.runner import plan
from dyno.runner.parent import StopRule
from dyno.runner.plan import WITHIN, Plan
from dyno.runner.rows import NamedRow, parse_entry
from dyno.stats.bisection import (
    DIFFERENT,
    OPEN,
    Bisection,
    CannotMeasure,
    Logs,
    Verdict,
    find_change,
    read_logs,
)
from dyno.stats.decisions import SURE_BLOCKS
from dyno.stats.metric import METRICS, THROUGHPUT, Metric
from dyno.stats.verdict import MOST_MORE

MARGIN = 0.03
PLACE = "{}"
"""Stands for the name of a build in --program."""
WITHOUT = ("engines", "samples", "until", "limit", "confirm", "profile")
"""Run options that a bisection has no use for."""
HELP = {"within": "Maximum time of the bisection: no block is begun that would end later. Default: 1800."}


@dataclass(frozen=True)
class Candidates:
    """The versions among which to search, in the order of their releases, and how each is measured."""

    engine: NamedRow
    option: str
    """Option of the engine that names a version or a build."""
    values: dict[str, str]
    """The option's value of each version."""

    @property
    def names(self) -> list[str]:
        return list(self.values)

    def make_entry(self, name: str) -> dict[str, object]:
        """Returns the row of a version, as in a plan file."""
        entry: dict[str, object] = {"name": self.engine.name, **self.engine.options, self.option: self.values[name]}
        if self.engine.tier is not None:
            entry["tier"] = self.engine.tier.value
        if self.option == PROGRAM:
            entry["label"] = name
        return entry


@click.command(name="bisect")
@click.argument("what", metavar="SUITE|PLAN.toml", shell_complete=SUITE)
@click.option("--good", metavar="ENGINE@VERSION", help="Version without the change.")
@click.option("--bad", metavar="ENGINE@VERSION", help="Version with the change, which may be an improvement.")
@click.option("-e", "--engine", "engine", metavar="ENGINE[:OPT=VAL]", help="For builds: the engine that they are of.")
@click.option("--program", metavar="PATH", help="For builds: path of the program, with {} for the build's name.")
@click.option("--between", metavar="NAME,NAME...", help="For builds: their names, in order, with both ends.")
@click.option("--margin", metavar="PERCENT", help="Differences up to this count as none. Default: 3%.")
@click.option(
    "--metric",
    "by",
    metavar="NAME",
    help="Compare undisturbed (the default where each row has it), throughput, time, cpu, memory, p50, p99, ...",
)
@run_flags(but=WITHOUT, **HELP)
@click.option(
    "-o",
    "--output",
    "path",
    type=NAME,
    metavar="DIR",
    help="Directory of run files. Default: SUITE-bisect-DATE-TIME.",
)
@click.option("--resume", is_flag=True, help="Continue an earlier bisection in its directory.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with a stable schema.")
@work_option()
def bisect_command(
    what: str,
    good: str | None,
    bad: str | None,
    engine: str | None,
    program: str | None,
    between: str | None,
    path: str | None,
    resume: bool,
    as_json: bool,
    root: Path | None,
    **flags: Any,
) -> int:
    """Find the version, or the build, that changed the speed of an engine.

    \b
    dyno bisect shop.toml --phases history --good duckdb@1.1.3 --bad duckdb@2.0.1
    dyno bisect records -e postgresql --program 'build/{}/bin/postgres' --between a1,b2,c3

    Versions that are missing are installed when they are needed. Exit status: 0 if a change was found, else 1.
    """
    by, margin = read_metric_and_margin(flags, MARGIN)
    if resume and path is None:
        raise UsageError("--resume needs -o DIR, the directory to continue in")
    candidates = _choose_candidates(good, bad, engine, program, between)
    requested = _request_runs(what, flags, candidates)
    directory = Path(path or f"{requested.suite}-bisect-{datetime.now():%Y%m%d-%H%M%S}")
    if not resume and any(directory.glob("*.json")):
        raise UsageError(f"-o {directory}: it has run files: add --resume to continue, or name another directory")
    metric = None if by is None else METRICS[by]
    measurement = Measurement(requested, candidates, metric, directory, resume, root)
    printer = StepPrinter(margin, metric or THROUGHPUT, as_json)
    try:
        measurement.check(candidates.names[0])
        measurement.check(candidates.names[-1])
        result = find_change(candidates.names, measurement.measure, margin, printer.show)
    except CannotMeasure as error:
        if measurement.files:
            print_note(f"{candidates.engine.name} {error.version} has no number: {error}")
            return NOTHING
        raise UsageError(str(error)) from None
    except KeyboardInterrupt:
        _print_kept(directory)
        raise
    return _print_result(result, measurement, as_json)


add_flags(bisect_command)


def _request_runs(what: str, flags: dict[str, Any], candidates: Candidates) -> RunRequest:
    """Returns the request of each run but for its engines. Raises UsageError."""
    requested = request(what, {**flags, **dict.fromkeys(WITHOUT)})
    if requested.limit:
        raise UsageError(f"{what}: bisect doesn't search capacities: leave the limit out")
    requested = replace(requested, engines=[candidates.make_entry(candidates.names[0])])
    suite = registry.suite(requested.suite)
    given = given_values(suite, flags)
    for flag in flags_of(suite):
        if flag.tries is not None and flag.name in given:
            raise UsageError(f"{flag.words[-1]} measures nothing: give it to `dyno run`")
    requested = apply_flags(requested, given)
    return replace(requested, samples=1, until=DECIDED, within=requested.within or WITHIN, profile=None)


@dataclass
class StepPrinter:
    """Prints each step, and each version that is left out, once."""

    margin: float
    by: Metric
    as_json: bool
    _steps: int = 0
    _left_out: int = 0

    def show(self, result: Bisection) -> None:
        for name, why in list(result.left_out.items())[self._left_out :]:
            print_note(f"{name} is left out: {why}")
        self._left_out = len(result.left_out)
        for step in result.steps[self._steps :]:
            if not self.as_json:
                print(texts.describe_step(step, self.margin, self.by), flush=True)
        self._steps = len(result.steps)


def _print_result(result: Bisection, measurement: Measurement, as_json: bool) -> int:
    by = measurement.by or THROUGHPUT
    candidates = measurement.candidates
    engine = candidates.engine.name
    why = list[str]()
    if result.kind == DIFFERENT:
        earlier, later = (measurement.name_row(version) for version in result.span.ends)
        why = texts.explain_change(measurement.runs[-1][1], (earlier, later))
    if as_json:
        data = texts.bisection_data(result, engine, by, measurement.runs, why)
        print(json.dumps(data, indent=2))
    else:
        text = texts.describe_result(result, engine, by)
        samples, seconds = texts.count_samples([run for _, run in measurement.runs])
        steps = len(measurement.runs)
        console = output()
        console.print()
        console.print(text, soft_wrap=True)
        spent = f"{steps} step{'s' * (steps != 1)}, {samples} samples, {clock(seconds)} of trials"
        console.print(spent, soft_wrap=True)
        for line in why:
            console.print(line, soft_wrap=True)
    print(f"Written to {measurement.directory}", file=sys.stderr)
    if result.kind == OPEN:
        print_note(f"to continue: {resume_command(measurement.directory)}")
    if result.kind == DIFFERENT:
        return 0
    return FAILED


def _print_kept(directory: Path) -> None:
    """Prints what an interrupted bisection leaves, and how to continue it."""
    runs = len(list(directory.glob("*.json")))
    if runs:
        print_note(
            f"{runs} run file{'s' * (runs != 1)} {'are' if runs != 1 else 'is'} kept in {directory};"
            f" to continue: {resume_command(directory)}"
        )


# -- the versions ---------------------------------------------------------------------------------------------


def _choose_candidates(
    good: str | None, bad: str | None, engine: str | None, program: str | None, between: str | None
) -> Candidates:
    """Returns the versions between two, or the builds. Raises UsageError."""
    if program is not None or between is not None:
        if good is not None or bad is not None:
            raise UsageError("--program and --between are for builds: leave --good and --bad out")
        return _choose_builds(engine, program, between)
    if engine is not None:
        raise UsageError("--engine is for builds: versions are named by --good and --bad ENGINE@VERSION")
    if good is None or bad is None:
        raise UsageError("bisect needs --good and --bad ENGINE@VERSION; or for builds -e, --program and --between")
    first, last = _parse_end("--good", good), _parse_end("--bad", bad)
    own = [(row.name, row.tier, {**row.options, VERSION: ""}) for row in (first, last)]
    if own[0] != own[1]:
        raise UsageError(f"--good {good} and --bad {bad}: expected two versions of one engine, with the same options")
    spec = registry.engine(first.name)
    known = _list_known(spec)
    ends = [_resolve_version(spec, str(row.options[VERSION]), known) for row in (first, last)]
    if ends[0] == ends[1]:
        raise UsageError(f"--good and --bad are the same version of {spec.name}: {ends[0]}")
    names = versions.list_between(ends[0], ends[1], known)
    if len(names) == 2:
        raise UsageError(
            f"no version of {spec.name} lies between {names[0]} and {names[1]}: compare them by"
            f" `dyno run -e {spec.name}@{names[0]},{spec.name}@{names[1]}`"
        )
    return Candidates(first, VERSION, {name: name for name in names})


def _choose_builds(engine: str | None, program: str | None, between: str | None) -> Candidates:
    if engine is None or program is None or between is None:
        raise UsageError("builds need all of -e ENGINE, --program PATH and --between NAME,NAME,...")
    if PLACE not in program:
        raise UsageError(f"--program {program}: expected {PLACE} where the build's name belongs")
    row = _parse_row("-e", engine)
    if VERSION in row.options or PROGRAM in row.options:
        raise UsageError(f"-e {engine}: expected an engine without a version and a program")
    names = split_at_commas([between])
    if len(names) < 3 or len(set(names)) < len(names):
        raise UsageError(f"--between {between}: expected at least 3 different names")
    paths = {name: str(Path(program.replace(PLACE, name)).expanduser().absolute()) for name in names}
    return Candidates(row, PROGRAM, paths)


def _parse_end(flag: str, text: str) -> NamedRow:
    row = _parse_row(flag, text)
    if not row.options.get(VERSION):
        raise UsageError(f"{flag} {text}: expected a version: {row.name}@VERSION")
    return row


def _parse_row(flag: str, text: str) -> NamedRow:
    row = parse_entry(text)
    registry.engine(row.name)
    if row.label is not None:
        raise UsageError(f"{flag} {text}: expected no label: rows are named by their versions")
    return row


def _list_known(spec: EngineSpec) -> list[str]:
    """Returns the versions that the engine's sources have. Raises UsageError."""
    from dyno.install.programs import InstallError
    from dyno.install.versions import update_catalog

    registry.versions_of(spec)
    try:
        return update_catalog(spec, print_note)
    except InstallError as why:
        raise UsageError(f"engine {spec.name}: its versions can't be listed: {why}") from None


def _resolve_version(spec: EngineSpec, text: str, known: Sequence[str]) -> str:
    """Returns the one version that the text names. Raises UsageError."""
    assert spec.versions is not None
    named = versions.choose(spec.name, text, known, spec.versions.line)
    if not named:
        served = versions.choose(spec.name, versions.ALL, known, spec.versions.line)
        raise UsageError(f"engine {spec.name}@{text}: no such version; there are {', '.join(served) or 'none'}")
    if len(named) > 1:
        raise UsageError(f"engine {spec.name}@{text}: expected one version, got {', '.join(named)}")
    return named[0]


# -- measuring ------------------------------------------------------------------------------------------------


@dataclass
class Measurement:
    """Measures versions together, each time into a run file of its own."""

    requested: RunRequest
    candidates: Candidates
    by: Metric | None
    directory: Path
    resume: bool
    root: Path | None
    runs: list[tuple[Path, Run]] = field(default_factory=list)
    """The run file of each step."""
    files: int = 0
    """Number of run files. Those of versions without a number are no steps."""
    _rows: dict[str, str] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)

    def name_row(self, version: str) -> str:
        """Returns the key of the version's row in run files."""
        return self._rows[version]

    def check(self, version: str) -> None:
        """Installs the version if it is missing. Raises CannotMeasure if it can't run here."""
        spec = registry.engine(self.candidates.engine.name)
        if self.candidates.option == VERSION and versions.find_installed(spec.name, version) is None:
            _install(spec, version)
        try:
            run_plan = plan.make(replace(self.requested, engines=[self.candidates.make_entry(version)]))
        except UsageError as why:
            raise CannotMeasure(version, str(why)) from None
        self._rows[version] = next(cell.row for cell in run_plan.cells if not cell.floor)

    def measure(self, names: tuple[str, ...], decide: Callable[[Logs], Verdict]) -> Logs:
        """Measures the versions in turns until the verdict isn't open, or until the time is up."""
        for name in names:
            if name not in self._rows:
                self.check(name)
        run_plan = plan.make(replace(self.requested, engines=[self.candidates.make_entry(name) for name in names]))
        # A null engine shows the harness's part of a figure, and takes a third of the time.
        run_plan = replace(run_plan, cells=tuple(cell for cell in run_plan.cells if not cell.floor))
        versions_by_value = {self.candidates.values[name]: name for name in names}

        def read(run: Run) -> Logs:
            return read_logs(run, versions_by_value, self.candidates.option, self.by)

        rule = StopRule(undecided=lambda run, blocks: self.find_undecided(run, blocks, read, decide))
        files.directory(str(self.directory))
        words = "_".join(re.sub(r"[^\w.+-]", "-", name) for name in names)
        self.files += 1
        path = self.directory / f"{self.files:02}_{words}.json"
        run = self._carry_out(run_plan, path, rule)
        logs = read(run)
        self.runs.append((path, run))
        return logs

    def _carry_out(self, run_plan: Plan, path: Path, rule: StopRule) -> Run:
        resume = self.resume and path.exists()
        return carry_out(
            run_plan, str(path), self.root, resume, False, kept=False, directory=self.directory, rule=rule
        )

    def find_undecided(
        self, run: Run, blocks: float, read: Callable[[Run], Logs], decide: Callable[[Logs], Verdict]
    ) -> tuple[Collection[int], str]:
        """Returns all cells while the verdict is open, unless it would probably take longer than there is time."""
        try:
            verdict = decide(read(run))
        except CannotMeasure:
            return (), ""
        if verdict.kind != OPEN:
            return (), ""
        if blocks != float("inf"):
            left = self._count_blocks_left(run)
            needed = verdict.more or MOST_MORE
            if left < 1 or (verdict.blocks > SURE_BLOCKS and needed > left):
                return (), ""
        return range(len(run.cells)), f"{verdict.more or 'over 1,000'} more samples would tell"

    def _count_blocks_left(self, run: Run) -> float:
        """Returns the number of blocks for which there is time. It forecasts that they take as long as earlier
        ones."""
        assert self.requested.within is not None
        blocks = len({attempt.block for attempt in run.attempts})
        seconds = sum(attempt.duration_ns for attempt in run.attempts) / 1e9
        left = self.requested.within - (time.monotonic() - self._began)
        return left * blocks / seconds if seconds else left


def _install(spec: EngineSpec, version: str) -> None:
    """Installs the version. Raises CannotMeasure with the reason if it can't be had."""
    from dyno.install.versions import install

    lines = list[str]()

    def say(line: str) -> None:
        if not lines:
            print_note(f"{spec.name}: {line}")
        lines.append(line)

    if not install(spec, version, say):
        raise CannotMeasure(version, lines[-1] if lines else "it can't be installed")
