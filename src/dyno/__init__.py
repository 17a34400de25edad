"""Dyno: a dynamometer for data engines.

As a library: `run` measures, `load` reads a run file, `compare` and `check` compare runs.
Modules are imported at first use. See docs/reference/library.md.
"""

from __future__ import annotations

# Importing `typing` would take longer than the rest of this module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from dyno.contracts.model import UsageError
    from dyno.library import (
        Change,
        Check,
        Comparison,
        Comparisons,
        Picture,
        Result,
        Row,
        Why,
        check,
        compare,
        load,
        run,
        why,
    )

__version__ = "0.1.0"
__all__ = ["Change", "Check", "Comparison", "Comparisons", "Picture", "Result", "Row", "Why"]
__all__ += ["UsageError", "__version__", "check", "compare", "load", "run", "why"]


def __getattr__(name: str) -> object:
    if name == "UsageError":
        from dyno.contracts.model import UsageError

        return UsageError
    if name in __all__:
        from dyno import library

        return getattr(library, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
