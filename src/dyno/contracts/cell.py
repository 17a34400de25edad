"""A cell of a plan: suite, engine with its options, tier, and a value for each parameter."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from dyno.contracts.decoded_types import Text, Value
from dyno.contracts.model import SETTINGS, VARIANT, VERSION, Tier
from dyno.contracts.versions import VERSIONED


@dataclass(frozen=True)
class Cell:
    """A suite, an engine with its options, a tier, and a value for each parameter."""

    suite: Text
    engine: Text
    options: Mapping[Text, Value]
    """Only the requested options, which are part of the row's name."""
    tier: Tier | None
    """None if nothing is stored."""
    params: Mapping[Text, Value]
    floor: bool = False
    """True for a null engine, which is not ranked."""
    follows: bool = False
    """True for a user's own server without a requested tier: `tier` is the engine's weakest until a trial has read
    the server's settings, and then what they provide."""

    name: Text | None = None
    """The label that the user gave the row."""

    @property
    def tier_name(self) -> str | None:
        if self.tier is None:
            return None
        return self.tier.value

    @cached_property
    def asked(self) -> str:
        """The requested engine with its options: 'sqlite:journal_mode=wal', 'duckdb@1.4.5:threads=1'."""
        return self._describe(VERSIONED)

    def _describe(self, versioned: str) -> str:
        """Returns the engine, its version after the given sign, and its options."""
        texts = [text for k, v in sorted(self.options.items()) if k != VERSION for text in _option_texts(k, v)]
        name = self.engine
        if VERSION in self.options:
            name = f"{name}{versioned}{self.options[VERSION]}"
        return ":".join((name, *filter(None, ["+".join(texts)])))

    @property
    def row(self) -> str:
        """Key of the row among those of a run: the user's label, or else the requested engine. Two labels may name
        the same engine, whose rows then differ by chance alone."""
        return self.name or self.asked

    @cached_property
    def label(self) -> str:
        """The row's label: the user's own, or else `asked` with version and variant as words: 'postgresql indexed',
        'duckdb 1.4.5'. `results.set_labels` may set a better one."""
        if self.name:
            return self.name
        others = {name: value for name, value in self.options.items() if name != VARIANT}
        words = [Cell(self.suite, self.engine, others, None, {})._describe(" ")]
        if VARIANT in self.options:
            words.append(str(self.options[VARIANT]))
        return " ".join(words)

    @cached_property
    def combination(self) -> str:
        """Key of the parameters' values. Only cells with equal keys may be compared."""
        return repr(sorted(self.params.items()))


def _option_texts(name: str, value: Value) -> list[str]:
    """['cache_mib=8']. For the engine's own settings, one text each: ['set.jit=on', 'set.work_mem=8 MB']."""
    if isinstance(value, bool):
        text = "yes" if value else "no"
    else:
        text = str(value)
    with suppress(ValueError):
        if name == SETTINGS and (settings := shlex.split(text)):
            return [f"{name}.{each}" for each in settings]
    return [f"{name}={text}"]
