"""The run file's first line: the plan, the machine, the cells, and what the suite declares.

Keys that a file lacks have the defaults below: files of earlier versions lack some. Undeclared keys are ignored. See
docs/reference/run-file.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta, Struct, to_builtins

from dyno.contracts.cell import Cell
from dyno.contracts.decoded_types import Amount, Count, Fact, Percent, Text
from dyno.contracts.limits import Limit, parse_all
from dyno.contracts.model import Phase
from dyno.contracts.presentation import Curve, Layout
from dyno.contracts.value_types import MOST_REAL, JsonMapping, JsonObject
from dyno.options import PlanOptions

MOST_CELLS = 100_000
MOST_PHASES = 1_000
SHORT_HASH = 10
"""Number of digits by which a commit is shown."""
Texts = list[Text]


class Commit(Struct, frozen=True):
    """The git commit of the directory in which the run began."""

    hash: Annotated[str, Meta(pattern=r"^[0-9a-fA-F]{7,64}\Z")]
    """7 to 64 hexadecimal digits."""
    changed: bool | None = None
    """Whether tracked files had uncommitted changes."""

    @property
    def short(self) -> str:
        """The first digits of the hash, and whether there were changes."""
        return f"{self.hash[:SHORT_HASH]}{' with changes' * bool(self.changed)}"


@dataclass(frozen=True, kw_only=True)
class RecordedPlan(PlanOptions):
    """The work and its options as resolved."""

    suite: Text
    phases: Annotated[tuple[Text, ...], Meta(min_length=1, max_length=MOST_PHASES)]
    timeout: Amount = MOST_REAL
    """Maximum seconds of a trial. A file without it has no maximum."""

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The limits of a search for a capacity; empty for another run."""
        if self.limit:
            return parse_all(self.limit)
        return ()


class Processor(Struct, frozen=True):
    model: Text | None = None
    logical_cores: Count | None = None
    available_cores: Count | None = None
    quota_cores: Amount | None = None
    """CPU time that a control group allows, in cores."""
    governor: Text | None = None
    mhz: Count | None = None
    max_mhz: Count | None = None
    turbo: bool | None = None
    virtualised: bool | None = None

    @property
    def usable_cores(self) -> float | None:
        """The number of cores that a trial can use: those that it may run on, or fewer if its CPU time is limited."""
        return min((float(number) for number in (self.available_cores, self.quota_cores) if number), default=None)


class Memory(Struct, frozen=True):
    total_bytes: Count | None = None
    available_bytes: Count | None = None
    swap_total_bytes: Count | None = None
    swap_used_bytes: Count | None = None
    cgroup_limit_bytes: Count | None = None
    """Limit of the control group."""


class System(Struct, frozen=True):
    os: Text | None = None
    kernel: Text | None = None
    architecture: Text | None = None
    libc: Text | None = None


class Interpreter(Struct, frozen=True):
    version: Text | None = None
    implementation: Text | None = None


class FileSystem(Struct, frozen=True):
    """The file system of the work directory."""

    mount_point: Text | None = None
    type: Text | None = None
    device: Text | None = None
    """Null where it would name a server or a user."""
    options: Texts | None = None
    ram_backed: bool | None = None
    network: bool | None = None
    rotational: bool | None = None
    write_cache: Text | None = None
    total_bytes: Count | None = None
    free_bytes: Count | None = None
    fsync_ns: Count | None = None
    """Median time to write and flush 4 kB in place."""


class Clock(Struct, frozen=True):
    source: Text | None = None
    cost_ns: Amount | None = None
    """Time of one reading."""
    resolution_ns: Amount | None = None


class Load(Struct, frozen=True):
    minutes_1: Amount | None = None
    minutes_5: Amount | None = None
    minutes_15: Amount | None = None


class Pressure(Struct, frozen=True):
    """Other processes' load while Dyno watched, before the first trial."""

    seconds: Amount | None = None
    steal_percent: Percent | None = None
    others_busy_percent: Percent | None = None
    swapped_in_bytes: Count | None = None
    swapped_out_bytes: Count | None = None


class RoundTrips(Struct, frozen=True):
    """Times in which a byte goes from one process to another and back."""

    p50_ns: Amount | None = None
    p99_ns: Amount | None = None
    awake_p50_ns: Amount | None = None
    awake_p99_ns: Amount | None = None


class WakeUps(Struct, frozen=True):
    """Round trips of a byte between two processes."""

    cost_ns: Amount | None = None
    """One wake-up of a sleeping core."""
    apart: RoundTrips | None = None
    """Each process on a core of its own."""
    free: RoundTrips | None = None
    """Both placed by the kernel."""


