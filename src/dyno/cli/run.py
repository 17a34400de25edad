"""`dyno run`: from flags to a run file and its table. The flags are those of the run options."""

import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import click

from dyno import registry, results
from dyno.cli import engines, files, flag_values
from dyno.cli.console import output, print_note
from dyno.cli.flag_values import PATH, Quantity, output_option, split_at_commas, work_option
from dyno.cli.progress import observer
from dyno.cli.resuming import resume_command
from dyno.cli.show import PRICES
from dyno.cli.suite_flags import add_flags, apply_flags, flags_of, given_values
from dyno.contracts.model import DECIDED, MAY_WRITE, VERSION, Refused, UsageError, Value
from dyno.contracts.passwords import mask_argument
from dyno.contracts.probe_time import USUAL_PROBES
from dyno.contracts.roles import inline_definition
from dyno.contracts.settings import PARAMS, SIZE, SWITCH, WHOLE
from dyno.contracts.versions import MOST_UNCONFIRMED
from dyno.host.directories import trouble
from dyno.library.stop_rule import STOP_RULE
from dyno.options import MOST_SAMPLES, OPTIONS, SEARCHED, Option, RunRequest
from dyno.report.tables import answers, sections, side_by_side, text
from dyno.report.tables.table import groups
from dyno.results import FLOOR_BLOCKS, Run, is_reference
from dyno.runner import parent, plan, plan_file, work_directory
from dyno.runner.parent import StopRule, forecast_time
from dyno.runner.plan import Plan
from dyno.runner.plan_file import GIB, size
from dyno.runner.probes import forecast_searches
from dyno.runner.rates import name_unpaced_phases
from dyno.runner.rows import add_address
from dyno.stats.capacity import NONE
from dyno.stats.costs import costs, read_prices
from dyno.stats.decisions import find_decisions
from dyno.stats.summary import absences, widest
from dyno.stats.verdict import approximate_samples

F = TypeVar("F", bound=Callable[..., object])
COMPLETIONS = {
    "engines": flag_values.ENGINES,
    "params": flag_values.PARAMETER,
    "preset": flag_values.PRESET,
    "tier": flag_values.TIER,
    "phases": flag_values.PHASES,
}


def run_flags(*names: str, but: Sequence[str] = (), **helps: str) -> Callable[[F], F]:
    """Adds the flags of the options with these names, or of all options `but` some. `helps`: other help texts."""
    rows = [each for each in OPTIONS if (each.name in names if names else each.name not in but)]

    def add(function: F) -> F:
        # The decorator applied last is listed first.
        for option in reversed(rows):
            kind = option.kind
            words = [option.flag]
            more = dict[str, Any]()
            if option.short:
                words.insert(0, option.short)
            if kind is WHOLE:
                more["type"] = click.IntRange(None if option.least is None else int(option.least), int(option.most))
            elif kind.read is not None:
                least = option.least or 0
                more["type"] = Quantity(kind.read, least / GIB if kind is SIZE else least)
            elif kind is SWITCH:
                words = [f"{option.flag}/--no-{option.key}"]
            function = click.option(
                *words,
                option.name,
                default=None,
                # Flags of lists may be repeated if they have a short name.
                multiple=(kind.several or kind is PARAMS) and bool(option.short),
                metavar=option.metavar or (kind.words.upper() if kind.read else None),
                shell_complete=COMPLETIONS.get(option.name),
                help=helps.get(option.name, option.help),
                **more,
            )(function)
        return function

    return add


def request(what: str, given: dict[str, object], on: str | None = None) -> RunRequest:
    """The request for a suite, or of a plan file overridden by flags. `on`: address of the user's server for all
    engines. Raises UsageError."""
    if what.endswith(".toml"):
        base = plan_file.read(Path(what))
    else:
        base = RunRequest(suite=what)
    values = {each.name: value for each in OPTIONS if (value := _value(each, given[each.name])) not in (None, [])}
    # They exclude each other: a flag overrides the other one's key, too.
    if "duration" in values:
        base = replace(base, budget=None)
    if "budget" in values:
        base = replace(base, duration=None)
    if "limit" in values:
        # The file's time is that of its own run.
        chosen: dict[str, Any] = {name: () if name == "rate" else None for name in (*SEARCHED, "within")}
        base = replace(base, **chosen)
    base = replace(base, **{**values, "params": {**base.params, **values.get("params", {})}})
    if on is None:
        return base
    return replace(base, engines=add_address(registry.suite(base.suite), base.engines, on))


