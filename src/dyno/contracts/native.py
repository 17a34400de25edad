"""The native module, which may not have been built."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

REMEDY = "install a Rust toolchain (cargo) and install Dyno again"


def is_built() -> bool:
    """Returns whether the module exists, without importing it."""
    return find_spec("dyno._native") is not None


def load_native() -> Any:
    """Returns the native module; None if it was not built."""
    try:
        import dyno._native as native
    except ImportError:
        return None
    return native
