"""`dyno list`: the suites and engines that there are, what can run here, and the command that installs the rest."""

from __future__ import annotations

import click
from rich.text import Text

from dyno import registry
from dyno.cli.console import output
from dyno.report import listing


@click.command(name="list")
@click.argument("what", type=click.Choice(["suites", "engines"]), required=False)
def command(what: str | None) -> None:
    """List suites and engines, with their tiers, options and parameters."""
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
    for line in registry.broken():
        console.print(Text(line, "red"))
    if what is None:
        console.print("\n`dyno list suites` shows phases, parameters and presets; `dyno list engines` options.")