def on_fleet(requested: RunRequest, address: str, path: str | None, resume: bool) -> int:
    """Runs the plan on each machine of the scheduler. Returns the worst of their exit statuses, NOTHING for a machine
    that did not come back. Raises UsageError."""
    from dyno.machines.scheduler import MachineLost, check_address
    from dyno.runner.fleet import plan_text, run_fleet

    check_address(address, bool(requested.plain_tcp), "--fleet")
    if requested.load_from is not None:
        raise UsageError("--fleet and --load-from exclude each other: each machine of a fleet loads its own servers")
    suite, definition = registry.suite(requested.suite), requested.definition
    requested.check()
    text = plan_text(requested, None if definition is None else inline_definition(suite, definition, requested.base))
    file = files.run_file(path or f"{requested.suite}-{datetime.now():%Y%m%d-%H%M%S}.json")
    try:
        statuses = run_fleet(address, text, file, resume, print_note)
    except Refused as error:
        raise UsageError(f"--fleet: {error}") from None
    except MachineLost as error:
        raise UsageError(f"--fleet: {error}; what was fetched is kept; to continue: {resume_command(file)}") from None
    return max(NOTHING if status < 0 else status for status in statuses.values())


def show_answers(requested: RunRequest, params: Mapping[str, Value], root: Path | None) -> int:
    """Executes one short run with these parameters, and prints the answers of the engines side by side."""
    few = {**requested.params, **{name: [value] for name, value in params.items()}}
    short = replace(requested, samples=1, params=few, until=None, duration=None, limit=(), clients=(1,), rate=())
    with TemporaryDirectory(prefix="dyno-try-") as home:
        run = carry_out(plan.make(short), str(Path(home, "try.json")), root, False, False, kept=False)
        sections.render(answers.sections(run), output())
    return status(run)


def _value(option: Option, given: Any) -> Any:
    """The value for the field of RunRequest; None or an empty list if the flag was not given. Raises UsageError."""
    if option.kind is PARAMS:
        return flag_values.params(given)
    if option.kind.several:
        if isinstance(given, str):
            texts = [given]
        else:
            texts = list(given or ())
        if texts and not split_at_commas(texts):
            raise UsageError(f"{option.flag}: expected at least one value, got {texts[0]!r}")
        return split_at_commas(texts)
    if option.kind is SIZE and given is not None:
        return size(option.name, given)
    return given


FAILED, NOTHING = 1, 3
PASSWORD_SHOWN = (
    "warning: other users can read the password on this command line (ps): use url=env:NAME or url=file:PATH"
)
RESUME = click.option("--resume", is_flag=True, help="Continue an interrupted run in the run file.")
OVERWRITE = click.option("--overwrite", is_flag=True, help="Replace the run file if it exists.")
CONFIRMED = click.option("--yes", "confirmed", is_flag=True, help="Measure more than 12 versions of an engine, too.")


