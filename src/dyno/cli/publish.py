"""`dyno publish`, and `dyno replicate BUNDLE`: shares a run, and repeats one that somebody else has shared."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dyno import registry
from dyno.bundles import bundle
from dyno.bundles.anonymous import PATH_MARK
from dyno.bundles.bundle import PLAN_FILE, Bundle
from dyno.bundles.container import ENDING
from dyno.cli import files
from dyno.cli.console import output
from dyno.cli.flag_values import PATH, output_option
from dyno.cli.run import carry_out, status
from dyno.contracts.engine import EngineSpec
from dyno.contracts.model import UsageError
from dyno.contracts.roles import define_suite, inline_definition
from dyno.contracts.sanitize import sanitize
from dyno.contracts.settings import Setting
from dyno.options import RunRequest, as_list
from dyno.report.tables import machines, notes, sections, units
from dyno.report.tables.sections import Section
from dyno.results import Run
from dyno.runner import plan, plan_file
from dyno.runner.rows import find_unavailable, parse_entry
from dyno.servers.user_server import URL
from dyno.stats import machine_choice
from dyno.stats.agreement import CHAIN, agree
from dyno.stats.summary import summarize

if TYPE_CHECKING:
    from dyno.contracts.model import Fact

PROBE = "any text"


@click.command(name="publish")
@click.argument("run_file", type=PATH, metavar="RUN")
@output_option("Bundle to write. Default: RUN's name, in .dyno.", "FILE.dyno")
@click.option("--overwrite", is_flag=True, help="Replace FILE.dyno if it exists.")
def publish_command(run_file: Path, path: str | None, overwrite: bool) -> None:
    """Pack RUN with its plan and data as a bundle, which others can verify and repeat.

    \b
    dyno publish r.json
    dyno replicate r.dyno
    """
    target = Path(path or files.sidecar(run_file, ENDING))
    if target.suffix != ENDING:
        raise UsageError(f"-o {target}: the name of a bundle ends in {ENDING}")
    if target.exists() and not overwrite:
        raise UsageError(f"{target} exists: choose another name by -o, or replace it by --overwrite")
    files.save(str(target), bundle.pack(run_file))


# -- repeating ------------------------------------------------------------------------------------------------


def repeat(shared: Path, trust: bool, samples: int | None, **flags: Any) -> int:
    """Verifies a bundle, shows what it would run, runs it, and compares the verdicts. Returns the exit status."""
    with bundle.open_bundle(shared) as found:
        request = plan_file.parse(found.plan, f"{shared}: {PLAN_FILE}", found.home)
        _show(found)
        # To find out whether an engine can run may start its program: ask first.
        _ask(shared, found, request, trust)
        suite = registry.suite(request.suite)
        if request.definition is not None:
            suite = define_suite(suite, inline_definition(suite, request.definition, request.base))
        missing = {
            named.asked: "was a server or a file of whoever made it"
            for named in map(parse_entry, request.engines)
            if URL in named.options or any(PATH_MARK in str(value) for value in named.options.values())
        }
        missing |= find_unavailable(
            suite, [entry for entry in request.engines if parse_entry(entry).asked not in missing]
        )
        for name, why in missing.items():
            print(f"not run here: {name} {why}", file=sys.stderr)
        able = [entry for entry in request.engines if parse_entry(entry).asked not in missing]
        if not able:
            raise UsageError(f"{shared}: none of its engines can run here; `dyno list` says what to install")
        made = plan.make(replace(request, engines=able, samples=samples or request.samples))
        run = carry_out(made, **flags)
        sections.render(_comparison(found.run, run), output())
        return status(run)


def _show(found: Bundle) -> None:
    """Prints where the published run is from, its plan, and its scripts."""
    run, console = found.run, output()
    about = [
        f"measured: {notes.trials(run)}; {notes.length(run)}",
        f"on: {notes.machine(run)}",
        f"versions: {notes.versions(run)}",
    ]
    # Nothing of a stranger's text may be hidden, or control the terminal.
    text = (found.home / PLAN_FILE).read_text()
    plan_lines = [sanitize(line, len(line), keep="") for line in text.split("\n")]
    sections.render([Section(f"{found.path}", lines=about), Section("Its plan", lines=plan_lines)], console)


def _ask(path: Path, found: Bundle, request: RunRequest, trust: bool) -> None:
    """Raises UsageError unless the user wants to run the plan."""
    if found.left_out:
        each = found.left_out[0]
        raise UsageError(
            f"{path} was published without {each.name} ({units.size(each.bytes)}, SHA-256 {each.sha256}): it can't be"
            " repeated without the data"
        )
    if trust:
        return
    if code := next(_code(request), None):
        raise UsageError(f"{path} runs {code} of whoever made it: read its plan, then add --trust")
    if not sys.stdin.isatty():
        raise UsageError(f"{path}: nobody can be asked here whether to run its plan: add --trust")
    click.confirm("Run it here?", abort=True, err=True)


def _code(request: RunRequest) -> Iterator[str]:
    """Yields what in a plan could run code, or name something of this machine: scripts, functions, commands, and
    options and parameters that take any text, such as programs, devices and settings of servers."""
    if request.definition is not None:
        yield "scripts"
    for entry in request.engines:
        named = parse_entry(entry)
        spec = registry.attempt("engine", named.name)
        if not isinstance(spec, EngineSpec):
            # It is not here, and will be left out.
            continue
        if spec.listing.labelled:
            yield "code"
        yield from (f"option {name} of {spec.name}" for name in _free(spec.options, named.options))
    params = registry.suite(request.suite, request.definition).params
    yield from (f"parameter {name}" for name in _free(params, request.params))


def _free(settings: Sequence[Setting], given: Mapping[str, object]) -> Iterator[str]:
    """Yields the names of values that are not one of a few, or a number."""
    by_name = {setting.name: setting for setting in settings}
    for name, values in given.items():
        setting = by_name.get(name)
        if any(isinstance(value, str) and value != (setting and setting.default) for value in as_list(values)) and (
            setting is None or setting.address or setting.hold is not None or _takes_any_text(setting)
        ):
            yield name


def _takes_any_text(setting: Setting) -> bool:
    try:
        setting.parse(PROBE)
    except ValueError:
        return False
    return True


def _comparison(published: Run, run: Run) -> Iterator[Section]:
    """Yields the ratios of engines within each of the two runs, and whether their answers agree."""
    named = [replace(published, path=Path("published")), replace(run, path=Path("here"))]
    tables = list(machines.engines_by_machine(machine_choice.machines(named)))
    nothing = Section("Nothing to compare", lines=["No two engines have a number in a phase of both runs."])
    yield from tables or [nothing]
    one, other = map(_answers, named)
    rows = [
        (*place, "yes" if all(agree(mine, theirs) for mine, theirs in product(one[place], other[place])) else "no")
        for place in one
        if place in other
    ]
    if rows:
        heads = ("engine", "phase", "same answers")
        yield Section("Answers", heads=heads, rows=rows, left=heads, keys=heads[:2])
    legend = (
        "No ratio has figures of two machines. A checksum says that a file is whole; whether its figures are true,"
        " only repetitions tell."
    )
    yield Section("", legend=[legend])


def _answers(run: Run) -> dict[tuple[str, str], list[Mapping[str, Fact]]]:
    """Returns the facts about compared answers, by engine and phase."""
    facts_of: dict[tuple[str, str], list[Mapping[str, Fact]]] = {}
    for row in summarize(run):
        if facts := [sample.facts for sample in row.samples if CHAIN in sample.facts]:
            facts_of.setdefault((row.cell.asked, row.phase), []).extend(facts)
    return facts_of
