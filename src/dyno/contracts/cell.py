"""A cell of a plan: suite, engine with its options, tier, and a value for each parameter."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from dyno.contracts.decoded_types import Text, Value
from dyno.contracts.model import SETTINGS, Tier


@dataclass(frozen=True)
class Cell:
    """Suite + engine (with its options) + one value for each parameter; the tier is part of it."""

    suite: Text
    engine: Text
    options: Mapping[Text, Value]
    """Only the options that were asked for: they are part of the row's name."""
    tier: Tier | None
    """None where nothing is stored."""
    params: Mapping[Text, Value]
    floor: bool = False
    """A null engine's cell, which no other is ranked against."""
    follows: bool = False
    """No tier was requested of a user's own server: `tier` is what the server's settings give, once a trial has read
    them, and the weakest tier of the engine before."""

    name: Text | None = None
    """The label that the user gave the row."""

    @property
    def tier_name(self) -> str | None:
        """'power'; None where nothing is stored."""
        return None if self.tier is None else self.tier.value

    @cached_property
    def asked(self) -> str:
        """The engine as it was asked for, options included: 'sqlite:journal_mode=wal'."""
        given = "+".join(text for k, v in sorted(self.options.items()) for text in _told(k, v))
        return f"{self.engine}:{given}" if given else self.engine

    @cached_property
    def label(self) -> str:
        """What people read: the user's label, or as it was asked for. `results.labels` may set a better one."""
        return self.name or self.asked

    @cached_property
    def combination(self) -> str:
        """The values of all its parameters as one: it is the same for cells that may be compared."""
        return repr(sorted(self.params.items()))


def _told(name: str, value: Value) -> Iterator[str]:
    """'cache_mib=8'; of the engine's own settings each by itself: 'set.jit=on', 'set.work_mem=8 MB'."""
    try:
        own = shlex.split(str(value)) if name == SETTINGS else []
    except ValueError:
        own = []
    if own:
        yield from (f"{name}.{each}" for each in own)
    else:
        yield f"{name}={_shown(value)}"


def _shown(value: Value) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
