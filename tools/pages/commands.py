"""The commands with their flags, from click."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import click
from pages.text import code, sentence, table

from dyno.cli import commands as cli
from dyno.options import OPTIONS
from dyno.report.charts import FIXED, lines

SHARED = {flag for option in OPTIONS for flag in (option.flag, option.short) if flag}
"""Flags of `dyno run` that the page of run options describes."""


def every() -> str:
    context = click.Context(cli.dyno, info_name="dyno")
    parts = []
    for name in cli.dyno.list_commands(context):
        command = cli.dyno.get_command(context, name)
        assert command is not None
        parts.append(described(name, command, context))
    return "\n\n".join(parts)


def described(name: str, command: click.Command, parent: click.Context) -> str:
    context = click.Context(command, info_name=name, parent=parent)
    text, examples = split(inspect.cleandoc(command.help or ""))
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [f"## `dyno {name}`", text]
    parts.append(f"```text\ndyno {name} {usage}\n```")
    if examples:
        parts.append(f"```sh\n{examples}\n```")
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    own = [each for each in options if name != "run" or not SHARED & {*each.opts}]
    if len(own) < len(options):
        parts.append("It also has the flags of [run options](run-options.md).")
    if own:
        parts.append(table(("Flag", "Meaning"), [(flag(each, context), sentence(each.help or "")) for each in own]))
    return "\n\n".join(part for part in parts if part)


def split(text: str) -> tuple[str, str]:
    """The prose and the examples of a help text. Examples follow a backspace, click's mark for lines to keep."""
    prose, examples = [], []
    for paragraph in re.split(r"\n\s*\n", text):
        lines = paragraph.strip("\n")
        if lines.startswith("\b") and re.search(r"^(dyno|_DYNO|eval)", lines.lstrip("\b\n "), re.MULTILINE):
            examples.append(inspect.cleandoc(lines.lstrip("\b\n")))
        elif lines.startswith("\b"):
            prose.append("```text\n" + lines.lstrip("\b\n") + "\n```")
        else:
            prose.append(" ".join(lines.split()))
    return "\n\n".join(prose), "\n".join(examples)


def flag(option: click.Option, context: click.Context) -> str:
    metavar = "" if option.is_flag or option.count else " " + option.make_metavar(context)
    return ", ".join(f"`{opt}{metavar}`" for opt in [*option.opts, *option.secondary_opts])


def charts() -> str:
    """A table of the charts that any run may have."""
    rows = [(code(chart.name), chart.reading, chart.needs) for chart in FIXED]
    value = "What rows are compared by, over the values of a parameter, a line with intervals for each engine."
    rows += [
        (code(lines.CLIENTS), value.replace("values of a parameter", "number of clients"), "several `--clients`"),
        (code(lines.NAME), value, "several numbers of the parameter"),
    ]
    return table(("Chart", "What it shows", "Needs"), rows)


BLOCKS: dict[str, Callable[..., str]] = {"commands": every, "charts": charts}
