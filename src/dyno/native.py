"""The native module, and whether it was built. `built` imports nothing."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

REMEDY = "install a Rust toolchain (cargo) and install Dyno again"


def built() -> bool:
    return find_spec("dyno._native") is not None


def loaded() -> Any:
    """The native module; None if it was not built."""
    try:
        from dyno import _native
    except ImportError:
        return None
    return _native
