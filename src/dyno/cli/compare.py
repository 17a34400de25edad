"""`dyno compare`, `check`, `history` and `extrapolate`: verdicts on engines, on runs, and on growth."""

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from dyno import library, results
from dyno.cli import files
from dyno.cli.console import output
from dyno.cli.flag_values import NAME, PATH
from dyno.contracts.model import UsageError
from dyno.contracts.settings import percent, unknown_name_message
from dyno.report.formats import format_gate
from dyno.report.tables import comparison, sections, sweeps
from dyno.stats import growth
from dyno.stats.curves import FEWEST_VALUES
from dyno.stats.growth import DISK, TIME, TRIAL
from dyno.stats.history import gaps, steps
from dyno.stats.metric import metric
from dyno.stats.sweep import swept_params
from dyno.stats.verdict import MARGIN

FAILED, NOTHING = 1, 3
UNTESTABLE = 125
"""Exit status by which `git bisect run` skips a commit."""
FOR_GIT = "--bisect"
METRIC = click.option(
    "--metric",
    "by",
    metavar="NAME",
    help="Compare throughput (the default), time, cpu, memory, p50, p99, p999, response-p50 or response-p99.",
)
EQUAL = click.option("--margin", metavar="PERCENT", help="Differences up to this count as equal. Default: 5%.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, with a stable schema.")
MARKDOWN = click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown tables.")


@click.command(name="compare")
@click.argument("before", type=PATH, metavar="RUN")
@click.argument("after", type=PATH, metavar="[RUN2...]", nargs=-1)
@click.option(
    "--baseline", metavar="ENGINE", help="Compare the others with this engine. Default: the fastest of each."
)
@click.option(
    "--halves", is_flag=True, help="Compare RUN's second half of blocks with its first: did the machine drift?"
)
@click.option("--by", "across", metavar="version", help="Compare the versions of each engine, in release order.")
@click.option("--why", "explain", is_flag=True, help="Add why they differ: where the time of an item goes.")
@METRIC
@EQUAL
@JSON
@MARKDOWN
def compare_command(
    before: Path,
    after: tuple[Path, ...],
    baseline: str | None,
    halves: bool,
    across: str | None,
    explain: bool,
    **flags: Any,
) -> None:
    """Compare engines within RUN, or each RUN2 with RUN: ratios with intervals, and a verdict on each.

    \b
    dyno compare r.json
    dyno compare r.json --baseline sqlite
    dyno compare r.json --by version
    dyno compare before.json after.json
    dyno compare base.json one.json other.json
    """
    by, margin = read_metric_and_margin(flags)
    if explain and (halves or across or len(after) > 1 or flags["as_json"]):
        raise UsageError("--why explains a run or two, as tables: without --halves, --by and --json; see `dyno why`")
    comparisons = library.compare(
        before, *after, baseline=baseline, metric=by, margin=margin, halves=halves, by=across
    )
    if flags["as_json"]:
        print(json.dumps(comparisons.to_dict(), indent=2))
        return
    if not comparisons.sections:
        raise UsageError(f"{before}: nothing to compare: no two engines have a number in a phase at the same tier")
    parts, lines = comparisons.sections, comparisons.lines
    if explain:
        reasons = library.why(before, *after, baseline=baseline, margin=margin)
        parts, lines = [*parts, *reasons.sections], [*lines, *reasons.lines]
    _print(parts, lines, flags["as_markdown"])


@click.command(name="why")
@click.argument("run", type=PATH, metavar="RUN")
@click.argument("later", type=PATH, metavar="[RUN2]", required=False)
@click.option("--baseline", metavar="ENGINE", help="Explain the others by this engine. Default: the fastest of each.")
@EQUAL
@JSON
@MARKDOWN
def why_command(run: Path, later: Path | None, baseline: str | None, **flags: Any) -> None:
    """Say why engines within RUN differ, or RUN2 from RUN: where the time of an item goes.

    \b
    dyno why r.json
    dyno why r.json --baseline sqlite
    dyno why before.json after.json
    """
    _, margin = read_metric_and_margin({"by": None, **flags})
    reasons = library.why(run, later, baseline=baseline, margin=margin)
    if flags["as_json"]:
        print(json.dumps(reasons.to_dict(), indent=2))
        return
    if not reasons.sections:
        raise UsageError(f"{later or run}: nothing to explain: no row has a number")
    _print(reasons.sections, reasons.lines, flags["as_markdown"])


@click.command(name="check")
@click.argument("run", type=PATH, metavar="RUN")
@click.option("--against", "base", type=PATH, required=True, metavar="BASE", help="The earlier run.")
@click.option("--margin", metavar="PERCENT", help="How much slower a row may be. Default: 5%.")
@METRIC
@click.option("--junit", "junit_path", type=NAME, metavar="FILE", help="Also write JUnit XML, a test case per row.")
@click.option("--strict", is_flag=True, help="Fail also if a verdict is unclear.")
@click.option(
    FOR_GIT,
    "for_git",
    is_flag=True,
    help="For `git bisect run`: exit with 125 if a verdict is unclear, and with 128 after an error.",
)
@JSON
@MARKDOWN
def check_command(run: Path, base: Path, strict: bool, for_git: bool, junit_path: str | None, **flags: Any) -> int:
    """Exit with status 1 if RUN is shown to be slower than BASE by more than the margin, else with 0.

    \b
    dyno check after.json --against before.json
    dyno check after.json --against before.json --margin 10% --strict
    """
    by, margin = read_metric_and_margin(flags)
    if strict and for_git:
        raise UsageError(f"--strict and {FOR_GIT} exclude each other: an unclear commit is neither good nor bad")
    if junit_path is not None:
        files.check(junit_path)
    check = library.check(run, base, metric=by, margin=margin, strict=strict)
    if junit_path is not None:
        files.save(junit_path, format_gate(check.to_dict(), strict).encode())
    if flags["as_json"]:
        print(json.dumps(check.to_dict(), indent=2))
    else:
        _print(check.sections, check.lines, flags["as_markdown"])
    if for_git:
        return _status_for_git(check)
    if not len(check) and not check.lost:
        return NOTHING
    if check.passed:
        return 0
    return FAILED


