"""`dyno time`: compares the run times of commands. It is `dyno run commands` with the flags of hyperfine."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from dyno import registry
from dyno.cli import files, flag_values
from dyno.cli.console import output
from dyno.cli.flag_values import NAME, PATH, output_option, work_option
from dyno.cli.run import OVERWRITE, RESUME, carry_out, run_flags, status
from dyno.contracts.model import UsageError
from dyno.options import RunRequest
from dyno.report.formats import FORMATS
from dyno.report.tables import text
from dyno.runner import plan

SUITE, SHELL, ANY = "commands", "sh", "all"
BLOCKS = 10
"""Blocks in which a requested number of runs is done."""
LONG = 3_600.0
"""Budget in s of a trial that ends after a number of runs."""
EACH = ("setup", "prepare", "conclude", "cleanup")


@click.command(name="time")
@click.argument("commands", nargs=-1, required=True, metavar="COMMAND...")
@click.option("-n", "--name", "labels", multiple=True, metavar="NAME", help="Name of the first, second, ... command.")
@click.option("-p", "--param", multiple=True, metavar="NAME=V1[,V2...]", help="Values for {NAME} in the commands.")
@click.option("--same", is_flag=True, help="All commands must write the same to standard output.")
@click.option("--cold", is_flag=True, help="Each run finds --files on disk, not in memory; proven, without sudo.")
@click.option("--files", "cold_files", multiple=True, type=PATH, metavar="PATH", help="With --cold: what is read.")
@click.option("-r", "--runs", type=click.IntRange(1, 1_000_000), metavar="N", help="At least N runs of each command.")
@click.option("-w", "--warmup", "warmups", type=click.IntRange(0, 1_000_000), metavar="N", help="Untimed runs first.")
@click.option("--setup", multiple=True, metavar="COMMAND", help="Shell command before the runs of a block.")
@click.option("--prepare", multiple=True, metavar="COMMAND", help="Shell command before each run.")
@click.option("--conclude", multiple=True, metavar="COMMAND", help="Shell command after each run.")
@click.option("--cleanup", multiple=True, metavar="COMMAND", help="Shell command after the runs of a block.")
@click.option(
    "--input", "source", type=NAME, metavar="FILE", help="Standard input of the commands. Default: nothing."
)
@click.option("-i", "--ignore-failure", "ignoring", is_flag=True, help="Accept any exit status.")
@click.option("--ignore", metavar="CODES", help="Accept these exit statuses: 1,2.")
@click.option("--shell", "shell", flag_value=SHELL, help="Run the commands by sh, whose start is in the figures.")
@click.option("-S", "shell", metavar="SHELL", help="Run the commands by this shell.")
@click.option("--export-json", "exported", type=NAME, metavar="FILE", help="Write hyperfine's JSON.")
@run_flags("samples", "budget", "until", "within", "timeout", "memory", "seed")
@output_option("Run file to write. Default: none is kept.", "RUN")
@RESUME
@OVERWRITE
@work_option()
def time_command(
    commands: tuple[str, ...],
    exported: str | None,
    path: str | None,
    root: Path | None,
    resume: bool,
    overwrite: bool,
    **flags: Any,
) -> int:
    """Compare the run times of commands, run in turns.

    A command is started without a shell, and its output is discarded. Each of --setup, --prepare, --conclude and
    --cleanup is given once for all commands, or once for each.

    \b
    dyno time 'rg foo src' 'grep -rn foo src' --same
    dyno time 'sleep {s}' -p s=0.1,0.2
    dyno time --cold 'rg foo src' --files src
    """
    if resume and path is None:
        raise UsageError("--resume needs -o RUN, the file to continue")
    if exported is not None:
        files.check(exported)
    run_plan = plan.make(_request(commands, flags))
    with TemporaryDirectory(prefix="dyno-time-") as home:
        file, kept = path or str(Path(home, "time.json")), path is not None
        run = carry_out(
            run_plan,
            file,
            root,
            resume,
            overwrite,
            show=lambda run: text.render(run, output(), whole=True),
            kept=kept,
        )
        text.render(run, output(), whole=True)
        if exported is not None:
            files.save(exported, FORMATS["hyperfine"](run).encode())
    return status(run)


def _request(commands: Sequence[str], flags: dict[str, Any]) -> RunRequest:
    """The request for the suite. Raises UsageError."""
    suite = registry.suite(SUITE)
    (engine,) = suite.engines
    entries = _entries(engine, commands, flags)
    params: dict[str, Any] = flag_values.params(flags["param"])
    if flags["same"]:
        params["same_output"] = ["yes"]
    if flags["warmups"]:
        params["untimed"] = [flags["warmups"]]
    if bool(flags["cold_files"]) != flags["cold"]:
        raise UsageError("--cold and --files PATH need each other: name the files and directories that are read")
    if flags["cold"]:
        params["evicted"] = [":".join(map(str, flags["cold_files"]))]
    chosen = {name: flags[name] for name in ("samples", "budget", "until", "within", "timeout", "memory", "seed")}
    if (runs := flags["runs"]) is not None:
        if chosen["samples"] or chosen["budget"] or chosen["until"]:
            raise UsageError("--runs excludes --samples, --budget and --until")
        chosen |= {"samples": min(runs, BLOCKS), "budget": LONG}
        params["repetitions"] = [1 if flags["cold"] else -(-runs // BLOCKS)]
        if flags["cold"]:
            chosen["samples"] = runs
    given = {name: value for name, value in chosen.items() if value is not None}
    phases = [phase.name for phase in suite.phases if flags["cold"] and phase.temperature == "cold"]
    return RunRequest(SUITE, entries, params=params, phases=phases, **given)


def _entries(engine: str, commands: Sequence[str], flags: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns an entry of the plan for each command, with its label and scripts. Raises UsageError."""
    entries: list[dict[str, Any]] = [{"name": engine, "run": command} for command in commands]
    for command in commands:
        if commands.count(command) > 1:
            raise UsageError(f"{command!r} is given twice: to compare it with itself, add a blank to one of them")
    common = {"input": flags["source"], "shell": flags["shell"], "ignore": _ignored(flags)}
    for entry in entries:
        entry |= {name: value for name, value in common.items() if value}
    if len(flags["labels"]) > len(commands):
        raise UsageError(f"--name is given {len(flags['labels'])} times, for {len(commands)} commands")
    for entry, label in zip(entries, flags["labels"], strict=False):
        entry["label"] = label
    for name in EACH:
        scripts = flags[name]
        if len(scripts) not in (0, 1, len(commands)):
            raise UsageError(f"--{name}: expected it once, or once for each of {len(commands)} commands")
        for entry, script in zip(entries, scripts * (len(commands) if len(scripts) == 1 else 1), strict=False):
            entry[name] = script
    return entries


def _ignored(flags: dict[str, Any]) -> str:
    if flags["ignoring"] and flags["ignore"]:
        raise UsageError("-i accepts any exit status: leave --ignore out")
    return ANY if flags["ignoring"] else " ".join((flags["ignore"] or "").split(","))
