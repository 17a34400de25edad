"""Basic types of the declarations of engines and suites, most of them frozen."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

from dyno.contracts.value_types import Fact as Fact
from dyno.contracts.value_types import Value as Value


class UsageError(Exception):
    """A user's mistake. The message is one line that says what is wrong and what would be right."""


class NotInstalled(UsageError):
    """A value needs a package that is not installed. The message names the value, the package and the remedy."""


class Refused(Exception):
    """An engine can't provide what was requested: a tier, an option, a number of clients."""


class Unavailable(Refused):
    """An outside tool failed, or a server can't be reached. Another attempt may succeed, so the trial ends as an
    error and is repeated. The message has the whole cause."""


class Absent(Exception):
    """A phase makes no sense for the requested engine, such as a cold phase without files."""


class Wrong(Exception):
    """An engine gave a wrong answer. The phase becomes void."""


class Tier(str, enum.Enum):
    """Durability of acknowledged writes."""

    VOLATILE = "volatile"
    PROCESS = "process"
    POWER = "power"

    @property
    def meaning(self) -> str:
        return _TIER_MEANING[self]


TIERS: tuple[Tier | None, ...] = (None, *Tier)
"""Tiers in display order. None stands for rows that store nothing."""


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


MAY_WRITE = "may-write"
"""Code of the caveat of a row that only reads a user's tables, by a login that may do more. `dyno run` prints it."""
STAND_IN_PREFIX = "not-"
"""Prefix of the caveat `not-ENGINE`, for a row whose server is not the product that the engine's name promises."""


@dataclass(frozen=True)
class Phase:
    """One measured step of a suite."""

    name: str
    title: str = ""
    """Empty: the name."""
    unit: str = "op"
    """The counted item, in the singular: 'key', 'op'."""
    writes: bool = False
    temperature: str = "none"
    """'hot': an untimed round comes first. 'cold': the engine is closed and its files are evicted first. 'none':
    neither."""
    checked: str = ""
    """How the phase's answers are checked, for `dyno list` and the docs."""
    kinds: Mapping[str, bool] = field(default_factory=dict)
    """Kinds of operations in a mixed phase, and whether each writes."""
    parts: tuple[str, ...] = ()
    """Names of the parts of a latency."""
    reported: bool = False
    """True if an outside tool does and measures the work. Its figures are never ranked with Dyno's own."""
    metric: str = "throughput"
    """The metric that rows are compared by: see `stats.metric`."""
    alias: str = ""
    """A self-explanatory second name, also used by the overview."""
    says: str = ""
    """How a sentence states the figure of an engine without a competitor, such as '{figure} random reads a second at
    depth {depth}, p99 {p99}'. May have {range}, which is the lowest to the highest figure over all parameters."""
    by_default: bool = True
    """True if the phase is measured without being named."""

    one_call: str = ""
    """When the phase is a single call, which can't have a rate: 'always', or for one value of a parameter, as
    'txn=all'."""

    def __post_init__(self) -> None:
        if not self.title:
            object.__setattr__(self, "title", self.name)

    def ignores_rate(self, params: Mapping[str, Value]) -> bool:
        """Whether the phase can't have a rate with these parameters."""
        name, equals, value = self.one_call.partition("=")
        return self.reported or (str(params.get(name)) == value if equals else bool(name))

    def to_json(self) -> dict[str, object]:
        """The phase as saved in a run file."""
        return {name: value for name, value in asdict(self).items() if name not in ("by_default", "one_call")}


DECIDED: Final = "decided"
"""Value of `until` for runs that add blocks until every stated comparison is decided."""


class Preset(NamedTuple):
    """Defaults for a named size of a run. `budget` limits a phase and `timeout` a trial, in seconds."""

    params: Mapping[str, Any]
    """Values of parameters by name. A tuple is a list of values to measure."""
    samples: int
    budget: float
    timeout: float
    phases: tuple[str, ...] = ()
    """Phases to measure unless the user names some; all if empty."""
    until: str | None = DECIDED
    """When the run ends, unless the user sets samples or times: DECIDED, or the target width of the intervals, such
    as '10%'. `samples` is then the minimum number of blocks. None: exactly `samples` blocks."""
    within: float | None = None
    """Seconds after which no further block begins; None: a minute for `quick`, half an hour for others."""


SETTINGS = "set"
"""Name of the option for an engine's own settings: see `servers.set_option`."""
VARIANT, BASE = "variant", "base"
"""Option of a row that runs a variant of the user's definition, and its value for the definition itself."""
VERSION = "version"
"""Option of a row that runs a named version of its engine: the exact version, as text."""


class Trial(NamedTuple):
    """One execution of a cell, by its position in the run."""

    cell: int
    block: int
    stage: str | None = None
    """For a probe: the stage of the search, the offered operations per second, and its seconds."""
    rate: float | None = None
    seconds: float | None = None
    bound: float | None = None
    """Seconds after which a search's trial is killed, if that is before the run's timeout."""
    profiled: str | None = None
    """For a profiled trial, whose times are in no figure: what it collects, as in `contracts.profile`."""
