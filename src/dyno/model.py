"""The words of the design as frozen types. Nothing here knows an engine, a suite, a file or a screen."""

from __future__ import annotations

import enum
import importlib.util
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Protocol

Value = str | int | float | bool
Fact = str | int | float | None
"""What a suite tells of a store beside its times; None where it is not known."""


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


_TIER_MEANING = {
    Tier.VOLATILE: "lost with the process",
    Tier.PROCESS: "survives SIGKILL of the engine's process",
    Tier.POWER: "flushed to the device before it is acknowledged",
}


@dataclass(frozen=True)
class Caveat:
    """A fairness remark that is data: it travels with the sample and prints beside its number."""

    code: str
    text: str


@dataclass(frozen=True)
class Setting:
    """One named value that a user may give: an engine's option or a suite's parameter.

    `parse` turns the text into the value and raises ValueError with what would be right.
    """

    name: str
    parse: Callable[[str], Value]
    default: Value
    help: str
    address: bool = False
    """The address of a user's own server. It may hold a password, which is shown and kept nowhere."""

    def read(self, text: Any, owner: str) -> Value:
        """The value of `text`, which may also be a value from a plan file. Raises UsageError."""
        if isinstance(text, bool):
            text = "yes" if text else "no"
        try:
            return self.parse(str(text))
        except ValueError as error:
            raise UsageError(f"{owner} {self.name}={text}: {error}") from None


def integer(low: int, high: int | None = None) -> Callable[[str], Value]:
    """A parser of integers from `low` to `high`; underscores may group digits, as in Python."""
    wanted = f"a whole number from {low}" + (f" to {high}" if high is not None else " up")

    def parse(text: str) -> Value:
        try:
            number = int(text)
        except ValueError:
            number = low - 1
        if number < low or (high is not None and number > high):
            raise ValueError(f"wants {wanted}")
        return number

    return parse


def percent(text: str) -> float:
    """A percentage as a share: '5%', '5 %' and '5' are 0.05. Raises ValueError."""
    try:
        share = float(str(text).removesuffix("%")) / 100
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ValueError("wants a percentage over 0 and up to 100, such as 5%")
    return share


def choice(*names: str) -> Callable[[str], Value]:
    """A parser that takes one of `names` and suggests the nearest."""

    def parse(text: str) -> Value:
        if text not in names:
            raise ValueError(f"wants one of {', '.join(names)}")
        return text

    return parse


def yes_no(text: str) -> Value:
    """A parser of yes or no (true, false, on, off, 1, 0)."""
    word = text.lower()
    if word in ("yes", "true", "on", "1"):
        return True
    if word in ("no", "false", "off", "0"):
        return False
    raise ValueError("wants yes or no")


@dataclass(frozen=True)
class Gap:
    """A conformance check that an engine does not pass, and why. A gap that starts to pass fails the tests."""

    check: str
    kind: str  # "unsupported" (never), "upstream" (their bug), "todo" (ours)
    reason: str


class Engine(Protocol):
    """An opened engine: what its opener returns. Closed by `close`; opened again by a new call.

    The opener is called as `opener(home, tier, options)`: `home` is a directory of its own that exists,
    `tier` one of the spec's, `options` holds every option of the spec by name. That of an engine with a server is
    given the server, too, which runs.
    """

    def close(self) -> None: ...

    def version(self) -> str:
        """The engine's own version, and its client's: '0.9.36 (py-lmdb 3.0.0)'."""

    def settings(self) -> Mapping[str, Value | None]:
        """The settings in effect that decide speed or durability, read back from the engine where it tells."""

    def files(self) -> Iterable[Path]:
        """The files that hold its data now; nothing for an engine without files."""

    def caveats(self) -> Iterable[Caveat]: ...


