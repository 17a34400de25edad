"""Commands: which of these programs is faster, and what does each need?

A run of a program is measured from its start to its end. `dyno time` is the short form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from os.path import relpath
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dyno.contracts.model import Phase, Preset, UsageError, Value
from dyno.contracts.roles import EngineEntry, RequestDefinedSuite, ShortFormSuite, ShortRequest
from dyno.contracts.settings import Setting, boolean, integer, unknown_name_message
from dyno.suites.commands.short_form import SHORT_FORM, build_request

COLD = "execute-cold"
DIRECTORY = "directory"
VARIABLES = "variables"
REFERENCE = "reference"
"""Keys of the definition: where the programs run, relative to the directory of the run's process; the names of the
user's variables; and the command whose output is right."""


def text(value: str) -> Value:
    return value


_phase = partial(
    Phase,
    unit="run",
    writes=False,
    checked="the exit status; with same_output, what it writes",
    parts=("user-time", "system-time"),
)
_phase = partial(_phase, reported=True, metric="time")


class CommandsSuite(RequestDefinedSuite, ShortFormSuite):
    """The suite `commands`. A definition makes the user's variables parameters, too."""

    name = "commands"
    title = "programs of yours: time, CPU time and memory of a run"
    ports = ("command",)
    engines = ("command_line",)
    params: tuple[Setting, ...] = (
        Setting("repetitions", integer(0, 1_000_000), 0, "most timed runs of a trial; 0: until the budget is spent"),
        Setting(
            "untimed",
            integer(0, 1_000_000),
            0,
            "untimed runs of a trial, before the others; 0: those of the first 0.1 s",
        ),
        Setting("same_output", boolean, False, "whether all programs must write the same to standard output"),
        Setting(
            "evicted",
            text,
            "",
            "files and directories, separated by :, that a cold run finds on disk",
            phases=(COLD,),
        ),
    )
    presets = MappingProxyType(
        {
            "quick": Preset({}, samples=10, budget=0.3, timeout=3_600, until=None),
            "standard": Preset({}, samples=20, budget=1, timeout=3_600, until=None),
            "full": Preset({}, samples=50, budget=3, timeout=3_600, until=None),
        }
    )
    phases = (
        _phase("execute", "start the program and wait for its end", says="a run takes {figure}"),
        _phase(COLD, "the same, once in a trial, with no file in memory", temperature="cold", by_default=False),
    )

    short_form = SHORT_FORM

    def expand_short_form(self, arguments: Sequence[str], values: Mapping[str, Any]) -> ShortRequest:
        (engine,) = self.engines
        return build_request(engine, COLD, arguments, values)

    def parse_entry(self, text: str) -> EngineEntry:
        (engine,) = self.engines
        if text.partition(":")[0] == engine:
            return text
        return {"name": engine, "run": text}

    def derive_definition(
        self, engines: Sequence[EngineEntry], params: Mapping[str, object], base: Path
    ) -> dict[str, Any] | None:
        own = [setting.name for setting in self.params] + ["clients", "rate"]
        variables = [name for name in params if name not in own]
        texts = " ".join(
            str(value) for each in engines for value in (each.values() if isinstance(each, Mapping) else [each])
        )
        for name in variables:
            if f"{{{name}}}" not in texts:
                raise UsageError(
                    f"{unknown_name_message('suite commands: parameter', name, own)} No command has {{{name}}}"
                )
        definition = {DIRECTORY: relpath(base), VARIABLES: variables}
        # Of two programs that write different things, the first is right.
        first = engines[0] if engines else None
        if not isinstance(first, Mapping):
            return definition
        return {**definition, REFERENCE: first.get("run", "")}

    def apply_definition(self, definition: Mapping[str, Any]) -> None:
        super().apply_definition(definition)
        self.params = (*self.params, *(Setting(name, text, "", f"variable {name}") for name in definition[VARIABLES]))


SUITE = CommandsSuite()
