"""The command line: a file per command, each of which parses and delegates. No logic may be put here."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from dyno import __version__
from dyno.cli.conceal import hide_passwords
from dyno.harmless import harmless
from dyno.model import UsageError
from dyno.passwords import concealed
from dyno.settings import nearest

INTERRUPTED = 130
# Name to module: a command is imported when it is asked for, so that `dyno --version` is quick.
COMMANDS = {
    "run": "run",
    "list": "listing",
    "install": "install",
    "doctor": "doctor",
    "show": "show",
    "plot": "plot",
    "compare": "compare",
    "check": "check",
    "report": "report",
    "site": "site",
    "replicate": "replicate",
    "selftest": "selftest",
}


class Commands(click.Group):
    """Loads commands by name, and says the nearest name for one that is not there."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = __import__(f"dyno.cli.{COMMANDS[cmd_name]}", fromlist=["command"])
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise UsageError(f"command {args[0]!r} is not known; {nearest(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=Commands,
    invoke_without_command=True,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, message="dyno %(version)s")
@click.pass_context
def dyno(context: click.Context) -> None:
    """A dynamometer for data engines: the same work, on your machine, with the doubt beside the number."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs a command and exits: 0 done, 1 something failed, 2 a usage error in one line, 3 nothing measured."""
    # A polite kill ends a run as Ctrl-C does: the trial is stopped and its directory removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    hide_passwords()
    try:
        # Not by `dyno.main`, which takes an output that nobody reads any more for a failure.
        given = sys.argv[1:] if arguments is None else list(arguments)
        with dyno.make_context("dyno", given) as context:
            status = dyno.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except UsageError as error:
        _fail(str(error), 2)
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "dyno"
        _fail(f"{' '.join(error.format_message().split()).rstrip('.')}; see {where} --help", 2)
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output, a `head` perhaps, has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    sys.exit(status if isinstance(status, int) else 0)


def _fail(line: str, status: int) -> NoReturn:
    print(f"dyno: {harmless(concealed(line), keep='')}", file=sys.stderr)
    sys.exit(status)
