"""The command line: a file per command, each of which parses and delegates. No logic may be put here."""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from dyno import __version__
from dyno.__main__ import INTERRUPTED, quit_at_once
from dyno.cli import streams
from dyno.contracts.model import UsageError
from dyno.contracts.settings import closest_match
from dyno.host.directories import trouble
from dyno.text.passwords import mask_password, mask_secrets, secrets
from dyno.text.sanitize import sanitize

COMPLETING = "_DYNO_COMPLETE"
"""The variable by which a shell asks what could follow, and for its own script: click's convention."""
FAILED, MISUSED = 1, 2
ADDRESS_SPACE = 200 << 20
KEEPING = {"run", "replicate"}
"""Commands whose result is in a file too."""
READING = {"list", "show", "export", "plot", "compare", "check", "history", "extrapolate", "report", "site"}
"""Commands that only read declarations, or run files: of a large one they make millions of objects, and next to no
cycles of them. The collector that looks for cycles after every 700 took a quarter of their time."""
SELDOM = 1_000_000
# Name to module and what it does: a command is imported when it is asked for, and not to be listed.
COMMANDS = {
    "run": ("run", "Measure engines doing the work of SUITE, or what a plan file says."),
    "list": ("listing", "List suites and engines, with their tiers, options and parameters."),
    "install": ("install", "Get what engines lack: Python packages, programs, an interpreter of their own."),
    "doctor": ("doctor", "This machine, how quiet it is, and what would spoil a measurement."),
    "show": ("show", "Print the run file RUN, complete or not."),
    "export": ("export", "Write the run file RUN in the format of another tool."),
    "plot": ("plot", "Draw a chart of the run file RUN, without a browser."),
    "compare": (
        "compare",
        "Compare engines within RUN, or RUN2 with RUN: ratios with intervals, and a verdict on each.",
    ),
    "check": (
        "check",
        "Exit with status 1 if RUN is shown to be slower than BASE by more than the margin, and with 0 if not.",
    ),
    "history": ("history", "Say in which of the run files RUN the speed of a row changed, and by how much."),
    "extrapolate": (
        "extrapolate",
        "Say how the times in RUN grow with a parameter, and what they would be at other values.",
    ),
    "report": ("report", "Write one self-contained HTML page of the run files RUN."),
    "site": ("site", "Write a static site over the run files RUN, and those in and below each DIR."),
    "replicate": ("replicate", "Run a published EXPERIMENT on this machine; without a name, list them."),
    "crash": ("crash", "Kill engines, cut their power, and look for what they had acknowledged."),
    "http": ("http", "Make one HTTP request, and say how long each of its parts took."),
    "conform": (
        "conform",
        "Check the answers of ENGINE by the conformance suites of all its ports.",
    ),
    "selftest": ("selftest", "Prove on this machine that the measuring is right, in about a minute."),
}


class Commands(click.Group):
    """Loads commands by name, and says the nearest name for one that is not there."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = __import__(f"dyno.cli.{COMMANDS[cmd_name][0]}", fromlist=["command"])
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, does) for name, (_, does) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise UsageError(f"command {args[0]!r} is not known; {closest_match(args[0], COMMANDS)}")
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
    if asked := os.environ.get(COMPLETING):
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(dyno, {}, "dyno", COMPLETING, asked))
    streams.prepare()
    given = sys.argv[1:] if arguments is None else list(arguments)
    if {*given[:1]} & READING:
        gc.set_threshold(SELDOM)
    gc.enable()
    status, line = _done(given)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, quit_at_once)
    if line is None and (why := streams.failure()):
        line = f"can't write to standard output: {why}"
        status = status or (FAILED if {*given[:1]} & KEEPING else MISUSED)
    if line is not None:
        hidden = tuple(secret for word in given for secret in secrets(word))
        print(f"dyno: {sanitize(mask_password(mask_secrets(line, hidden)), keep='')}", file=sys.stderr)
    # The interpreter looks for cycles once more before it ends, among all that there is.
    gc.freeze()
    sys.exit(status)


def _check_address_space() -> None:
    """Raises UsageError where numpy can't be loaded: its OpenBLAS then aborts the process or sends it a SIGINT."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < ADDRESS_SPACE:
        raise UsageError(
            f"the limit of address space is {limit >> 20} MiB, and dyno needs {ADDRESS_SPACE >> 20} MiB:"
            " raise it by `ulimit -v`"
        )


def _raise_on_signals() -> None:
    """SIGTERM ends a run as Ctrl-C does: the trial is stopped and its directory removed. So does SIGHUP, of a closed
    terminal, unless nohup(1) had it ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


def _done(given: list[str]) -> tuple[int, str | None]:
    """Runs the command; its exit status, and the line that says what was wrong."""
    try:
        _raise_on_signals()
        _check_address_space()
        # Not by `dyno.main`, which has statuses of its own.
        with dyno.make_context("dyno", [*given]) as context:
            status = dyno.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code, None
    except UsageError as error:
        return MISUSED, str(error)
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "dyno"
        return MISUSED, f"{' '.join(error.format_message().split()).rstrip('.')}; see {where} --help"
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED, "interrupted"
    except OSError as error:
        # A place that Dyno has no say in: a full disk, a directory that is gone, no file left to open.
        return MISUSED, trouble(error)
    except MemoryError:
        return MISUSED, "there is not enough memory for that"
    return status if isinstance(status, int) else 0, None