class Server(Protocol):
    """The server of one trial: one of Dyno's own in a directory of its own, or a user's, which is left alone."""

    own: bool
    """Whether it is Dyno's, to be stopped and thrown away."""

    def start(self) -> None:
        """Returns when it answers; also after `stop` and `kill`. Raises Refused where it does not come up."""

    def stop(self) -> None:
        """As an administrator stops it, with all its data on disk. Raises Absent for a user's own."""

    def kill(self) -> None:
        """As a crash ends it: SIGKILL to all its processes. Raises Absent for a user's own."""

    def close(self) -> None:
        """Ends it for good, as fast as it goes without leaving anything behind."""

    def pids(self) -> Iterable[int]:
        """Its processes, but for their descendants; nothing of a user's own, and of one that is not running."""


@dataclass(frozen=True)
class EngineSpec:
    """What an engine's file declares. Importing that file must not import the engine's library."""

    name: str
    title: str
    opener: Callable[..., Engine]
    """See `Engine`."""
    ports: Mapping[str, Callable[..., Any]]
    """Port name to the class that implements it, each called with the opened engine."""
    tiers: Mapping[Tier, Mapping[str, Value]]
    """The tiers that it can give, each with the setting that gives it."""
    default_tier: Tier
    modules: tuple[str, ...] = ()
    """Modules that must be importable for it to run."""
    install: str = ""
    """The one command that installs what is missing."""
    options: tuple[Setting, ...] = ()
    refuse: Callable[[Tier, Mapping[str, Value]], str | None] = lambda tier, options: None
    """Why these options can't give that tier; None where they can."""
    clients: str = "one"
    """How several clients share it: 'threads' (of one process), 'processes', or 'one' (they can't)."""
    gaps: tuple[Gap, ...] = ()
    server: Callable[[Path, Tier, Mapping[str, Value], int], Server | None] | None = None
    """Its server, not yet started: called with a directory for it, the tier, all options and the number of clients.
    None for an engine without one, and from the call where these options want none."""
    remove: Callable[[Path, Mapping[str, Value], Any], None] | None = None
    """Called with the home of a store, all options and the server: takes the store off the server."""
    needs: Callable[[Mapping[str, Value]], str | None] = lambda options: None
    """What is missing here beside modules (a server's program), with the command that installs it."""
    in_memory: bool = False
    """It reads from memory alone, also where it keeps files, so that none of its reads can be cold."""
    floor: bool = False
    """A null engine: it does nothing, and its figure prices the harness."""
    by_default: bool = True
    """Runs without being named, where it can run."""
    untested: str = ""
    """Why nobody has run it against the real thing; empty for an engine that the tests run."""

    def missing(self) -> tuple[str, ...]:
        """The modules that it needs and that are not installed, found without importing them."""
        return tuple(module for module in self.modules if not _importable(module))

    def lacking(self, options: Mapping[str, Value] | None = None) -> str | None:
        """Why it can't run here with these options (None: its defaults), in one line with the remedy; None where it
        can."""
        if missing := self.missing():
            return f"needs {', '.join(missing)}: {self.install}"
        return self.needs(self.resolve({}) if options is None else options)

    def resolve(self, given: Mapping[str, Any]) -> dict[str, Value]:
        """Every option by name: `given` where given, defaults elsewhere. Raises UsageError."""
        return resolve(self.options, given, f"engine {self.name}: option")


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


@dataclass(frozen=True)
class Preset:
    """Values for a named size: parameters, samples, and the time budget of a phase in seconds."""

    params: Mapping[str, Value | tuple[Value, ...]]
    """A tuple has several values, as if each had been asked for."""
    samples: int
    budget: float
    timeout: float


@dataclass(frozen=True)
class Cell:
    """Suite + engine (with its options) + one value for each parameter; the tier is part of it."""

    suite: str
    engine: str
    options: Mapping[str, Value]
    """Only the options that were asked for: they are part of the row's name."""
    tier: Tier
    params: Mapping[str, Value]
    floor: bool = False
    """A null engine's cell, which no other is ranked against."""

    @property
    def asked(self) -> str:
        """The engine as it was asked for, options included: 'sqlite:journal_mode=wal'."""
        given = "+".join(f"{k}={_shown(v)}" for k, v in sorted(self.options.items()))
        return f"{self.engine}:{given}" if given else self.engine


