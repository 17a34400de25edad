"""Dyno's Python interface: measure, load results, compare. The commands use the same functions.

It is documented in docs/reference/library.md. A test compares that page with this module.
"""

from dyno.library.comparing import Change, Check, Comparison, Comparisons, Why, check, compare, why
from dyno.library.result import Picture, Result, Row, load, run

__all__ = ["Change", "Check", "Comparison", "Comparisons", "Picture", "Result", "Row", "Why", "check", "compare"]
__all__ += ["load", "run", "why"]
