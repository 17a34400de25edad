"""The vocabulary of the design as frozen types, for the declarations of engines and suites."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from dyno.contracts.value_types import Fact as Fact
from dyno.contracts.value_types import Value as Value


class UsageError(Exception):
    """A mistake of the user: one line that says what is wrong and what would be right."""


class Refused(Exception):
    """An engine can't provide what was requested: a tier, an option, a number of clients."""


class Absent(Exception):
    """A phase that makes no sense for an engine as requested, such as a cold phase without files."""


class Wrong(Exception):
    """An engine gave a wrong answer. It voids the phase."""


class Tier(str, enum.Enum):
    """Durability of acknowledged writes."""

    VOLATILE = "volatile"
    PROCESS = "process"
    POWER = "power"

    @property
    def meaning(self) -> str:
        return _TIER_MEANING[self]


TIERS: tuple[Tier | None, ...] = (None, *Tier)
"""In display order; None for rows that store nothing."""


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
    """A remark about fairness, saved with the sample and printed beside its number."""

    code: str
    text: str


STAND_IN_PREFIX = "not-"
"""Prefix of the caveat `not-ENGINE`, for a row whose server is another product than its engine's name says."""


@dataclass(frozen=True)
class Phase:
    """One measured step of a suite."""

    name: str
    title: str
    unit: str
    """The item that is counted, in the singular: 'key', 'op'."""
    writes: bool
    temperature: str = "none"
    """'hot': an untimed round comes first. 'cold': the engine is closed and its files are evicted first."""
    checked: str = ""
    """How its answers are checked, for `dyno list` and the docs."""
    kinds: Mapping[str, bool] = field(default_factory=dict)
    """Kinds of operations in a mixed phase, and whether each writes."""
    parts: tuple[str, ...] = ()
    """Names of the parts of a latency."""
    reported: bool = False
    """An outside tool does and measures the work. Its figures are never ranked with Dyno's own."""
    metric: str = "throughput"
    """The metric that rows are compared by: see `stats.metric`."""
    alias: str = ""
    """A self-explanatory second name, also used by the overview."""
    by_default: bool = True
    """Measured without being named."""

    one_call: str = ""
    """When the phase is a single call, which can't have a rate: 'always', or a parameter's value as 'txn=all'."""

    def unpaced(self, params: Mapping[str, Value]) -> bool:
        """Whether the phase can't have a rate with these parameters."""
        name, equals, value = self.one_call.partition("=")
        return self.reported or (str(params.get(name)) == value if equals else bool(name))

    def to_json(self) -> dict[str, Any]:
        """The phase as saved in a run file."""
        return {name: value for name, value in asdict(self).items() if name not in ("by_default", "one_call")}


class Preset(NamedTuple):
    """Values for a named size of a run. `budget` is the time of a phase, and `timeout` that of a trial, in
    seconds."""

    params: Mapping[str, Value | tuple[Value, ...]]
    """A tuple is a list of values to measure."""
    samples: int
    budget: float
    timeout: float
    phases: tuple[str, ...] = ()
    """Phases to measure unless some are named; all if empty."""
    until: str | None = None
    """Width of intervals to reach, such as '10%', unless the user sets samples or times: `samples` is then the
    minimum number of blocks. None: exactly `samples` blocks."""
    within: float | None = None
    """Seconds after which no further block begins."""


SETTINGS = "set"
"""The option for an engine's own settings: see `servers.set_option`."""


class Trial(NamedTuple):
    """One execution of a cell, by its position in the run."""

    cell: int
    block: int
