"""What each phase does: a table from its name to what builds its operations and the store that it wants.

The name itself carries no behaviour: nothing but its recipe may be asked what a phase is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from dyno.suites.records.mixed import mixed
from dyno.suites.records.params import COLD_KEYS, COLD_SCANS, KEYS_PER_RECORD, SCANS
from dyno.suites.records.work import ClientWork, Slices


@dataclass(frozen=True)
class Recipe:
    """Of one phase."""

    build: Callable[[ClientWork], Slices]
    """A client's operations, in the order in which they are done."""
    empty: bool = False
    """Whether it wants a store of its own with nothing in it; else it has one with every record."""
    indexed: bool = True
    once: bool = False
    """Whether it can be done once only, so that a further round of it has nothing: a record is inserted, and deleted,
    once."""
    stored: int | None = None
    """How many of the phase's items are a record that is stored; None where none is, or it is not known."""


def _insert(name: str, blind: bool, indexed: bool) -> Recipe:
    keys = KEYS_PER_RECORD[name]
    return Recipe(
        partial(ClientWork.insert, blind=blind, keys=keys), empty=True, indexed=indexed, once=True, stored=keys
    )


RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "insert-blind-noindices": _insert("insert-blind-noindices", blind=True, indexed=False),
        "insert-blind-indices": _insert("insert-blind-indices", blind=True, indexed=True),
        "insert-noblind-noindices": _insert("insert-noblind-noindices", blind=False, indexed=False),
        "insert-noblind-indices": _insert("insert-noblind-indices", blind=False, indexed=True),
        "rand-key": Recipe(ClientWork.rand_key),
        "rand-index": Recipe(ClientWork.rand_index),
        "scan": Recipe(partial(ClientWork.scan, part=SCANS)),
        "rand-key-cold": Recipe(partial(ClientWork.rand_key, part=COLD_KEYS)),
        "scan-cold": Recipe(partial(ClientWork.scan, part=COLD_SCANS)),
        "update": Recipe(ClientWork.update, stored=1),
        "mixed": Recipe(mixed),
        "delete": Recipe(ClientWork.delete, once=True),
    }
)
