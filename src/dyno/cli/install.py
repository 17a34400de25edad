"""`dyno install`: gets what engines lack. Parses and delegates."""

from __future__ import annotations

from functools import partial

import click

from dyno import registry
from dyno.cli import completion
from dyno.cli.console import output


@click.command(name="install")
@click.argument("engines", nargs=-1, required=True, metavar="ENGINE...", shell_complete=completion.ENGINE)
@click.option("--yes", is_flag=True, help="Install system packages, too, as root or by sudo; else they are named.")
def command(engines: tuple[str, ...], yes: bool) -> int:
    """Get what engines lack: Python packages, programs, an interpreter of their own.

    Exit status: 0 if all of them can run then, 1 if something could not be had.
    """
    # Not at the top: who only asks for help doesn't need it.
    from dyno.install.engine import install

    # All are known before anything is fetched.
    specs = [registry.engine(name) for name in dict.fromkeys(engines)]
    groups = tuple(registry.GROUPS.values())
    console = output()

    def say(name: str, line: str) -> None:
        console.print(f"{name}: {line}", markup=False, soft_wrap=True)

    # Every one, whatever became of the one before.
    had = [install(spec, yes, groups, partial(say, spec.name)) for spec in specs]
    return 0 if all(had) else 1