@click.command(name="run")
@click.argument("what", metavar="SUITE|PLAN.toml", shell_complete=flag_values.SUITE)
@run_flags("engines")
@click.option(
    "--on",
    metavar="ADDRESS",
    help="Your own server or cluster, for all engines: tcp://scheduler:8786, spark://host:7077, env:NAME, file:PATH.",
)
@run_flags(but=["engines"])
@output_option("Run file to write. Default: SUITE-DATE-TIME.json.", "RUN")
@RESUME
@OVERWRITE
@click.option(
    "--blocks",
    "most",
    type=click.IntRange(1, MOST_SAMPLES),
    metavar="N",
    help="Stop after N blocks; --resume runs the next ones. For measuring two versions in turns.",
)
@click.option("--all", "whole", is_flag=True, help="Print every table at the end: intervals, latencies and doubts.")
@click.option("--prices", "table", type=PATH, metavar="FILE", help=PRICES)
@click.option("--dry-run", "dry", is_flag=True, help="Print the plan and its measuring time; run nothing.")
@CONFIRMED
@click.option("--fleet", metavar="SCHEDULER", help="Run the whole plan on each machine of this scheduler of Dask.")
@work_option()
def run_command(
    what: str,
    path: str | None,
    resume: bool,
    overwrite: bool,
    most: int | None,
    dry: bool,
    confirmed: bool,
    whole: bool,
    root: Path | None,
    table: Path | None,
    on: str | None,
    fleet: str | None = None,
    **flags: Any,
) -> int:
    """Measure engines on the work of SUITE, or run a plan file.

    \b
    dyno run records
    dyno run records -e lmdb,sqlite:journal_mode=delete --tier power --samples 5 -o r.json
    dyno run records -e sqlite -p txn=1,100,all
    """
    requested = request(what, flags, on)
    suite = registry.suite(requested.suite)
    suite_values = given_values(suite, flags)
    requested = apply_flags(requested, suite_values)
    for flag in flags_of(suite):
        if flag.tries is not None and flag.name in suite_values:
            return show_answers(requested, flag.tries, root)
    if fleet is not None:
        here = {
            "--dry-run": dry,
            "--overwrite": overwrite,
            "--blocks": most,
            "--all": whole,
            "--prices": table,
            "--work": root,
        }
        if given := [flag for flag, value in here.items() if value]:
            raise UsageError(f"--fleet and {given[0]} exclude each other: each machine runs the plan by itself")
        return on_fleet(requested, fleet, path, resume)
    if resume and path:
        run_plan = plan.make_resumed(requested, Path(path))
    else:
        run_plan = plan.make(requested)
    prices = None if table is None else read_prices(table)
    # An option that names a variable or a file is no password.
    words = [re.sub(r"\w+=(env|file):[^+,]*", "", word) for word in (*flags["engines"], on or "")]
    if any(mask_argument(word) != word for word in words):
        print_note(PASSWORD_SHOWN)
    if dry:
        engines.print_plan(run_plan.suite, run_plan.phases, run_plan.cells, _forecast(run_plan), output())
        return 0
    if not confirmed:
        _check_versions(run_plan)
    run = carry_out(run_plan, path, root, resume, overwrite, most)
    text.render(run, output(), whole=whole)
    if prices is not None:
        sections.render([side_by_side.by_cost([(run, "", costs(run, prices))], prices)], output())
    return status(run)


add_flags(run_command)


def _check_versions(run_plan: Plan) -> None:
    """Raises UsageError if the plan has more versions of an engine than a range may have unconfirmed."""
    requested = {(cell.engine, cell.options[VERSION]) for cell in run_plan.cells if VERSION in cell.options}
    for engine, count in Counter(engine for engine, _ in requested).items():
        if count > MOST_UNCONFIRMED:
            raise UsageError(f"{count} versions of engine {engine}: add --yes to measure, or --dry-run to see them")


def _forecast(run_plan: Plan) -> str:
    """The number of trials and the longest measuring time, as a sentence."""
    if run_plan.limit:
        cells = len(run_plan.cells)
        searches = f"{cells} search{'es' * (cells != 1)} of about {USUAL_PROBES} probes each"
        usual, most = map(engines.clock, forecast_searches(run_plan))
        slow = "longer for slow engines and with starting, loading and checking"
        return f"{searches}: {usual} if they all take their least time, {slow}; {most} at most (--within)"
    trials, seconds = forecast_time(run_plan)
    fewer = run_plan.samples > FLOOR_BLOCKS and any(is_reference(run_plan.cells, cell) for cell in run_plan.cells)
    blocks, phases = run_plan.samples, len(run_plan.phases)
    # The sentence explains the words trial and block, because it is the first to use them.
    count = f"{trials:,} trial{'s' * (trials != 1)} in {blocks} block{'s' * (blocks != 1)}"
    if fewer:
        floors = f"; floors in {FLOOR_BLOCKS} of them"
    else:
        floors = ""
    each = f"(one of every row, shuffled{floors}), of {phases} phase{'s' * (phases != 1)} each"
    whole = f"with starting, loading and checking {engines.clock(trials * run_plan.timeout)} at most (the timeouts)"
    sentence = f"{count} {each}: measuring takes {engines.clock(seconds)} at most; {whole}"
    if run_plan.until is not None and run_plan.within is not None:
        goal = "each comparison is decided" if run_plan.until == DECIDED else "each interval is narrow"
        sentence += f"; further blocks follow until {goal},"
        sentence += f" for {engines.clock(run_plan.within)} at most"
    if note := _describe_ignored_requests(run_plan):
        return f"{sentence}\n{note}"
    return sentence


def _describe_ignored_requests(run_plan: Plan) -> str:
    """What the plan does not do although it was requested: a line each."""
    rate = name_unpaced_phases(run_plan.measured_phases, run_plan.cells)
    return "\n".join([*filter(None, [rate]), *(f"left out: {why}" for why in run_plan.left_out)])