class Ceilings(Struct, frozen=True):
    """As `dyno doctor --probe` measured them."""

    flushes_per_second: Amount | None = None
    """Writes of 4 KiB in place, each flushed."""
    memory_bytes_per_second: Amount | None = None
    core_bytes_per_second: Amount | None = None
    core_events_per_second: Amount | None = None
    probed: Text | None = None
    """The day."""


class Host(Struct, frozen=True):
    """The machine: see `dyno.host.facts`. Null is unknown."""

    cpu: Processor = Processor()
    memory: Memory = Memory()
    system: System = System()
    python: Interpreter = Interpreter()
    filesystem: FileSystem = FileSystem()
    """The file system of the work directory."""
    clock: Clock = Clock()
    load: Load = Load()
    steal_percent: Percent | None = None
    """Since boot."""
    psi: Mapping[Text, Mapping[Text, Percent | None]] | None = None
    """Pressure stall information: `cpu`, `memory`, `io`."""
    pressure: Pressure = Pressure()
    """Other processes' load while Dyno watched, before the first trial."""
    wakeups: WakeUps | None = None
    """Round trips of a byte between two processes."""
    ceilings: Ceilings | None = None
    """As `dyno doctor --probe` measured them."""


class Crashes(Struct, frozen=True):
    """Number of kills of a server, or of cuts of a device, and the losses after them."""

    count: Count
    outcomes: Mapping[Text, Count]
    lost: Count


class KnownCrashes(Struct, frozen=True):
    """The latest result of `dyno crash` for an engine and tier."""

    engine: Text
    tier: Text
    settings: Mapping[Text, Fact] = {}
    verdict: Text | None = None
    why: Text | None = None
    model: Text | None = None
    version: Text | None = None
    traced: Text | None = None
    system: Text | None = None
    killed: Crashes | None = None
    cut: Crashes | None = None
    recovery: Crashes | None = None
    birth: Crashes | None = None
    device: Crashes | None = None

    @property
    def faults(self) -> Mapping[str, Crashes | None]:
        return {
            "killed": self.killed,
            "cut": self.cut,
            "recovery": self.recovery,
            "birth": self.birth,
            "device": self.device,
        }


class Header(Struct, frozen=True, kw_only=True):
    """The first line without the cells."""

    schema: int
    """Version of the format: 3, or 4 for a search for capacities."""
    dyno: Text | None = None
    created: Text | None = None
    """UTC, ISO 8601."""
    commit: Commit | None = None
    """The git commit of the current directory when the run began, without remote, path, branch or author. Null
    outside a repository."""
    plan: RecordedPlan
    """The work and its [options](run-options.md#in-the-run-file) as resolved."""
    preset: Text | None = None
    """The preset that the plan was made from."""
    phases: tuple[Phase, ...] | None = None
    layout: Layout | None = None
    """The suite's own table."""
    charts: tuple[Curve, ...] | None = None
    """The suite's own charts."""
    native: Texts | None = None
    """Phases that native load can run with every server engine of the run."""
    definition: JsonObject | None = None
    """The user's definition of the work, as the suite declares it."""
    experiment: Text | None = None
    """The published experiment that `dyno replicate` repeats in this run."""
    missing: Mapping[Text, Text] | None = None
    left_out: Texts | None = None
    """Requested values and versions that could not be measured, each with the reason."""
    downloads: Mapping[Text, Mapping[Text, Text]] | None = None
    """For each row of a version of an engine: the SHA-256 of what was downloaded for it, by its registry."""
    crashed: list[KnownCrashes] | None = None
    """Latest results of `dyno crash` for these engines: [a list](#crashes)."""
    host: Host
    """[The machine](#the-machine)."""


class FirstLine(Header, frozen=True, kw_only=True, tag_field="kind", tag="run"):
    """The first line of a run file."""

    cells: Annotated[tuple[Cell, ...], Meta(min_length=1, max_length=MOST_CELLS)]
    """Trials name them by their position."""


def drop_unknown_facts(line: JsonMapping) -> JsonMapping:
    """Returns the first line without facts of the machine that are null, which are the defaults of tables too."""
    host = line.get("host")
    if not isinstance(host, Mapping):
        return line
    return {**line, "host": {name: facts for name, facts in host.items() if facts is not None}}


def select_declared(line: JsonMapping, decoded: object) -> JsonObject:
    """Returns the keys of a first line that are declared, in their order. `decoded`: the line's Struct."""
    selected: dict[str, object] = _select(line, to_builtins(decoded))
    return selected


def _select(data: object, decoded: object) -> Any:
    if isinstance(data, Mapping) and isinstance(decoded, dict):
        return {name: _select(value, decoded[name]) for name, value in data.items() if name in decoded}
    if isinstance(data, list) and isinstance(decoded, list | tuple):
        return [_select(*pair) for pair in zip(data, decoded, strict=True)]
    if data is None:
        return None
    return decoded
