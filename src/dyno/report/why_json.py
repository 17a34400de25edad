"""Keys of the JSON that `dyno why --json` prints, in their order.

docs/reference/why-json.md and `dyno schema why` follow from these types.
"""

from collections.abc import Mapping

from msgspec import Struct

from dyno.contracts.decoded_types import Value
from dyno.report.compare_json import OneSidedRow
from dyno.stats.why import Difference


class AccountRow(Struct, frozen=True):
    """Where the time of an item of a row goes. Means over the samples."""

    engine: str
    label: str | None
    total_ns: float
    """Clients × elapsed time ÷ items, or with `core_time` the sum of the parts."""
    core_time: bool
    """Whether several cores worked at once, so that the parts are of core time."""
    parts_ns: Mapping[str, float]
    """The parts by name. A part that is unknown is missing, and then in `other_wait`."""
    counts: Mapping[str, float]
    """What the kernel counts for an item of client and server together."""


class Reason(OneSidedRow, frozen=True):
    """Why a row differs from its base. Differences are of the time of an item, with 99 % intervals."""

    baseline: str
    """The base's engine; between two runs, it is the same row of the first."""
    kind: str
    """The verdict on the time of an item: `faster`, `slower`, `alike` or `unclear`."""
    undisturbed: bool
    """Whether everything is without waiting for a core, because other processes disturb that."""
    whole: Difference | None
    """By how much longer an item takes; null without accounts of both."""
    parts: Mapping[str, Difference]
    named: list[str]
    """The parts that make the difference, largest first."""
    ruled_out: list[str]
    explained: bool
    """Whether the named parts make at least half of the difference."""
    counts: Mapping[str, list[float]]
    """Counts for an item that differ by a factor of 1.5, of the row and of its base."""
    counters: Mapping[str, list[float]]
    """The engine's own counters for an item that differ so, if both rows are of one engine."""
    missing: str
    """Why there is no account of one of the rows; empty if there is."""
    text: str
    """All of it in words."""


class AccountTable(Struct, frozen=True):
    phase: str
    tier: str | None
    params: Mapping[str, Value]
    accounts: list[AccountRow]
    without: Mapping[str, str]
    """Rows without an account, each with the reason."""


class Share(Struct, frozen=True):
    """The share of a function in the CPU time."""

    library: str
    function: str
    share: float
    """Of the samples: 0 to 1."""


class Profile(OneSidedRow, frozen=True):
    """Where the CPU time of a row's phase went, in one more trial whose times are in no figure."""

    samples: int
    """Number of CPU samples, of client and server together."""
    libraries: Mapping[str, float]
    """Share of each library's own functions, largest first."""
    functions: list[Share]
    """The functions that ran most: 50 at most."""
    waits: Mapping[str, float]
    """Share of each event that the server's busy sessions were seen waiting for, and of `running`; empty if
    unknown."""
    system_calls: Mapping[str, float]
    """System calls of an item, by name; empty if unknown."""


class Why(Struct, frozen=True):
    schema: int
    """Version of this format: 1."""
    runs: list[str]
    """The run files, the base first."""
    tables: list[AccountTable]
    """Of the last run."""
    reasons: list[Reason]
    profiles: list[Profile]
    """Of the last run's profiled trials."""
