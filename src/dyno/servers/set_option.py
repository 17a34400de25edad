"""The option `set`: settings that a user gives to a server of Dyno's own, or to an engine in the process, in addition
to Dyno's."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress

from dyno.contracts.model import SETTINGS, Caveat, Value
from dyno.contracts.settings import Setting
from dyno.servers.program_option import PROGRAM
from dyno.servers.user_server import URL

SET = SETTINGS
READ_BACK = f"{SET}.read-back"
"""Key among the options of a trial: names of settings that only other rows of the engine set. No option can have this
name, which contains a dot."""
CAVEAT = Caveat(SET, "has settings that you gave: that it gives its tier with them is not proven")


def setting(what: str, ours: Iterable[str], whose: str = "a server of Dyno's own") -> Setting:
    """Returns the option, for settings that are called `what`. Those in `ours` are refused: Dyno decides them."""
    reserved = {_plain(name) for name in ours}

    def parse(text: str) -> Value:
        for name in pairs(text):
            if _plain(name) in reserved:
                raise ValueError(f"{name} is not to be set here: the tier, another option or Dyno decides it")
        return text

    return Setting(SET, parse, "", f"{what} of {whose}, also written set.NAME=VALUE")


def pairs(text: str) -> dict[str, str]:
    """Returns the settings by name. Raises ValueError with what would be right."""
    settings = {}
    for word in shlex.split(text):
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise ValueError("expected NAME=VALUE, with blanks between several")
        settings[name] = value
    return settings


def given(options: Mapping[str, Value]) -> dict[str, str]:
    """Returns the user's settings by name."""
    return pairs(str(options.get(SET, "")))


def combined(tier: Mapping[str, Value], options: Mapping[str, Value], **more: Value) -> dict[str, str]:
    """Returns the settings of a tier, these in addition, and over them the user's, as text by name."""
    return {**{name: str(value) for name, value in {**tier, **more}.items()}, **given(options)}


def names_in(rows: Iterable[Mapping[str, Value]]) -> list[str]:
    """Returns the names of all settings in the options of these rows."""
    names: dict[str, None] = {}
    for text in dict.fromkeys(str(options[SET]) for options in rows if SET in options):
        # An engine of a plug-in may have an option of this name that means something else.
        with suppress(ValueError):
            names.update(dict.fromkeys(pairs(text)))
    return list(names)


def with_names(options: Mapping[str, Value], names: Iterable[str]) -> Mapping[str, Value]:
    """Returns options that make `to_read` return these names too. A user's own server is asked for nothing more: its
    settings may contain secrets."""
    if SET not in options or options.get(URL):
        return options
    own = names_in([options])
    others = [name for name in names if name not in own]
    return {**options, READ_BACK: shlex.join(others)} if others else options


def to_read(options: Mapping[str, Value]) -> tuple[str, ...]:
    """Returns the names of the settings to read back: those of this row, and those that other rows of its engine set,
    so that a report can compare the values."""
    return (*given(options), *shlex.split(str(options.get(READ_BACK, ""))))


def refused(options: Mapping[str, Value]) -> str | None:
    """Returns why options of Dyno's own server don't go with the address of a user's; None if they do."""
    for name, does in ((SET, "changes"), (PROGRAM, "starts")):
        if options.get(name) and options[URL]:
            return f"{name} {does} a server of Dyno's own, and url names one of yours: leave one of them out"
    return None


def sets(options: Mapping[str, Value], name: str) -> bool:
    """Returns whether the user's settings contain this one, in any spelling."""
    return _plain(name) in map(_plain, given(options))


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")
