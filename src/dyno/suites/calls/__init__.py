"""Calls: which of these Python functions is faster, and do they return the same?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from os.path import relpath
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dyno.contracts.model import Phase, Preset, UsageError, Value
from dyno.contracts.roles import EngineEntry, RequestDefinedSuite
from dyno.contracts.settings import Setting, boolean, format_value, integer

DIRECTORY, REFERENCE = "directory", "reference"
"""Keys of the definition: where the user's code is, relative to the directory of the run's process, and the function
whose answers are right. Two runs in different checkouts of the code thus have the same definition."""
FUNCTION = "function"
"""Option of the engine: which function of the user's it is."""
SUFFIX = ".py"
_EXPECTED = "expected FILE.py:NAME or package.module:NAME"
_LABELLED = re.compile(r"([^:=/]*)=(.+)", re.DOTALL)
_DOTTED = re.compile(r"(?!\d)\w+(\.(?!\d)\w+)*")


def reference(text: str) -> Value:
    """Parses the name of an object of the user's code. Raises ValueError."""
    source, _, name = text.rpartition(":")
    if not _DOTTED.fullmatch(name) or "\0" in source:
        raise ValueError(_EXPECTED)
    if not _DOTTED.fullmatch(source) and (not source.endswith(SUFFIX) or source == SUFFIX):
        raise ValueError(_EXPECTED)
    return text


def optional(text: str) -> Value:
    if text:
        return reference(text)
    return text


class CallsSuite(RequestDefinedSuite):
    name = "calls"
    title = "Python functions of yours, called with the same arguments"
    ports = ("call",)
    engines = ("call",)
    params: tuple[Setting, ...] = (
        Setting("arguments", optional, "", "list of arguments, or a function that returns one; empty: no argument"),
        Setting("inflight", integer(1, 10_000), 1, "calls of an `async def` at once, on one event loop"),
        Setting("check", optional, "", "function of an argument and its answer: whether it is right"),
        Setting("setup", optional, "", "function called before each call, untimed; returns the call's argument"),
        Setting("gc", boolean, False, "whether Python's garbage collector runs during calls"),
    )
    presets = MappingProxyType(
        {
            "quick": Preset({}, samples=10, budget=0.5, timeout=600, until=None),
            "standard": Preset({}, samples=20, budget=1, timeout=600, until=None),
            "full": Preset({}, samples=50, budget=3, timeout=3_600, until=None),
        }
    )
    phases = (
        Phase(
            "call",
            "call the function with each argument in turn",
            unit="call",
            writes=False,
            temperature="hot",
            checked="every answer: the same from call to call and from function to function, or by check",
            says="{figure} calls a second, p99 {p99}",
        ),
    )

    def parse_entry(self, text: str) -> EngineEntry:
        match = _LABELLED.fullmatch(text)
        if match:
            label = match[1]
            named = match[2]
        else:
            label = None
            named = text
        (engine,) = self.engines
        if named.partition(":")[0] == engine or (":" not in named and not named.endswith(SUFFIX)):
            return text
        try:
            reference(named)
        except ValueError as error:
            raise UsageError(f"suite {self.name}: {format_value(named)}: {error}") from None
        return {"name": engine, FUNCTION: named, **({} if label is None else {"label": label})}

    def derive_definition(
        self, engines: Sequence[EngineEntry], params: Mapping[str, Sequence[object]], base: Path
    ) -> dict[str, Any] | None:
        if not engines:
            raise UsageError(f"suite {self.name}: name the functions to compare: -e FILE.py:NAME,FILE.py:NAME")
        functions = [str(each[FUNCTION]) for each in engines if isinstance(each, Mapping) and FUNCTION in each]
        named = [
            str(value)
            for setting in self.params
            if setting.parse is optional
            for value in params.get(setting.name, ())
        ]
        for text in (*functions, *named):
            file = text.rpartition(":")[0]
            if file.endswith(SUFFIX) and not Path(base, file).is_file():
                raise UsageError(f"{format_value(text)}: there is no file {Path(base, file)}")
        definition = {DIRECTORY: relpath(base)}
        # If functions disagree, the first is right.
        first = engines[0]
        right = None
        if isinstance(first, Mapping):
            right = first.get(FUNCTION)
        if right is None:
            return definition
        return {**definition, REFERENCE: right}


SUITE = CallsSuite()
