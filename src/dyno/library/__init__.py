"""Dyno's Python interface: measure, load results, compare. The commands use the same functions.

It is documented in docs/reference/library.md. A test compares that page with this module.
"""

from dyno.library.comparing import Change as Change
from dyno.library.comparing import Check as Check
from dyno.library.comparing import Comparison as Comparison
from dyno.library.comparing import Comparisons as Comparisons
from dyno.library.comparing import check as check
from dyno.library.comparing import compare as compare
from dyno.library.result import Picture as Picture
from dyno.library.result import Result as Result
from dyno.library.result import Row as Row
from dyno.library.result import load as load
from dyno.library.result import run as run
