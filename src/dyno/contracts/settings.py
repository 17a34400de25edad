"""Named values that a user may give, such as an engine's options and a suite's parameters, and parsers for them.

`Kind` says how the value of an option of a run is written: see `dyno.options`.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple

from dyno.contracts import quantities
from dyno.contracts.model import UsageError, Value
from dyno.contracts.passwords import mask_argument, resolve_address
from dyno.contracts.sanitize import sanitize

SHOWN = 80
"""Maximum length of a user's value in a message, in characters."""


class Kind(NamedTuple):
    """Notation of an option's value."""

    words: str
    """Its name in the reference."""
    types: tuple[type, ...]
    """Types of its value in a plan file."""
    read: Callable[[str], float] | None = None
    """Reads a time or a size with its unit. Raises ValueError."""
    several: bool = False
    """Several values, separated by commas in a flag."""


WHOLE = Kind("whole number", (int,))
TIME = Kind("time", (int, float, str), quantities.seconds)
SIZE = Kind("size", (int, float, str), quantities.gib)
PERCENT = Kind("percentage", (str, int, float))
TEXT = Kind("text", (str,))
PATH = Kind("path", (str,))
SWITCH = Kind("yes or no", (bool,))
NAMES = Kind("names", (list,), several=True)
COUNTS = Kind("whole numbers", (int, str, list), several=True)
RATES = Kind("numbers", (int, float, str, list), several=True)
ENGINES = Kind("engines", (list,), several=True)
PARAMS = Kind("parameters", (dict,))


class Setting(NamedTuple):
    """A named value that a user may give: an engine's option or a suite's parameter. `parse` returns the value of a
    text. For an invalid text it raises ValueError with a message that says what would be right."""

    name: str
    parse: Callable[[str], Value]
    default: Value
    help: str
    address: bool = False
    """True if the value is the address of a user's own server: see `addresses`. Its secrets are never shown or
    saved."""
    hold: Callable[[str], AbstractContextManager[str]] | None = None
    """Called in the parent with a non-empty value. It reserves the value (such as a device) for the run, and yields
    the value that the trials use. Raises UsageError."""
    phases: tuple[str, ...] = ()
    """For a suite's parameter: the phases whose work depends on the parameter; empty for all."""

    def read(self, text: object, owner: str) -> Value:
        """Parses a text, or a value from a plan file. Raises UsageError."""
        if isinstance(text, bool):
            text = "yes" if text else "no"
        try:
            return self.parse(resolve_address(str(text)) if self.address else str(text))
        except ValueError as error:
            shown = ""
            if not self.address:
                shown = f"={format_value(text)}"
            raise UsageError(f"{owner} {self.name}{shown}: {error}") from None


MOST_COUNT = 10**12
"""Default upper limit of whole numbers."""


def integer(low: int, high: int = MOST_COUNT) -> Callable[[str], Value]:
    """Returns a parser of whole numbers from `low` to `high`: 20000, 20_000, 20k, 1M, 64Ki."""

    def parse(text: str) -> Value:
        try:
            number = quantities.whole(text)
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            raise ValueError(f"expected a whole number from {low} to {high}")
        return number

    return parse


_CPUS = re.compile(r"(\d+(?:\.\d+)?)?cpus(?:/(\d+))?")


def by_cpus(low: int, high: int, cpus: int | None = None) -> Callable[[str], Value]:
    """Returns a parser of whole numbers that also accepts multiples of the number of CPUs: 'cpus', '2cpus',
    '1.5cpus', 'cpus/2'. Such multiples are rounded and clamped to the bounds. By default, the CPUs are those that
    this process may run on."""
    plain = integer(low, high)

    def parse(text: str) -> Value:
        match = _CPUS.fullmatch(text)
        if match is None or match[2] == "0" * len(match[2] or "x"):
            return plain(text)
        number = float(match[1] or 1) * (cpus or len(os.sched_getaffinity(0))) / int(match[2] or 1)
        return min(max(round(number), low), high)

    return parse


def percent(text: str, most: int = 100) -> float:
    """Returns a percentage of up to `most` as a share: '5%', '5 %' and '5' are 0.05. Raises ValueError."""
    try:
        share = float(str(text).removesuffix("%")) / 100
    except ValueError:
        share = 0.0
    if not 0 < share <= most / 100:
        raise ValueError(f"expected a percentage over 0 and up to {most:,}, such as 5%")
    return share


@dataclass(frozen=True)
class _Choice:
    """Parser that accepts only `names`. A dataclass, so that instances compare equal."""

    names: tuple[str, ...]

    def __call__(self, text: str) -> Value:
        if text not in self.names:
            raise ValueError(f"expected one of {', '.join(self.names)}")
        return text


def choice(*names: str) -> Callable[[str], Value]:
    """Returns a parser that accepts only `names`."""
    return _Choice(names)


def boolean(text: str) -> Value:
    """Parses yes or no (true, false, on, off, 1, 0)."""
    word = text.lower()
    if word in ("yes", "true", "on", "1"):
        return True
    if word in ("no", "false", "off", "0"):
        return False
    raise ValueError("expected yes or no")


def format_value(text: object) -> str:
    """Formats a user's value for a one-line message, with passwords masked."""
    # Passwords are masked first: in a shortened address they could not be recognised.
    return sanitize(mask_argument(str(text)), SHOWN, "")


def literal(value: object) -> str:
    """Formats a value of a TOML file for a one-line message."""
    try:
        return format_value(repr(value))
    except (RecursionError, ValueError):
        # The value is nested too deeply, or is a number of thousands of digits.
        return "a value too long to show"


def closest_match(word: str, names: Iterable[str]) -> str:
    """Returns 'did you mean X?' if a name is similar, else the list of names."""
    from difflib import get_close_matches

    names = list(names)
    word = word[:SHOWN]
    close = get_close_matches(word, names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]}?"
    return f"there are: {', '.join(sorted(names))}"


def resolve(settings: Iterable[Setting], given: Mapping[str, object], owner: str) -> dict[str, Value]:
    """Returns every setting by name: the parsed value from `given`, or else the default. Raises UsageError."""
    known = {setting.name: setting for setting in settings}
    for name in given:
        if name not in known:
            raise UsageError(unknown_name_message(owner, name, known))
    return {name: s.read(given[name], owner) if name in given else s.default for name, s in known.items()}


def unknown_name_message(what: str, word: object, names: Iterable[str], kin: Sequence[str] = ()) -> str:
    """Returns the message for an unknown name. `kin`: names to suggest instead of similar names."""
    names, word = list(names), format_value(word)
    if not names:
        return f"{what} {shlex.quote(word)} is not known: there are none"
    suggestion = ""
    if kin:
        suggestion = f"did you mean {' or '.join(filter(None, (', '.join(kin[:-1]), kin[-1])))}?"
    return f"{what} {shlex.quote(word)} is not known; {suggestion or closest_match(word, names)}"
