"""How the values of run options are written: see `dyno.options`."""

from collections.abc import Callable
from typing import NamedTuple

from dyno.contracts import quantities


class Kind(NamedTuple):
    """How the value of an option is written."""

    words: str
    """Its name in the reference."""
    types: tuple[type, ...]
    """What a plan file may have for it."""
    read: Callable[[str], float] | None = None
    """Reads a time or a size with its unit. Raises ValueError."""
    several: bool = False
    """Several values, separated by commas in a flag."""


WHOLE = Kind("whole number", (int,))
TIME = Kind("time", (int, float, str), quantities.seconds)
SIZE = Kind("size", (int, float, str), quantities.gib)
PERCENT = Kind("percentage", (str, int, float))
TEXT = Kind("text", (str,))
SWITCH = Kind("yes or no", (bool,))
NAMES = Kind("names", (list,), several=True)
COUNTS = Kind("whole numbers", (int, str, list), several=True)
RATES = Kind("numbers", (int, float, str, list), several=True)
ENGINES = Kind("engines", (list,), several=True)
PARAMS = Kind("parameters", (dict,))
