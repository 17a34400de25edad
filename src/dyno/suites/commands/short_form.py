"""`dyno time`: the suite as a command of its own, with the flags of hyperfine."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dyno.contracts.model import UsageError
from dyno.contracts.roles import Flag, ShortForm, ShortRequest
from dyno.contracts.settings import PARAMS, PATH, WHOLE

FlagValues = Mapping[str, Any]
"""Values of the flags by name, in the types that their declarations say."""
SHELL, ANY = "sh", "all"
BLOCKS = 10
"""Blocks in which a requested number of runs is done."""
LONG = 3_600.0
"""Budget in s of a trial that ends after a number of runs."""
EACH = ("setup", "prepare", "conclude", "cleanup")
OPTIONS = ("samples", "budget", "until", "within", "timeout", "memory", "seed")
FLAGS = (
    Flag("labels", ("-n", "--name"), "Name of the first, second, ... command.", "NAME", several=True),
    Flag("param", ("-p", "--param"), "Values for {NAME} in the commands.", "NAME=V1[,V2...]", PARAMS, several=True),
    Flag("same", ("--same",), "All commands must write the same to standard output."),
    Flag("cold", ("--cold",), "Each run finds --files on disk, not in memory; proven, without sudo."),
    Flag("cold_files", ("--files",), "With --cold: what is read.", "PATH", PATH, several=True),
    Flag("runs", ("-r", "--runs"), "At least N runs of each command.", "N", WHOLE, least=1),
    Flag("warmups", ("-w", "--warmup"), "Untimed runs first.", "N", WHOLE),
    Flag("setup", ("--setup",), "Shell command before the runs of a block.", "COMMAND", several=True),
    Flag("prepare", ("--prepare",), "Shell command before each run.", "COMMAND", several=True),
    Flag("conclude", ("--conclude",), "Shell command after each run.", "COMMAND", several=True),
    Flag("cleanup", ("--cleanup",), "Shell command after the runs of a block.", "COMMAND", several=True),
    Flag("input", ("--input",), "Standard input of the commands. Default: nothing.", "FILE", PATH),
    Flag("ignoring", ("-i", "--ignore-failure"), "Accept any exit status."),
    Flag("ignore", ("--ignore",), "Accept these exit statuses: 1,2.", "CODES"),
    Flag("shell", ("--shell",), "Run the commands by sh, whose start is in the figures.", constant=SHELL),
    Flag("shell", ("-S",), "Run the commands by this shell.", "SHELL"),
)
HELP = """Compare the run times of commands, run in turns.

A command is started without a shell, and its output is discarded. Each of --setup, --prepare, --conclude and
--cleanup is given once for all commands, or once for each.

\b
dyno time 'rg foo src' 'grep -rn foo src' --same
dyno time 'sleep {s}' -p s=0.1,0.2
dyno time --cold 'rg foo src' --files src
"""


def build_request(engine: str, cold_phase: str, commands: Sequence[str], values: FlagValues) -> ShortRequest:
    """Returns the request that compares the commands. Raises UsageError."""
    entries = _build_entries(engine, commands, values)
    params = dict[str, Any](values["param"])
    cold = bool(values["cold"])
    if values["same"]:
        params["same_output"] = ["yes"]
    if values["warmups"]:
        params["untimed"] = [values["warmups"]]
    if bool(values["cold_files"]) != cold:
        raise UsageError("--cold and --files PATH need each other: name the files and directories that are read")
    if cold:
        params["evicted"] = [":".join(str(Path(file)) for file in values["cold_files"])]
    options = {name: values[name] for name in OPTIONS if values[name] is not None}
    runs = values["runs"]
    if runs is not None:
        if any(options.get(name) for name in ("samples", "budget", "until")):
            raise UsageError("--runs excludes --samples, --budget and --until")
        options["budget"] = LONG
        options["samples"] = runs if cold else min(runs, BLOCKS)
        params["repetitions"] = [1 if cold else -(-runs // BLOCKS)]
    return ShortRequest(entries, params, [cold_phase] if cold else [], options)


def _build_entries(engine: str, commands: Sequence[str], values: FlagValues) -> list[dict[str, object]]:
    """Returns an entry of the plan for each command, with its label and scripts. Raises UsageError."""
    entries: list[dict[str, object]] = [{"name": engine, "run": command} for command in commands]
    for command in commands:
        if commands.count(command) > 1:
            raise UsageError(f"{command!r} is given twice: to compare it with itself, add a blank to one of them")
    common = {"input": values["input"], "shell": values["shell"], "ignore": _accepted_statuses(values)}
    for entry in entries:
        entry |= {name: value for name, value in common.items() if value}
    labels = values["labels"]
    if len(labels) > len(commands):
        raise UsageError(f"--name is given {len(labels)} times, for {len(commands)} commands")
    for entry, label in zip(entries, labels, strict=False):
        entry["label"] = label
    for name in EACH:
        scripts = values[name]
        if len(scripts) not in (0, 1, len(commands)):
            raise UsageError(f"--{name}: expected it once, or once for each of {len(commands)} commands")
        repeated = scripts
        if len(scripts) == 1:
            repeated = scripts * len(commands)
        for entry, script in zip(entries, repeated, strict=False):
            entry[name] = script
    return entries


def _accepted_statuses(values: FlagValues) -> str:
    if values["ignoring"] and values["ignore"]:
        raise UsageError("-i accepts any exit status: leave --ignore out")
    if values["ignoring"]:
        return ANY
    return " ".join((values["ignore"] or "").split(","))


SHORT_FORM = ShortForm("time", HELP, "COMMAND...", FLAGS, OPTIONS)
