"""Which version of a Python package is installed. Nothing may be imported here when this is: declarations of engines
import it, and `dyno list` all of those."""

from __future__ import annotations


def version(distribution: str) -> str:
    """As it calls itself: '2.1.0'. Raises ModuleNotFoundError where it is not installed."""
    # It brings the standard library's mail and archives along.
    from importlib.metadata import version as found

    return found(distribution)
