"""Whether the native module was built, and what to do where it was not. Nothing is imported for that."""

from __future__ import annotations

from importlib.util import find_spec

REMEDY = "install a Rust toolchain (cargo) and install Dyno again"


def built() -> bool:
    return find_spec("dyno._native") is not None
