"""The option `set`: a user's settings for a server of Dyno's or an engine in the process, besides Dyno's own."""

import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress

from dyno.contracts.model import SETTINGS, Caveat, Value
from dyno.contracts.settings import Setting
from dyno.servers.program_option import PROGRAM
from dyno.servers.user_server import URL

SET = SETTINGS
READ_BACK = f"{SET}.read-back"
"""Key in the options of a trial. The value has the names of settings that only other rows of the engine set. No
option has the same name, because option names contain no dot."""
CAVEAT = Caveat(SET, "has settings that you gave: that it gives its tier with them is not proven")


def setting(what: str, ours: Iterable[str], whose: str = "a server of Dyno's own") -> Setting:
    """Returns the option; messages call the settings `what`. Settings in `ours` are Dyno's, and refused."""
    reserved = {plain_name(name) for name in ours}

    def parse(text: str) -> Value:
        for name in pairs(text):
            if plain_name(name) in reserved:
                raise ValueError(f"{name} is not to be set here: the tier, another option or Dyno decides it")
        return text

    return Setting(SET, parse, "", f"{what} of {whose}, also written set.NAME=VALUE")


def pairs(text: str) -> dict[str, str]:
    """Parses the option; returns the settings by name. Raises ValueError, whose message says what is expected."""
    settings = {}
    for word in shlex.split(text):
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise ValueError("expected NAME=VALUE, with blanks between several")
        settings[name] = value
    return settings


def get_settings(options: Mapping[str, Value]) -> dict[str, str]:
    """Returns the user's settings by name."""
    return pairs(str(options.get(SET, "")))


def combine_settings(tier: Mapping[str, Value], options: Mapping[str, Value], **more: Value) -> dict[str, str]:
    """Returns settings as text by name: those of a tier and `more`, both overridden by the user's."""
    return {**{name: str(value) for name, value in {**tier, **more}.items()}, **get_settings(options)}


def names_in(rows: Iterable[Mapping[str, Value]]) -> list[str]:
    """Returns the names of all settings in the options of these rows."""
    names: dict[str, None] = {}
    for text in dict.fromkeys(str(options[SET]) for options in rows if SET in options):
        # A plug-in's engine may have an option of this name with another meaning.
        with suppress(ValueError):
            names.update(dict.fromkeys(pairs(text)))
    return list(names)


def with_names(options: Mapping[str, Value], names: Iterable[str]) -> Mapping[str, Value]:
    """Returns options with which `to_read` also returns these names. Options for a user's own server stay unchanged:
    its settings may contain secrets."""
    if SET not in options or options.get(URL):
        return options
    own = names_in([options])
    others = [name for name in names if name not in own]
    if others:
        return {**options, READ_BACK: shlex.join(others)}
    return options


def to_read(options: Mapping[str, Value]) -> tuple[str, ...]:
    """Returns the names of the settings to read back: those of this row, and those of other rows of the same engine,
    so that a report can compare the values."""
    return (*get_settings(options), *shlex.split(str(options.get(READ_BACK, ""))))


def refuse_options(options: Mapping[str, Value]) -> str | None:
    """Returns why options for a server of Dyno's can't be combined with a user's server; None if they can."""
    for name, does in ((SET, "changes"), (PROGRAM, "starts")):
        if options.get(name) and options[URL]:
            return f"{name} {does} a server of Dyno's own, and url names one of yours: leave one of them out"
    return None


def sets(options: Mapping[str, Value], name: str) -> bool:
    """Returns whether the user's settings contain the setting `name`, in any spelling."""
    return plain_name(name) in map(plain_name, get_settings(options))


def plain_name(name: str) -> str:
    """Returns the name as servers compare it: MariaDB takes - for _, and PostgreSQL any case."""
    return name.lower().replace("-", "_")