def carry_out(
    run_plan: Plan,
    path: str | None,
    root: Path | None,
    resume: bool,
    overwrite: bool,
    most: int | None = None,
    show: Callable[[Run], object] | None = None,
    kept: bool = True,
    within: float | None = None,
    directory: Path | None = None,
    rule: StopRule | None = None,
) -> Run:
    """Executes the plan with a progress display, and prints where the run file is if it is `kept`. `show`: prints
    what an interrupted run has measured. `within`: seconds after which no block is begun. `directory`: the command's
    output, if it is not the run file. `rule`: ends a run whose forecast and ending the caller prints itself. Raises
    UsageError."""
    if resume and overwrite:
        raise UsageError("--resume and --overwrite exclude each other")
    if resume and path is None:
        raise UsageError("--resume needs -o RUN, the file to continue")
    if sys.stderr.isatty() and rule is None:
        print_note(_forecast(run_plan))
    elif note := _describe_ignored_requests(run_plan):
        # Not progress: the user requested it.
        print_note(note)
    file = files.run_file(path or f"{run_plan.suite}-{datetime.now():%Y%m%d-%H%M%S}.json")
    target = directory or file
    try:
        with observer() as listener:
            home = root or work_directory.default_root()
            run = parent.execute(run_plan, file, home, listener, resume, overwrite, rule or STOP_RULE, most, within)
    except KeyboardInterrupt:
        if completed := _completed_trials(file, target):
            if show is not None:
                show(results.load(file))
            if kept:
                print(completed, file=sys.stderr)
        raise
    except results.RunFileLost as error:
        print_note(f"the run stopped: {trouble(error)}; its results are lost")
        raise click.exceptions.Exit(FAILED) from None
    except OSError as error:
        if completed := _completed_trials(file, target):
            print_note(f"the run stopped: {trouble(error)}; {completed}")
            raise click.exceptions.Exit(FAILED) from None
        raise UsageError(f"{trouble(error)}; nothing was measured") from None
    risky = [
        f"{run.cells[attempt.cell].engine} {caveat.text}"
        for attempt in run.attempts
        for caveat in attempt.caveats
        if caveat.code == MAY_WRITE
    ]
    for line in dict.fromkeys(risky):
        print_note(line)
    if rule is None and (text := _describe_ending(run)):
        print(text, file=sys.stderr)
    if kept:
        print(f"Written to {file}", file=sys.stderr)
    return run


def _describe_ending(run: Run) -> str:
    """Returns why a run with `until` ended before it reached its goal; empty if it reached it."""
    until = run.plan.until
    if until is None or run.ending not in ("time", "forecast"):
        return ""
    if until != DECIDED:
        return f"The time was up: {widest(run, until) or 'all intervals are narrow'}"
    decisions = find_decisions(run)
    if not decisions.open:
        return ""
    fewest, most = approximate_samples(decisions.least), approximate_samples(decisions.most)
    more = f"{fewest} more sample{'s' * (decisions.least != 1)} would decide "
    if decisions.least < decisions.most:
        more += f"the first of them, {most} all"
    else:
        more += "all of them"
    ended = "The time was up" if run.ending == "time" else "Stopped before the time was up"
    return f"{ended}: {decisions.describe()}; {more}"


def _completed_trials(file: Path, target: Path) -> str | None:
    """What the file of a stopped run has, and how to continue; None if no trial has ended. `target`: the command's
    output."""
    with suppress(UsageError):
        run = results.load(file)
        ended, planned = run.progress
        if ended:
            # The number of a search's probes isn't known before.
            if run.limits:
                count = f"{ended} trials"
            else:
                count = f"{ended} of {planned} trials"
            return f"{count} are kept in {file}; to continue: {resume_command(target)}"
    return None


def status(run: Run) -> int:
    """Exit status: 0 if all rows are valid, 1 if some are, 3 if none is."""
    rows = [row.summary for group in groups(run) for row in group.rows if not row.summary.cell.floor]
    # That no rate holds is an answer, too.
    valid = [row for row in rows if row.valid or (row.searched and row.searched.capacity.kind == NONE)]
    probed = any(row.searched and row.searched.probes for row in rows)
    if not valid and not probed and (rows or absences(run)):
        return NOTHING
    if len(valid) == len(rows):
        return 0
    return FAILED
