"""Named values that a user may give: an engine's options, a suite's parameters, and what their texts mean. No value
of anybody's may be put here."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from dyno.contracts import quantities
from dyno.contracts.model import UsageError, Value
from dyno.text.passwords import mask_argument, resolve_address
from dyno.text.sanitize import sanitize

SHOWN = 80
"""Characters of what was given, in a message."""


class Setting(NamedTuple):
    """One named value that a user may give: an engine's option or a suite's parameter.

    `parse` turns the text into the value and raises ValueError with what would be right.
    """

    name: str
    parse: Callable[[str], Value]
    default: Value
    help: str
    address: bool = False
    """The address of a user's own server, or where it stands: see `addresses`. What is secret in it is shown and kept
    nowhere."""
    hold: Callable[[str], AbstractContextManager[str]] | None = None
    """Called in the parent with a value that is not empty: what a run holds for itself from before its first trial to
    its end, such as a device. Gives what the trials get in place of the value. Raises UsageError."""
    phases: tuple[str, ...] = ()
    """Of a suite's parameter: the phases whose work depends on it; empty: all."""

    def read(self, text: Any, owner: str) -> Value:
        """The value of `text`, which may also be a value from a plan file. Raises UsageError."""
        if isinstance(text, bool):
            text = "yes" if text else "no"
        try:
            return self.parse(resolve_address(str(text)) if self.address else str(text))
        except ValueError as error:
            said = "" if self.address else f"={format_value(text)}"
            raise UsageError(f"{owner} {self.name}{said}: {error}") from None


MOST_COUNT = 10**12
"""Of a whole number for which nothing less is declared."""


def integer(low: int, high: int = MOST_COUNT) -> Callable[[str], Value]:
    """A parser of integers from `low` to `high`, as people write them: 20000, 20_000, 20k, 1M, 64Ki."""

    def parse(text: str) -> Value:
        try:
            number = quantities.whole(text)
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            raise ValueError(f"wants a whole number from {low} to {high}")
        return number

    return parse


_CPUS = re.compile(r"(\d+(?:\.\d+)?)?cpus(?:/(\d+))?")


def by_cpus(low: int, high: int) -> Callable[[str], Value]:
    """A parser of integers that also takes the number of CPUs that this process may run on, a multiple of it or a
    part: 'cpus', '2cpus', '1.5cpus', 'cpus/2'; rounded, and held within the bounds."""
    plain = integer(low, high)

    def parse(text: str) -> Value:
        found = _CPUS.fullmatch(text)
        if found is None or found[2] == "0" * len(found[2] or "x"):
            return plain(text)
        times = float(found[1] or 1) * len(os.sched_getaffinity(0)) / int(found[2] or 1)
        return min(max(round(times), low), high)

    return parse


def percent(text: str) -> float:
    """A percentage as a share: '5%', '5 %' and '5' are 0.05. Raises ValueError."""
    try:
        share = float(str(text).removesuffix("%")) / 100
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ValueError("wants a percentage over 0 and up to 100, such as 5%")
    return share


def choice(*names: str) -> Callable[[str], Value]:
    """A parser that takes one of `names` and suggests the nearest."""

    def parse(text: str) -> Value:
        if text not in names:
            raise ValueError(f"wants one of {', '.join(names)}")
        return text

    return parse


def boolean(text: str) -> Value:
    """A parser of yes or no (true, false, on, off, 1, 0)."""
    word = text.lower()
    if word in ("yes", "true", "on", "1"):
        return True
    if word in ("no", "false", "off", "0"):
        return False
    raise ValueError("wants yes or no")


def format_value(text: object) -> str:
    """What somebody gave, for a message of one line."""
    # Hidden before it is cut: half of an address can't be told from any other text.
    return sanitize(mask_argument(str(text)), SHOWN, "")


def literal(value: object) -> str:
    """The same of a value that a file of TOML has."""
    try:
        return format_value(repr(value))
    except (RecursionError, ValueError):
        # Nested too deeply, or a number of thousands of digits.
        return "what was given"


def closest_match(word: str, names: Iterable[str]) -> str:
    """'did you mean X?' where a name is near, or the whole list."""
    from difflib import get_close_matches

    names = list(names)
    word = word[:SHOWN]
    close = get_close_matches(word, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else f"there are: {', '.join(sorted(names))}"


def resolve(settings: Iterable[Setting], given: Mapping[str, Any], owner: str) -> dict[str, Value]:
    """Every setting by name: `given` where given, its default elsewhere. Raises UsageError."""
    known = {setting.name: setting for setting in settings}
    for name in given:
        if name not in known:
            raise UsageError(unknown(owner, name, known))
    return {name: s.read(given[name], owner) if name in given else s.default for name, s in known.items()}


def unknown(what: str, word: object, names: Iterable[str], kin: Sequence[str] = ()) -> str:
    """The line for a name that is not known. `kin`: names that are meant rather than what is spelt alike."""
    names, word = list(names), format_value(word)
    if not names:
        return f"{what} {shlex.quote(word)} is not known: there are none"
    meant = f"did you mean {_either(kin)}?" if kin else closest_match(word, names)
    return f"{what} {shlex.quote(word)} is not known; {meant}"


def _either(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