@dataclass(frozen=True)
class Trial:
    """One execution of a cell: its place in the run, and nothing of its result."""

    cell: int
    block: int


@dataclass(frozen=True)
class Sample:
    """What one trial measured for one phase. Times are integer nanoseconds; unknown is None."""

    phase: str
    unit: str
    operations: int
    """Timed calls: single operations, transactions, or 1 for a bulk phase."""
    items: int
    """What the throughput counts, in `unit`."""
    elapsed_ns: int
    """Time inside the timed region: from the first call to the last return, pauses taken out."""
    busy_ns: int
    """Time inside the engine, its calls and its transactions, all clients together; the rest is the harness."""
    errors: int
    """Operations that raised. They are in `operations` and in the latencies, and not in `items`."""
    ended_by: str  # "count" or "budget"
    checked: int
    """Answers that were compared with the dataset."""
    clients: int = 1
    bulk: bool = False
    first_error: str | None = None
    histogram: str | None = None
    """Service time per operation, in ns: HdrHistogram's interchange format. None for a bulk phase."""
    by_kind: Mapping[str, str | None] = field(default_factory=dict)
    """The same, apart for each kind of operation, where a phase mixes kinds."""
    response: str | None = None
    """Response time, from the moment at which an operation was due: of an open loop."""
    late: str | None = None
    """By how much the harness itself was late: from when it was free to start, to when it did. Of an open loop."""
    series: tuple[Mapping[str, int], ...] = ()
    """For each second (see `series.Series`): operations, p50_ns, p99_ns."""
    temperature: str = "none"
    """'hot' or 'cold' where that is what was reached, 'lukewarm' where it was asked for and not reached."""
    residency: Mapping[str, Any] | None = None
    """Of a cold phase: file_bytes, resident_bytes and how they were evicted."""
    client: Mapping[str, int | None] | None = None
    """What the clients' processes used during the phase: see `run.usage.Usage`."""
    server: Mapping[str, int | None] | None = None
    """The same of the processes that serve the engine; None where there are none."""
    device: Mapping[str, int | None] | None = None
    """Bytes read from and written to the block device of the work directory, by anybody."""
    bytes_on_disk: int | None = None
    """Allocated blocks of the engine's files, once it had settled."""
    settled: bool | None = None
    """Whether the engine came to rest after the phase; None for a phase that does not write."""
    written_bytes: int | None = None
    """Sent to the device by all processes, from the start of the phase until the engine had settled."""
    payload_bytes: int | None = None
    """What the application gave to be stored."""
    facts: Mapping[str, Fact] = field(default_factory=dict)
    """What the suite tells of the store after the phase, by name."""
    void: str | None = None
    """Why the phase counts for nothing; None where every answer was right."""

    @property
    def per_second(self) -> float | None:
        """Items a second, all clients together; None where nothing was measured."""
        if self.void or self.elapsed_ns <= 0 or self.items <= 0:
            return None
        return self.items / self.elapsed_ns * 1e9


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        # The package that it would be a part of is not there.
        return False


def nearest(word: str, names: Iterable[str]) -> str:
    """'did you mean X?' where a name is near, or the whole list."""
    names = list(names)
    close = get_close_matches(word, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else f"there are: {', '.join(sorted(names))}"


def resolve(settings: Iterable[Setting], given: Mapping[str, Any], owner: str) -> dict[str, Value]:
    """Every setting by name: `given` where given, its default elsewhere. Raises UsageError."""
    known = {setting.name: setting for setting in settings}
    for name in given:
        if name not in known:
            raise UsageError(unknown(owner, name, known))
    return {name: s.read(given[name], owner) if name in given else s.default for name, s in known.items()}


def unknown(what: str, word: object, names: Iterable[str]) -> str:
    """The line for a name that is not known."""
    names, word = list(names), str(word)
    if not names:
        return f"{what} {shlex.quote(word)} is not known: there are none"
    return f"{what} {shlex.quote(word)} is not known; {nearest(word, names)}"


def _shown(value: Value) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
