"""Dyno: a dynamometer for data engines.

As a library: `run` measures, `load` reads a run file, `compare` and `check` compare runs.
Modules are imported at first use. See docs/reference/library.md.
"""

from __future__ import annotations

# Importing `typing` would take longer than the rest of this module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dyno.contracts.model import UsageError as UsageError
    from dyno.library import Change as Change
    from dyno.library import Check as Check
    from dyno.library import Comparison as Comparison
    from dyno.library import Comparisons as Comparisons
    from dyno.library import Picture as Picture
    from dyno.library import Result as Result
    from dyno.library import Row as Row
    from dyno.library import check as check
    from dyno.library import compare as compare
    from dyno.library import load as load
    from dyno.library import run as run

__version__ = "0.1.0"
_LIBRARY = (
    "Change",
    "Check",
    "Comparison",
    "Comparisons",
    "Picture",
    "Result",
    "Row",
    "check",
    "compare",
    "load",
    "run",
)
__all__ = [*_LIBRARY, "UsageError", "__version__"]


def __getattr__(name: str) -> Any:
    if name in _LIBRARY:
        from dyno import library

        return getattr(library, name)
    if name == "UsageError":
        from dyno.contracts.model import UsageError

        return UsageError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