def _status_for_git(check: library.Check) -> int:
    """Returns the exit status by which `git bisect run` marks a commit: good, bad, or to be skipped."""
    if not check.passed:
        return FAILED
    states = {row["state"] for row in check.to_dict()["changes"]}
    if not states or "unclear" in states:
        return UNTESTABLE
    return 0


@click.command(name="history")
@click.argument("runs", type=PATH, metavar="RUN...", nargs=-1, required=True)
@METRIC
@EQUAL
def history_command(runs: tuple[Path, ...], **flags: object) -> None:
    """Report in which of the run files RUN the speed of a row changed, by how much, and at which commit.

    \b
    dyno history runs/*.json
    """
    by, margin = read_metric_and_margin(flags)
    loaded = [results.load(path) for path in dict.fromkeys(runs)]
    used = None if by is None else metric(by)
    changes, lacking = steps(loaded, used, margin), gaps(loaded, used)
    lines = [*comparison.history_gaps(lacking, len(loaded)), *comparison.history_lines(changes, len(loaded))]
    _print(comparison.history(changes), lines)


def read_metric_and_margin(flags: dict[str, Any], usual: float = MARGIN) -> tuple[str | None, float]:
    """Returns the metric's name and the margin, which is `usual` unless it is given. Raises UsageError."""
    if flags.get("as_json") and flags.get("as_markdown"):
        raise UsageError("--json and --markdown exclude each other")
    if flags["by"] is not None:
        metric(flags["by"])
    if flags["margin"] is None:
        return flags["by"], usual
    try:
        return flags["by"], percent(flags["margin"])
    except ValueError as error:
        raise UsageError(f"--margin {flags['margin']}: {error}") from None


def _print(parts: list[sections.Section], lines: list[str], as_markdown: bool = False) -> None:
    if as_markdown:
        print(sections.markdown(parts, lines), end="")
        return
    console = output()
    sections.render(parts, console)
    if parts:
        console.print()
    for line in lines:
        sections.print_sentence(Text(line), console)


@click.command(name="extrapolate")
@click.argument("path", type=PATH, metavar="RUN")
@click.option("--to", "wanted", metavar="PARAM=V[,V...]", multiple=True, help="Parameter and values to forecast for.")
@click.option("--hold-out", "held", metavar="V[,V...]", help="Values of the first parameter to leave out of the fit.")
@JSON
def extrapolate_command(path: Path, wanted: tuple[str, ...], held: str | None, as_json: bool) -> None:
    """Report how times and disk in RUN grow with parameters, and forecast other values.

    \b
    dyno extrapolate r.json --to half_hours=24,48
    dyno extrapolate r.json --to half_hours=48 --hold-out 32
    dyno extrapolate r.json --to half_hours=48 --to variables=1000
    """
    run = results.load(path)
    names = swept_params(run)
    if not names:
        raise UsageError(f"{path}: no parameter has several values that are numbers")
    to: dict[str, Sequence[float]] = {}
    for each in wanted or [""]:
        name, _, values = each.partition("=")
        if name in run.cells[0].params and name not in names:
            raise UsageError(_too_few_values(run, name))
        if name not in names and (name or len(names) > 1):
            raise UsageError(unknown_name_message("--to: parameter", name, names))
        to[name or names[0]] = _numbers("--to", values)
    parameter, *also = to
    combinations = product(*to.values())
    places = {place if also else place[0]: ", ".join(f"{value:g}" for value in place) for place in combinations}
    kept_out = _numbers("--hold-out", held or "")
    fits = [fit for kind in (TIME, DISK, TRIAL) for fit in growth.growths(run, parameter, kept_out, also, kind)]
    if not fits:
        raise UsageError(f"{path}: no engine has completed a phase for several values of {parameter}")
    if as_json:
        print(json.dumps(sweeps.growth_data(fits, parameter, places, also), indent=2))
    else:
        sections.render(sweeps.growth_sections(fits, parameter, places, also), output())


def _too_few_values(run: results.Run, parameter: str) -> str:
    values = list(dict.fromkeys(cell.params[parameter] for cell in run.cells if not cell.floor))
    if len(values) > 1:
        return f"--to: the values of {parameter} are not numbers"
    return f"--to: {parameter} has one value in this run, {values[0]}: a forecast takes {FEWEST_VALUES} or more"


def _numbers(flag: str, text: str) -> Sequence[float]:
    """The numbers in a list with commas, which may be empty. Raises UsageError."""
    numbers = []
    for part in text.split(",") if text else ():
        try:
            number = float(part.replace("_", ""))
        except ValueError:
            number = 0.0
        if not 0 < number < float("inf"):
            raise UsageError(f"{flag}: expected numbers above 0, got {part!r}")
        numbers.append(number)
    return numbers
