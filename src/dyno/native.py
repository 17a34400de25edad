"""The native module, whether it was built, and what to do where it was not. Asking whether imports nothing."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

REMEDY = "install a Rust toolchain (cargo) and install Dyno again"


def built() -> bool:
    return find_spec("dyno._native") is not None


def loaded() -> Any:
    """The native module; None where it was not built."""
    try:
        from dyno import _native
    except ImportError:
        return None
    return _native
