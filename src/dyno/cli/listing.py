"""`dyno list`: the suites and engines that there are, what can run here, and the command that installs the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.text import Text

from dyno import native, registry
from dyno.cli import completion
from dyno.cli.console import output
from dyno.cli.flag_values import PATH
from dyno.contracts.model import UsageError
from dyno.contracts.settings import unknown
from dyno.crash import known_results
from dyno.host import directories
from dyno.report.about import listing

SUITES, ENGINES = "suites", "engines"


@click.command(name="list")
@click.argument("what", metavar="[suites|engines|NAME]", required=False, shell_complete=completion.LISTED)
@click.option(
    "--crash",
    type=PATH,
    metavar="FILE",
    help="A result of `dyno crash` under the engines, in place of the last ones here.",
)
def command(what: str | None, crash: Path | None) -> None:
    """List suites and engines, with their tiers, options and parameters.

    A line for each; or with a name everything about that suite or engine, or all of them.

    \b
    dyno list
    dyno list records
    dyno list engines
    """
    # Looked at first: what can't be read is one line, and nothing else.
    rows = known_results.load(directories.cache()) if crash is None else _loaded(crash)
    suites, engines = list(registry.suites()), list(registry.engines())
    chosen = [suite for suite in suites if what in (None, SUITES, suite.name)]
    named = [spec for spec in engines if what in (None, ENGINES, spec.name)]
    if not chosen and not named:
        names = [SUITES, ENGINES, *(each.name for each in suites), *(each.name for each in engines)]
        raise UsageError(unknown("suite or engine", what, dict.fromkeys(names)))
    console = output()
    served = {
        spec.name: {s.name: found for s in suites if (found := registry.through(s, spec)) is not None}
        for spec in engines
    }
    if what is None:
        listing.overview(suites, engines, served, console)
    elif chosen:
        listing.suites(chosen, console)
        if what != SUITES:
            (suite,) = chosen
            console.print(Text(f"\n{suite.name}: engines (`dyno list ENGINE` shows one)", "bold"))
            listing.states([spec for spec in engines if suite.name in served[spec.name]], served, console, suite.name)
    if what is not None and named:
        listing.engines(named, served, console)
    shown = {spec.name for spec in named} if what is not None else set()
    rows = [row for row in rows if crash is not None or row["engine"].partition(":")[0] in shown]
    if rows and named:
        # Its libraries take longer to load than all else here.
        from dyno.report.about import crashes

        console.print(Text("\nTiers that were crashed", "bold"))
        crashes.render(rows, console)
    if not native.built():
        console.print(Text(f"\n{listing.NOT_NATIVE}; {native.REMEDY}.", "yellow"), soft_wrap=True)
    for line in registry.broken():
        console.print(Text(line, "red"))


def _loaded(path: Path) -> list[dict[str, Any]]:
    from dyno.crash import results

    return results.load(path)[1]
