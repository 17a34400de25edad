"""The words of the design as frozen types: those with which engines and suites say what they are. Nothing here knows
an engine, a suite, a file or a screen."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from dyno.contracts.value_types import Fact as Fact
from dyno.contracts.value_types import Value as Value


class UsageError(Exception):
    """The user asked for what can't be: one line that says what was wrong and what would be right."""


class Refused(Exception):
    """An engine will not do what was asked of it (a tier, an option, a number of clients)."""


class Absent(Exception):
    """A phase that makes no sense for an engine as it was asked for (a cold one of what keeps no files)."""


class Wrong(Exception):
    """An engine gave an answer that is not what the dataset says it must be. It voids the phase."""


class Tier(str, enum.Enum):
    """Durability: the least that an acknowledged write survives."""

    VOLATILE = "volatile"
    PROCESS = "process"
    POWER = "power"

    @property
    def meaning(self) -> str:
        return _TIER_MEANING[self]


TIERS: tuple[Tier | None, ...] = (None, *Tier)
"""In the order in which they are shown; None of what stores nothing."""


def weakest(tiers: Iterable[Tier]) -> Tier:
    return min(tiers, key=TIERS.index)


def strongest(tiers: Iterable[Tier]) -> Tier:
    return max(tiers, key=TIERS.index)


_TIER_MEANING = {
    Tier.VOLATILE: "lost with the process",
    Tier.PROCESS: "survives SIGKILL of the engine's process",
    Tier.POWER: "flushed to the device before it is acknowledged",
}


@dataclass(frozen=True, slots=True)
class Caveat:
    """A fairness remark that is data: it travels with the sample and prints beside its number."""

    code: str
    text: str


STAND_IN_PREFIX = "not-"
"""Prefix of the caveat `not-ENGINE`, of a row whose server is another product than its engine's name says."""


@dataclass(frozen=True)
class Phase:
    """One measured step of a suite."""

    name: str
    title: str
    unit: str
    """What is counted, singular: 'key', 'op'."""
    writes: bool
    temperature: str = "none"
    """'hot': a whole untimed round comes first. 'cold': the engine is closed and its files leave the page cache."""
    checked: str = ""
    """How its answers are checked, for `dyno list` and the docs."""
    kinds: Mapping[str, bool] = field(default_factory=dict)
    """The kinds of its operations, where it mixes some, and whether each writes."""
    parts: tuple[str, ...] = ()
    """What parts a latency has, where an operation tells them apart."""
    reported: bool = False
    """An outside tool does and measures the work; what it reports is never ranked with what Dyno timed itself."""
    metric: str = "throughput"
    """What its rows are compared by: see `stats.metric`."""
    alias: str = ""
    """A name that needs no explaining, under which it may be asked for too, and by which the overview calls it."""
    by_default: bool = True
    """Measured without being named."""

    one_call: str = ""
    """With which value of a parameter it is one call, which no rate can be asked of: 'txn=all'; 'always'."""

    def unpaced(self, params: Mapping[str, Value]) -> bool:
        """Whether no rate can be asked of it with these parameters."""
        name, equals, value = self.one_call.partition("=")
        return self.reported or (str(params.get(name)) == value if equals else bool(name))

    def told(self) -> dict[str, Any]:
        """What a run file says of it."""
        return {name: value for name, value in asdict(self).items() if name not in ("by_default", "one_call")}


class Preset(NamedTuple):
    """Values for a named size: parameters, samples, and the time budget of a phase in seconds."""

    params: Mapping[str, Value | tuple[Value, ...]]
    """A tuple has several values, as if each had been asked for."""
    samples: int
    budget: float
    timeout: float
    phases: tuple[str, ...] = ()
    """Those that are measured where none is asked for; none: all."""
    until: str | None = None
    """How narrow intervals are to be, as '10%', where neither samples nor times are asked for. There are as many
    blocks as `samples` says at least; None: exactly so many."""
    within: float | None = None
    """The seconds after which no further block is begun."""


SETTINGS = "set"
"""The option that has settings of the engine's own: see `servers.given`."""


class Trial(NamedTuple):
    """One execution of a cell: its place in the run, and nothing of its result."""

    cell: int
    block: int
