"""`dyno list` and `dyno install`: the suites and engines, which can run here, and installing what engines need.
Listings, also of a plan, are printed from declarations, without a measurement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.text import Text

from dyno import registry
from dyno.cli import flag_values
from dyno.cli.console import output
from dyno.cli.flag_values import PATH
from dyno.contracts import native, versions
from dyno.contracts.engine import EngineSpec
from dyno.contracts.model import Tier, UsageError
from dyno.contracts.settings import Setting, unknown_name_message
from dyno.contracts.suite import Suite
from dyno.contracts.versions import VERSIONED, InstalledVersion
from dyno.crash import known_results
from dyno.host import directories
from dyno.host.installation import extra_packages
from dyno.report.tables import units
from dyno.report.tables.sections import Column, print_sentence, print_table

if TYPE_CHECKING:
    # It imports msgspec, which is slow to load and which listings don't need.
    from dyno.contracts.cell import Cell

UNPROVEN = "†"
"""Sign of a tier of an engine that was never run against the real server."""
NOT_NATIVE = "The native loop is not built here: the Python loop measures, and takes several times as long"
OVERVIEW = "`dyno list NAME` shows everything about a suite or an engine; `dyno install NAME` gets what is missing."
READY = "ready"
UNTESTED = "untested"
MISSING = "missing"
Ports = Mapping[str, EngineSpec]
"""An engine's declaration for the port of each suite that measures it, by the suite's name."""


def _short(title: str) -> str:
    """Returns the part before the first colon or bracket."""
    return title.partition(":")[0].partition(" (")[0]


def print_states(
    engines: Sequence[EngineSpec], ports: Mapping[str, Ports], console: Console, suite: str | None = None
) -> None:
    """Prints a line for each engine, which says whether it can run here. With `suite`, looks only at that suite."""
    rows, styles = [], dict[str, str]()
    for spec in engines:
        by_suite = ports[spec.name]
        if suite:
            specs = [by_suite[suite]]
        else:
            specs = list(by_suite.values()) or [spec]
        every = [_state(through) for through in specs]
        # An engine that is ready in any suite counts as ready.
        state, style = next((one for one in every if one[1] == "green"), every[0])
        if style == "green":
            short = READY
        elif state.startswith(UNTESTED):
            short = UNTESTED
        else:
            short = MISSING
        styles[short] = style
        rows.append((spec.name, short, _short(spec.title) if suite else ", ".join(by_suite)))
    table(("engine", "here", "what it is" if suite else "suites"), rows, console, styles)


def print_suites(chosen: Sequence[Suite], console: Console) -> None:
    """Prints the suites with their phases, parameters and presets."""
    table(("suite", "what it asks"), [(suite.name, suite.title) for suite in chosen], console)
    for suite in chosen:
        phases = [(phase.name, phase.title, f"{phase.unit}s", phase.checked) for phase in suite.phases]
        presets = [
            (name, units.params(preset.params), str(preset.samples), f"{preset.budget:g} s")
            for name, preset in suite.presets.items()
        ]
        console.print(Text(f"\n{suite.name}: phases", "bold"))
        table(("phase", "what it does", "counts", "how it is checked"), phases, console)
        console.print(Text(f"\n{suite.name}: parameters (-p NAME=VALUE[,VALUE...])", "bold"))
        _settings(suite.params, console)
        console.print(Text(f"\n{suite.name}: presets (--preset NAME)", "bold"))
        table(("preset", "parameters", "samples", "budget of a phase"), presets, console)


def print_engines(chosen: Sequence[EngineSpec], ports: Mapping[str, Ports], console: Console) -> None:
    """Prints the engines with their known gaps and options."""
    console.print()
    rows, styles = list[Sequence[str]](), dict[str, str]()
    for spec in chosen:
        # Suites in which the engine has the same properties share a line. The state is determined once for each port,
        # because that searches modules and programs.
        lines: dict[str, tuple[list[str], EngineSpec, str]] = {}
        for suite, through in (ports[spec.name] or {"": spec}).items():
            state, style = _state(through)
            styles[state] = style
            same = repr((through.clients, list(through.tiers), through.default_tier, state))
            lines.setdefault(same, ([], through, state))[0].append(suite)
        name, title = spec.name, spec.title
        for in_suites, through, state in lines.values():
            tiers = []
            for tier in through.tiers:
                # Tier volatile promises nothing, so there is nothing to prove.
                if through.listing.untested and tier is not Tier.VOLATILE:
                    unproven = UNPROVEN
                else:
                    unproven = ""
                tiers.append(f"{tier.value}{'*' if tier is through.default_tier else ''}{unproven}")
            rows.append(
                (name, title, ", ".join(in_suites), ", ".join(tiers) or units.UNKNOWN, through.clients, state)
            )
            name = title = ""
    table(("engine", "what it is", "suites", "tiers", "clients", "here"), rows, console, styles)
    console.print(Text("* the tier without --tier. Clients: how several share it; `one` refuses more.", "dim"))
    if any(UNPROVEN in row[3] for row in rows):
        console.print(
            Text(f"{UNPROVEN} declared, not proven. `dyno selftest --tiers` proves tiers, where it can.", "dim")
        )
    gaps = [
        f"  {spec.name}, {port}: {gap.check} ({gap.kind}): {gap.reason}"
        for spec in chosen
        for port, about in spec.ports.items()
        for gap in about.gaps
    ]
    if gaps:
        console.print(Text("\nKnown gaps", "bold"))
    for line in gaps:
        print_sentence(Text(line), console)
    for spec in chosen:
        options = {spec.name: spec.options, **{f"{spec.name}, {port}": a.options for port, a in spec.ports.items()}}
        for title, settings in options.items():
            if settings:
                console.print(Text(f"\n{title}: options (-e {spec.name}:OPTION=VALUE[+OPTION=VALUE])", "bold"))
                _settings(settings, console)


def print_versions(chosen: Sequence[EngineSpec], console: Console, text: str = "") -> None:
    """Prints the versions of engines in the cache: all, or those that `text` names. Raises UsageError if an engine
    has none of that name."""
    rows = []
    for spec in chosen:
        here = [] if spec.versions is None else versions.list_installed(spec.name)
        if text:
            line = 0 if spec.versions is None else spec.versions.line
            here = versions.choose_installed(spec.name, text, line)
            if not here:
                installs = f"dyno install {spec.name}{VERSIONED}{text}"
                raise UsageError(f"engine {spec.name}{VERSIONED}{text} is not installed: {installs}")
        rows += [(f"{spec.name}{VERSIONED}{each.version}", units.size(each.disk_bytes)) for each in here]
    if rows:
        console.print(Text("\nVersions in the cache (`dyno uninstall ENGINE@VERSION` removes one)", "bold"))
        table(("version", "size"), rows, console)


def print_cache_size(engines: Sequence[EngineSpec], console: Console) -> None:
    """Prints how many versions of engines are in the cache, if any, and their size."""
    installed = [each for spec in engines if spec.versions for each in versions.list_installed(spec.name)]
    if installed:
        size = units.size(sum(each.disk_bytes for each in installed))
        count = f"{len(installed)} version{'s' * (len(installed) > 1)}"
        print_sentence(Text(f"{count} of engines in the cache, {size}: `dyno list engines` shows each."), console)


def _state(spec: EngineSpec) -> tuple[str, str]:
    """Returns the state of an engine here, and the style of this text."""
    if spec.find_missing_modules():
        return spec.remedy or str(spec.explain_unavailability()), "yellow"
    if needing := spec.find_unmet_need():
        return needing, "yellow"
    if spec.listing.untested:
        return f"{UNTESTED}: {spec.listing.untested}", "yellow"
    return READY, "green"


def _settings(settings: Iterable[Setting], console: Console) -> None:
    rows = [(setting.name, str(setting.default) or "–", setting.help) for setting in settings]
    table(("name", "default", "what it is"), rows, console)


def table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], console: Console, styles: Mapping[str, str] | None = None
) -> None:
    """Prints a table. `styles`: styles of cells, by their text."""
    first, *others = heads
    columns = [Column(first, True, style="bold"), *(Column(head, True, folds=True) for head in others)]
    print_table(columns, rows, console, marks=styles)


def print_plan(suite: str, phases: Sequence[str], cells: Sequence[Cell], sentence: str, console: Console) -> None:
    """Prints the rows of a plan, with the parameters that differ between them."""
    first = cells[0].params if cells else {}
    same = {name: value for name, value in first.items() if all(cell.params[name] == value for cell in cells)}
    varying = [name for name in first if name not in same]
    console.print(Text(f"{suite}: {' '.join(f'{name}={value}' for name, value in same.items())}"))
    console.print(Text(f"phases: {', '.join(phases)}"))
    console.print()
    rows = []
    for cell in cells:
        name, tier = cell.label + " (floor)" * cell.floor, "as set" if cell.follows else cell.tier_name or ""
        rows.append((name, tier, *(str(cell.params[each]) for each in varying)))
    print_table([Column(name, left=True, folds=True) for name in ("engine", "tier", *varying)], rows, console)
    console.print()
    print_sentence(Text(sentence), console)


def clock(seconds: float) -> str:
    """Formats a time: '45 s', '6 min 20 s', '2 h 5 min'."""
    whole = round(seconds)
    if whole < 60:
        if seconds < 10:
            return f"{seconds:.2g} s"
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        if rest:
            return f"{minutes} min {rest} s"
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if minutes:
        return f"{hours} h {minutes} min"
    return f"{hours} h"


SUITES, ENGINES = "suites", "engines"


@click.command(name="list")
@click.argument("what", metavar="[suites|engines|NAME]", required=False, shell_complete=flag_values.LISTED)
@click.option(
    "--crash",
    type=PATH,
    metavar="FILE",
    help="Show the results in this file of `dyno crash`, not this machine's latest ones.",
)
def list_command(what: str | None, crash: Path | None) -> None:
    """List suites and engines, with their tiers, options and parameters.

    Without a name, a line for each. With a name, everything about that suite or engine, or about all of them.

    \b
    dyno list
    dyno list records
    dyno list engines
    """
    # Read first, so that an unreadable file is an error before anything is printed.
    if crash is None:
        rows = known_results.load(directories.cache())
    else:
        from dyno.crash import results

        rows = results.load(crash)[1]
    what, _, version = (None, "", "") if what is None else what.partition(VERSIONED)
    suites, engines = list(registry.suites()), list(registry.engines())
    shown_suites = [suite for suite in suites if what in (None, SUITES, suite.name)]
    shown_engines = [spec for spec in engines if what in (None, ENGINES, spec.name)]
    if not shown_suites and not shown_engines:
        names = [SUITES, ENGINES, *(each.name for each in suites), *(each.name for each in engines)]
        raise UsageError(unknown_name_message("suite or engine", what, dict.fromkeys(names)))
    console = output()
    served = {
        spec.name: {s.name: through for s in suites if (through := registry.reduce_to_suite(s, spec)) is not None}
        for spec in engines
    }
    if what is None:
        table(("suite", "what it asks"), [(suite.name, _short(suite.title)) for suite in suites], console)
        console.print()
        print_states(engines, served, console)
        console.print(f"\n{OVERVIEW}")
    elif shown_suites:
        print_suites(shown_suites, console)
        if what != SUITES:
            (suite,) = shown_suites
            console.print(Text(f"\n{suite.name}: engines (`dyno list ENGINE` shows one)", "bold"))
            print_states([spec for spec in engines if suite.name in served[spec.name]], served, console, suite.name)
    if what is not None and shown_engines:
        print_engines(shown_engines, served, console)
    if what is None:
        print_cache_size(shown_engines, console)
    elif shown_engines:
        print_versions(shown_engines, console, version)
    if what is not None:
        names = [spec.name for spec in shown_engines]
    else:
        names = []
    rows = [row for row in rows if crash is not None or row["engine"].partition(":")[0] in names]
    if rows and shown_engines:
        # Imported here: its libraries take longer to load than the rest of the command.
        from dyno.report.outcomes import CRASHES

        console.print(Text("\nTiers tested by dyno crash", "bold"))
        CRASHES.render(rows, console)
    if not native.is_built():
        print_sentence(Text(f"\n{NOT_NATIVE}; {native.REMEDY}.", "yellow"), console)
    for line in registry.list_broken():
        console.print(Text(line, "red"))


@click.command(name="install")
@click.argument("engines", nargs=-1, required=True, metavar="ENGINE...", shell_complete=flag_values.ENGINE)
@click.option("--yes", is_flag=True, help="Install system packages too, as root or by sudo. Default: print how.")
@click.option(
    "--upgrade",
    multiple=True,
    metavar="PACKAGE[==VERSION]",
    help="Replace this installed Python package. Others keep their versions.",
)
def install_command(engines: tuple[str, ...], yes: bool, upgrade: tuple[str, ...]) -> int:
    """Install what engines need: Python packages, programs, an interpreter of their own.

    Installs only what is missing: a package that is installed keeps its version, which may be the one under test.

    \b
    dyno install lmdb postgresql
    dyno install duckdb --upgrade duckdb==2.0.0
    dyno install duckdb@1.1 postgresql@14..18

    \b
    `compression` stands for the packers of that suite. Exit status: 0 if all of them can run afterwards, else 1.
    """
    from packaging.requirements import InvalidRequirement, Requirement

    from dyno.install.engine import install, install_extra
    from dyno.install.versions import install as install_versions

    try:
        replaced = [Requirement(each) for each in upgrade]
    except InvalidRequirement:
        raise UsageError(
            f"--upgrade {' '.join(upgrade)}: expected packages such as duckdb or duckdb==2.0.0"
        ) from None
    # All names are checked before anything is downloaded.
    suites = registry.names("suite")
    extras = {name: packages for name in engines if name in suites and (packages := extra_packages(name))}
    specs = {name: None if name in extras else registry.engine(name.partition(VERSIONED)[0]) for name in engines}
    for name, spec in specs.items():
        if spec is not None and VERSIONED in name:
            registry.versions_of(spec)
    console, successes = output(), []
    for name, spec in specs.items():

        def report(line: str, name: str = name) -> None:
            console.print(f"{name}: {line}", soft_wrap=True)

        groups = tuple(registry.GROUPS.values())
        version = name.partition(VERSIONED)[2]
        if spec is None:
            successes.append(install_extra(extras[name], report, replaced))
        elif VERSIONED in name:
            successes.append(install_versions(spec, version, report))
        else:
            successes.append(install(spec, yes, groups, report, replaced))
    if all(successes):
        return 0
    return 1


@click.command(name="uninstall")
@click.argument("engines", nargs=-1, required=True, metavar="ENGINE@VERSION...")
def uninstall_command(engines: tuple[str, ...]) -> int:
    """Remove installed versions of engines from the cache.

    What `dyno install ENGINE` installed stays.

    \b
    dyno uninstall duckdb@1.1
    dyno uninstall duckdb@all postgresql@12..14
    """
    from dyno.install.versions import uninstall

    chosen = list[tuple[str, list[InstalledVersion]]]()
    for text in engines:
        name, _, version = text.partition(VERSIONED)
        line = registry.versions_of(registry.engine(name)).line
        if not version:
            raise UsageError(f"uninstall {text}: expected {name}@VERSION, or {name}@all")
        here = versions.list_installed(name)
        named = here if version == versions.ALL else versions.choose_installed(name, version, line)
        if not named:
            there = ", ".join(each.version for each in here) or "none"
            raise UsageError(f"uninstall {text}: no such version is installed; there are {there}")
        chosen.append((name, named))
    for name, removed in chosen:
        for each in removed:
            freed = uninstall(name, each, print)
            print(f"{name}@{each.version}: removed, {units.size(freed)}")
    return 0
