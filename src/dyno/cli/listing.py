"""`dyno list`: the suites and engines that there are, what can run here, and the command that installs the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.text import Text

from dyno import native, places, registry
from dyno.cli.console import output
from dyno.crash import known
from dyno.report import listing


@click.command(name="list")
@click.argument("what", type=click.Choice(["suites", "engines"]), required=False)
@click.option(
    "--crash",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A result of `dyno crash` under the engines, in place of the last ones here.",
)
def command(what: str | None, crash: Path | None) -> None:
    """List suites and engines, with their tiers, options and parameters."""
    # Looked at first: what can't be read is one line, and nothing else.
    rows = known.load(places.cache()) if crash is None else _loaded(crash)
    console = output()
    suites, engines = list(registry.suites()), list(registry.engines())
    if what != "engines":
        listing.suites(suites, console, whole=what is not None)
    if what != "suites":
        served = {
            spec.name: {s.name: found for s in suites if (found := registry.through(s, spec)) is not None}
            for spec in engines
        }
        listing.engines(engines, served, console, whole=what is not None)
    if rows and what != "suites":
        # Its libraries take longer to load than all else here.
        from dyno.report import crashes

        console.print(Text("\nTiers that were crashed", "bold"))
        crashes.render(rows, console)
    if not native.built():
        console.print(Text(f"\n{listing.NOT_NATIVE}; {native.REMEDY}.", "yellow"), soft_wrap=True)
    for line in registry.broken():
        console.print(Text(line, "red"))
    if what is None:
        console.print("\n`dyno list suites` shows phases, parameters and presets; `dyno list engines` options.")


def _loaded(path: Path) -> list[dict[str, Any]]:
    from dyno.crash import results

    return results.load(path)[1]
