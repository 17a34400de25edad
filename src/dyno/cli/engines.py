"""`dyno list` and `dyno install`: the suites and engines, which can run here, and installing what engines need."""

from pathlib import Path

import click
from rich.text import Text

from dyno import registry
from dyno.cli import flag_values
from dyno.cli.console import output
from dyno.cli.flag_values import PATH
from dyno.contracts import native
from dyno.contracts.model import UsageError
from dyno.contracts.settings import unknown
from dyno.crash import known_results
from dyno.host import directories
from dyno.report.about import listing

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
    suites, engines = list(registry.suites()), list(registry.engines())
    shown_suites = [suite for suite in suites if what in (None, SUITES, suite.name)]
    shown_engines = [spec for spec in engines if what in (None, ENGINES, spec.name)]
    if not shown_suites and not shown_engines:
        names = [SUITES, ENGINES, *(each.name for each in suites), *(each.name for each in engines)]
        raise UsageError(unknown("suite or engine", what, dict.fromkeys(names)))
    console = output()
    served = {
        spec.name: {s.name: through for s in suites if (through := registry.through(s, spec)) is not None}
        for spec in engines
    }
    if what is None:
        listing.overview(suites, engines, served, console)
    elif shown_suites:
        listing.suites(shown_suites, console)
        if what != SUITES:
            (suite,) = shown_suites
            console.print(Text(f"\n{suite.name}: engines (`dyno list ENGINE` shows one)", "bold"))
            listing.states([spec for spec in engines if suite.name in served[spec.name]], served, console, suite.name)
    if what is not None and shown_engines:
        listing.engines(shown_engines, served, console)
    names = [spec.name for spec in shown_engines] if what is not None else []
    rows = [row for row in rows if crash is not None or row["engine"].partition(":")[0] in names]
    if rows and shown_engines:
        # Imported here: its libraries take longer to load than the rest of the command.
        from dyno.report.about.proofs import CRASHES

        console.print(Text("\nTiers tested by dyno crash", "bold"))
        CRASHES.render(rows, console)
    if not native.built():
        console.print(Text(f"\n{listing.NOT_NATIVE}; {native.REMEDY}.", "yellow"), soft_wrap=True)
    for line in registry.broken():
        console.print(Text(line, "red"))


@click.command(name="install")
@click.argument("engines", nargs=-1, required=True, metavar="ENGINE...", shell_complete=flag_values.ENGINE)
@click.option("--yes", is_flag=True, help="Install system packages too, as root or by sudo. Default: print how.")
def install_command(engines: tuple[str, ...], yes: bool) -> int:
    """Install what engines need: Python packages, programs, an interpreter of their own.

    Exit status: 0 if all of them can run afterwards, else 1.
    """
    from dyno.install.engine import install

    # All names are checked before anything is downloaded.
    specs = [registry.engine(name) for name in dict.fromkeys(engines)]
    console, successes = output(), []
    for spec in specs:

        def report(line: str, name: str = spec.name) -> None:
            console.print(f"{name}: {line}", soft_wrap=True)

        successes.append(install(spec, yes, tuple(registry.GROUPS.values()), report))
    return 0 if all(successes) else 1
