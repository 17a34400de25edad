"""The table of commands, and the execution of one: its exit status, and errors as one line."""

import gc
import os
import resource
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from dyno import __version__
from dyno.cli import INTERRUPTED, console, quit_at_once
from dyno.cli.resuming import WORDS
from dyno.contracts.model import UsageError
from dyno.contracts.passwords import mask_password, mask_secrets, secrets
from dyno.contracts.sanitize import sanitize
from dyno.contracts.settings import closest_match
from dyno.host.directories import trouble

COMPLETION = "_DYNO_COMPLETE"
"""Environment variable by which a shell requests completions, or its own script: click's convention."""
FAILED, MISUSED = 1, 2
STOPS_GIT = 128
"""Exit status after which `git bisect run` stops. It would take MISUSED for a bad commit."""
ADDRESS_SPACE = 200 << 20
WRITES_RUN_FILE = {"run", "capacity", "bisect", "time", "replicate"}
"""Commands whose result is in a file, too."""
READS_ONLY = {"list", "show", "export", "plot", "compare", "why", "check", "history", "extrapolate", "report", "site"}
"""Commands that only read declarations or run files. A large run file makes millions of objects and next to no
cycles; a collection after every 700 of them took a quarter of the time."""
COLLECT_AFTER = 1_000_000
COMMANDS = {
    "run": ("run", "Measure engines on the work of SUITE, or run a plan file."),
    "capacity": ("capacity", "Find the highest rate at which limits hold, of each engine."),
    "bisect": ("bisect", "Find the version, or the build, that changed the speed of an engine."),
    "time": ("short_form", "Compare the run times of commands, run in turns."),
    "list": ("engines", "List suites and engines, with their tiers, options and parameters."),
    "install": ("engines", "Install what engines need: Python packages, programs, an interpreter of their own."),
    "uninstall": ("engines", "Remove installed versions of engines from the cache."),
    "doctor": ("doctor", "Describe this machine, how quiet it is, and what would spoil a measurement."),
    "show": ("show", "Print the run file RUN, complete or not."),
    "export": ("show", "Write the run file RUN in the format of another tool."),
    "plot": ("report", "Draw a chart of the run file RUN, without a browser."),
    "compare": (
        "compare",
        "Compare engines within RUN, or each RUN2 with RUN: ratios with intervals, and a verdict on each.",
    ),
    "why": (
        "compare",
        "Say why engines within RUN differ, or RUN2 from RUN: where the time of an item goes.",
    ),
    "check": (
        "compare",
        "Exit with status 1 if RUN is shown to be slower than BASE by more than the margin, else with 0.",
    ),
    "history": (
        "compare",
        "Report in which of the run files RUN the speed of a row changed, by how much, and at which commit.",
    ),
    "extrapolate": (
        "compare",
        "Report how times and disk in RUN grow with parameters, and forecast other values.",
    ),
    "report": ("report", "Write the run files RUN as one self-contained HTML page."),
    "site": ("report", "Write a static site of run files and bundles, and of those in and below each DIR."),
    "replicate": (
        "replicate",
        "Run a published EXPERIMENT, or a bundle, on this machine; without a name, list the experiments.",
    ),
    "publish": ("publish", "Pack RUN with its plan and data as a bundle, which others can verify and repeat."),
    "crash": ("selftest", "Kill engines, cut their power, and check that acknowledged writes survived."),
    "http": ("http", "Make one HTTP request, and report how long each of its parts took."),
    "schema": (
        "schema",
        "Print the JSON Schema NAME of a part of a run file or of a command's JSON; without a name, list them.",
    ),
    "conform": ("selftest", "Check the answers of ENGINE with the conformance suites of all its ports."),
    "selftest": ("selftest", "Prove on this machine that the measuring is right, in about a minute."),
}
"""The module of each command, which has it as `NAME_command`, and its description. A command is imported when it
runs, not to be listed."""


class Commands(click.Group):
    """Imports commands by name, and suggests the closest name for an unknown one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[WORDS] = list(args)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = __import__(f"dyno.cli.{COMMANDS[cmd_name][0]}", fromlist=["dyno"])
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, description) for name, (_, description) in COMMANDS.items()])

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


def execute(arguments: Sequence[str] | None) -> NoReturn:
    """Runs a command and exits: 0 done, 1 something failed, 2 usage error in one line, 3 nothing measured."""
    if request := os.environ.get(COMPLETION):
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(dyno, {}, "dyno", COMPLETION, request))
    console.prepare()
    if arguments is None:
        words = sys.argv[1:]
    else:
        words = list(arguments)
    if {*words[:1]} & READS_ONLY:
        gc.set_threshold(COLLECT_AFTER)
    gc.enable()
    status = run_command(words)
    # The interpreter collects garbage once more at exit, from every object that is not frozen.
    gc.freeze()
    sys.exit(status)


def run_command(words: list[str]) -> int:
    """Runs a command, prints its error, if any, as one line, and returns its exit status."""
    status, line = _invoke(words)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, quit_at_once)
    if line is None and (why := console.write_error()):
        line = f"can't write to standard output: {why}"
        status = status or (FAILED if {*words[:1]} & WRITES_RUN_FILE else MISUSED)
    if status == MISUSED and words[:1] == ["check"] and "--bisect" in words:
        status = STOPS_GIT
    if line is not None:
        hidden = tuple(secret for word in words for secret in secrets(word))
        print(f"dyno: {sanitize(mask_password(mask_secrets(line, hidden)), keep='')}", file=sys.stderr)
    return status


def _invoke(words: list[str]) -> tuple[int, str | None]:
    """Runs the command. Returns its exit status, and the error as a line, if any."""
    try:
        # SIGTERM, and the SIGHUP of a closed terminal, end a run as Ctrl-C does: the trial is stopped and its
        # directory removed. nohup(1) ignores SIGHUP.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.default_int_handler)
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY and limit < ADDRESS_SPACE:
            # With less, numpy's OpenBLAS aborts the process, or sends it a SIGINT.
            raise UsageError(
                f"the limit of address space is {limit >> 20} MiB, and dyno needs {ADDRESS_SPACE >> 20} MiB:"
                " raise it by `ulimit -v`"
            )
        # `dyno.main` would exit with click's own statuses.
        with dyno.make_context("dyno", [*words]) as context:
            status = dyno.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code, None
    except UsageError as error:
        return MISUSED, str(error)
    except click.UsageError as error:
        where = "dyno"
        if error.ctx:
            where = error.ctx.command_path
        return MISUSED, f"{' '.join(error.format_message().split()).rstrip('.')}; see {where} --help"
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED, "interrupted"
    except OSError as error:
        # Not a bug: a full disk, a directory that was removed, too many open files.
        return MISUSED, trouble(error)
    except MemoryError:
        return MISUSED, "not enough memory"
    return status if isinstance(status, int) else 0, None
