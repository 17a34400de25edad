"""The contract of an engine: the declaration in its file, the opened engine, and its server. Names no engine."""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from dyno.contracts.counters import UNITS, Counter, CounterSpec, WaitSpec
from dyno.contracts.declarations import defer_import, exception_text
from dyno.contracts.installation import NOTHING, Installation
from dyno.contracts.model import PROGRAM, URL, VERSION, Caveat, Tier, UsageError, Value
from dyno.contracts.sanitize import sanitize
from dyno.contracts.settings import Setting, resolve, unknown_name_message
from dyno.contracts.versions import Versions, find_installed
from dyno.host import interpreters
from dyno.host.installation import find_excluded_requirement, only_missing

CLIENTS = ("one", "threads", "processes", "turns")
GAPS = ("unsupported", "upstream", "todo")
TIER, OWN = "tier", ("name", "tier", "label", VERSION)
"""OWN has the reserved keys in an engine spec (`-e lmdb:tier=power+name=a`), which no option may have as its name."""
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
T = TypeVar("T")


class Gap(NamedTuple):
    """A conformance check that an engine does not pass, and why. A gap that starts to pass fails the tests."""

    check: str
    kind: str  # "unsupported" (never), "upstream" (their bug), "todo" (ours)
    reason: str


class Engine(Protocol):
    """An opened engine, as its opener returns it. Subclasses override only what differs from the defaults.

    The opener is called as `opener(home, tier, options)`, and for an engine with a server as `opener(home, tier,
    options, server)`. `home` is an existing directory that belongs to this store alone. `tier` is one of the declared
    tiers. `options` has every option by name. `server` is running. After `close`, a new call may open the same home.
    """

    def close(self) -> None:
        """Closes files, maps and connections. The default does nothing."""

    def version(self) -> str:
        """Returns the versions of the engine and its client: '0.9.36 (py-lmdb 3.0.0)'."""

    def settings(self) -> Mapping[str, Value | None]:
        """Returns the effective settings that decide speed or durability, if possible read back from the engine."""
        return {}

    def files(self) -> Iterable[Path]:
        """Returns the files that hold the data now. The default returns none: everything is in memory."""
        return ()

    def caveats(self) -> Iterable[Caveat]:
        """Returns remarks about fairness, printed beside every number. The default returns none."""
        return ()


class Server(Protocol):
    """The server of one trial: started by Dyno in its own directory, or a user's server that Dyno leaves running."""

    own: bool
    """True if Dyno started the server, and will stop it and delete its data."""

    def start(self) -> None:
        """Starts the server, also after `stop` or `kill`. Returns when it answers, or raises Refused."""

    def stop(self) -> None:
        """Shuts the server down cleanly, with all data on disk. Raises Absent for a user's server."""

    def kill(self) -> None:
        """Sends SIGKILL to all processes of the server. Raises Absent for a user's server."""

    def close(self) -> None:
        """Ends the server for good, as fast as possible: its data is not needed any more."""

    def pids(self) -> Iterable[int]:
        """Returns the ids of the server's processes, without descendants and lost nodes. Empty for a user's server
        and for a stopped server."""


class Nodes(ABC):
    """A server of several nodes, started by Dyno, that may lose one node. Dyno recognises it by `isinstance`."""

    copies = 1
    """Number of nodes that keep each item."""
    survives = False
    """True if acknowledged writes can still be read after any one node is lost for good."""
    halts = ""
    """Why writes stop when one node is lost; empty if the other nodes go on."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of nodes."""

    @abstractmethod
    def lose(self, number: int) -> None:
        """Sends SIGKILL to one node, counted from 0. The others keep running."""


class Maintenance(NamedTuple):
    """Occasional work of an engine: a checkpoint, a log rotation, a compaction. `dyno crash` triggers it, so that
    crashes also hit maintenance and not only commits."""

    what: str
    """Name of the work, such as 'checkpoint'. For an engine without maintenance: what the engine does instead."""
    do: Callable[[Any], object] | None = None
    """Called with the opened engine between two commits; returns when the work is done or has begun. None for an
    engine whose commits leave no work for later."""
    every: int = 10
    """Number of commits between two calls."""
    times: Callable[[Any], int] | None = None
    """Called with the opened engine; returns how often it has done the work by itself. None if it can't be known."""


@dataclass(frozen=True)
class PortSpec:
    """The part of a declaration that holds for one port only. Fields that are None or empty change nothing."""

    implementation: Callable[..., Any] | str
    """The class that implements the port, or its path 'package.module:Class', which only the worker imports."""
    installation: Installation = NOTHING
    """Installation in addition to the engine's. `builds` and `python` are the engine's alone."""
    options: tuple[Setting, ...] = ()
    """Options, in addition to the engine's."""
    tiers: Mapping[Tier, Mapping[str, Value]] | None = None
    """Tiers that replace the engine's; empty if nothing is stored through this port."""
    clients: str | None = None
    gaps: tuple[Gap, ...] = ()
    caveats: tuple[Caveat, ...] = ()
    removal: Callable[[str, Mapping[str, Value]], str] | None = None
    """Like `ServerSpec.removal`, and replaces it."""

    def open(self, *arguments: object) -> Any:
        """Returns `implementation` called with these arguments; the first argument is the opened engine."""
        implementation = self.implementation
        return (defer_import(implementation) if isinstance(implementation, str) else implementation)(*arguments)


@dataclass(frozen=True)
class ServerSpec:
    """An engine's server. An embedded engine has none."""

    create: Callable[[Path, Tier, Mapping[str, Value], int], Server | None]
    """Returns the server, not yet started, or None if these options need no server. Called with the server's
    directory, the tier, all options and the number of clients."""
    start_seconds: Callable[[Mapping[str, Value]], float] = lambda options: 0.0
    """Called with all options; returns the seconds that the server may take to start on two busy cores. Each start
    adds them to a trial's default timeout."""
    gives: Callable[[Any], Tier] | None = None
    """Called with an engine opened on a user's server; returns the tier that the server's settings provide. The field
    is None if the settings can't be read or don't decide the tier."""
    remove: Callable[[Path, Mapping[str, Value], Any], None] | None = None
    """Called with the home of a store, all options and the server; deletes the store from the server."""
    removal: Callable[[str, Mapping[str, Value]], str] | None = None
    """Called with the name of a store on a user's server and all options; returns the shell command that deletes it.
    It is printed when Dyno could not delete the store. Passwords in `url` are masked."""
    missing_right: Callable[[Exception], str | None] | None = None
    """Called with an exception from a user's server; returns the right that the server's user lacks, in the server's
    words, or None for any other error. The trial is then refused."""
    library_works: bool = False
    """Whether the library in the client does a part of the server's work, as ZODB does: it is no load generator."""


@dataclass(frozen=True)
class CrashSpec:
    """Properties of an engine that `dyno crash` and the proofs of tiers use."""

    maintenance: Maintenance | None = None
    """The engine's maintenance. If it is None (unknown), no crash is tested in the middle of maintenance."""
    log: tuple[str, ...] = ()
    """Glob patterns, relative to the store's directory, of the files that hold a commit when it is acknowledged
    ('*/wal/*'). For engines that write other files in the background: only the matching files prove the tiers."""
    intact: Callable[[Any], str | None] | None = None
    """Called with the opened engine; runs the engine's own check of its files and returns what is wrong, or None."""
    in_place: str = ""
    """Why a crash may leave half of a transaction that overwrites values; such changes are then not judged. Empty if
    a crash can't leave half a transaction."""


@dataclass(frozen=True)
class Listing:
    """An engine's place in lists, and the label of its rows."""

    by_default: bool = True
    """True if the engine runs without being named."""
    untested: str = ""
    """Why nobody has run the engine against the real product; empty if the tests run it."""
    labelled: str = ""
    """Name of the option whose value is the label of rows, unless the user gives them another one."""


@dataclass(frozen=True)
class EngineSpec:
    """The declaration of an engine. The file with the declaration must not import the engine's library."""

    name: str
    title: str
    opener: Callable[..., Engine]
    """See `Engine`."""
    ports: Mapping[str, PortSpec]
    """The ports that it implements, by name."""
    tiers: Mapping[Tier, Mapping[str, Value]]
    """The tiers that it provides, each with the settings that provide it. Empty if it stores nothing."""
    default_tier: Tier | None = None
    """May be left out if there is only one tier. None if there are none."""
    options: tuple[Setting, ...] = ()
    refuse: Callable[[Tier, Mapping[str, Value]], str | None] = lambda tier, options: None
    """Returns why the options can't provide the tier, or None."""
    clients: str = "one"
    """How several clients share the engine: as 'threads' of one process, as 'processes', in 'turns', or not at all
    ('one'). In turns, each process (at most one per core) does the slices of several clients, one after the other,
    which is for an engine whose operations never wait for another client."""
    sharing: Callable[[Mapping[str, Value]], str] | None = None
    """Returns the value of `clients` for these options, if an option decides it."""
    upkeep: Callable[[Any], None] | None = None
    """Called with the opened engine, untimed, before a phase that uses a modified store. It does what an
    administrator does after a load, such as updating a query planner's statistics."""
    in_memory: bool = False
    """True if the engine reads only from memory, even if it writes files. It then has no cold phases."""
    floor: bool = False
    """True for a null engine: it does nothing, and its figure is the harness's own cost."""
    installation: Installation = NOTHING
    """Everything that must be on the machine."""
    server: ServerSpec | None = None
    """The engine's server. None for an embedded engine."""
    counters: CounterSpec | None = None
    """The engine's own counters. None if it has none that explain its speed and cost nothing."""
    versions: Versions | None = None
    """Where its other versions come from. None if only the installed one can run."""
    waits: WaitSpec | None = None
    """Waits of the server's sessions. None if the server can't say."""
    crashes: CrashSpec = CrashSpec()
    """Properties for tests of crashes."""
    listing: Listing = Listing()
    """The engine's place in lists, and the label of its rows."""

    def __post_init__(self) -> None:
        if self.default_tier is None and len(self.tiers) == 1:
            object.__setattr__(self, "default_tier", next(iter(self.tiers)))

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The gaps of all ports."""
        return tuple(gap for port in self.ports.values() for gap in port.gaps)

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """The caveats of all ports."""
        return tuple(caveat for port in self.ports.values() for caveat in port.caveats)

    def reduce_to_port(self, name: str) -> EngineSpec:
        """Returns the declaration reduced to one port, with the port's additions merged in."""
        port = self.ports[name]
        tiers = self.tiers if port.tiers is None else port.tiers
        server = self.server
        if server is not None and port.removal is not None:
            server = replace(server, removal=port.removal)
        return replace(
            self,
            ports={name: port},
            tiers=tiers,
            default_tier=self.default_tier if self.default_tier in tiers else next(iter(tiers), None),
            options=(*self.options, *port.options, *self._version_setting()),
            clients=port.clients or self.clients,
            installation=self.installation + port.installation,
            server=server,
        )

    def apply_options(self, options: Mapping[str, Value]) -> EngineSpec:
        """Returns the declaration for these options. Raises UsageError if `sharing` returns an unknown word."""
        if self.sharing is None:
            return self
        clients = self.call("sharing", self.sharing, options)
        _check_clients("sharing", clients)
        return replace(self, clients=clients)

    def check(self, ports: Iterable[str]) -> None:
        """Validates the declaration; `ports`: the names of all known ports. Raises UsageError, which names the field
        and what would be right."""
        if not _NAME.fullmatch(self.name):
            raise UsageError(f"name: expected small letters, digits, - and _, got {self.name!r}")
        _check_clients("clients", self.clients)
        _check_tiers("tiers", self.tiers)
        _check_options("options", self.options)
        if self.counters is not None:
            _check_counters("counters", self.counters)
        if self.waits is not None:
            _check_kind("waits", [self.waits], WaitSpec)
        known = tuple(ports)
        for name, port in self.ports.items():
            if name not in known:
                raise UsageError(unknown_name_message("ports: port", name, known))
            if not isinstance(port, PortSpec):
                raise UsageError(f"ports: {name} is not a PortSpec; write PortSpec(...) around the class")
            for field in ("builds", "python"):
                if getattr(port.installation, field):
                    raise UsageError(f"ports: {name}: installation: {field} is for the engine's installation only")
            _check_clients(f"ports: {name}: clients", port.clients)
            _check_tiers(f"ports: {name}: tiers", port.tiers or {})
            _check_options(f"ports: {name}: options", (*self.options, *port.options))
            _check_kind(f"ports: {name}: gaps", port.gaps, Gap)
            for gap in port.gaps:
                if gap.kind not in GAPS:
                    raise UsageError(unknown_name_message(f"ports: {name}: gaps: kind", gap.kind, GAPS))
            _check_kind(f"ports: {name}: caveats", port.caveats, Caveat)
        if self.default_tier not in self.tiers and (self.tiers or self.default_tier is not None):
            tiers = ", ".join(tier.value for tier in self.tiers) or "none"
            if isinstance(self.default_tier, Tier):
                default = self.default_tier.value
            else:
                default = repr(self.default_tier)
            raise UsageError(f"default_tier is {default}, which is not among its tiers: {tiers}")

    def _version_setting(self) -> tuple[Setting, ...]:
        if self.versions is None:
            return ()
        return (Setting(VERSION, str, "", f"an exact version, also written {self.name}@VERSION: see `dyno install`"),)

    def find_missing_modules(self, library: Path | None = None) -> tuple[str, ...]:
        """Returns modules that its trials' environment lacks, without importing any; or its missing interpreter.
        `library`: directory of packages that come first."""
        modules, version = self.installation.modules, self.installation.python
        if not version:
            return interpreters.find_missing(modules, library=library)
        python = self.interpreter()
        if python is None:
            return (f"Python {version}",)
        return interpreters.find_missing(modules, python)

    def interpreter(self) -> Path | None:
        """Returns the Python of the engine's own environment. None if it needs no such environment or the environment
        is missing."""
        version = self.installation.python
        if version:
            return interpreters.interpreter(self.name, version)
        return None

    def python(self, options: Mapping[str, Value]) -> interpreters.Python:
        """Returns the Python of its trials with these options, with the packages of the requested version first."""
        if version := str(options.get(VERSION, "")):
            installed = find_installed(self.name, version)
            if installed is not None and installed.program is None:
                return interpreters.Python(library=str(installed.home))
        return interpreters.Python(str(self.interpreter() or sys.executable))

    @property
    def remedy(self) -> str:
        """The command that installs the missing parts, and no others; empty if no command can."""
        own = self.installation
        more = bool(own.programs or own.packages or own.python)
        if self._not_for_this_python() or not (own.requires or more):
            return ""
        ports = [port.installation.requires for port in self.ports.values()]
        command = ""
        if not own.python:
            command = only_missing(own.requires, ports, more)
        return command or f"dyno install {self.name}"

    def _not_for_this_python(self) -> str | None:
        """Returns why no command can install a missing module, in one clause; None if one can."""
        requires = self.installation.requires
        if not any(";" in requirement for requirement in requires):
            return None
        version = self.installation.python or f"{sys.version_info[0]}.{sys.version_info[1]}"
        reason = find_excluded_requirement(self.find_missing_modules(), requires, version)
        return reason and f"not available for Python {version} ({reason})"

    def explain_unavailability(self, options: Mapping[str, Value] | None = None) -> str | None:
        """Returns why the engine can't run here with these options (None: the defaults), in one line with the remedy.
        Returns None if it can run."""
        library = None
        if version := str((options or {}).get(VERSION, "")):
            installed = find_installed(self.name, version)
            if installed is None:
                return f"{version} is not installed: dyno install {self.name}@{version}"
            library = installed.home
        if missing := self.find_missing_modules(library):
            remedy = self._not_for_this_python() or self.remedy
            return f"needs {', '.join(missing)}{remedy and ': '}{remedy}"
        return self.find_unmet_need(options)

    def refusal(self, tier: Tier, options: Mapping[str, Value]) -> str | None:
        """Returns why the options can't provide the tier, or None. Raises UsageError if `refuse` fails."""
        return self.call("refuse", self.refuse, tier, options)

    def start_seconds(self, options: Mapping[str, Value]) -> float:
        """Returns the seconds that a start of the server may take. Raises UsageError if the declaration fails."""
        if self.server is None:
            return 0.0
        return self.call("server: start_seconds", self.server.start_seconds, options)

    def create_server(
        self, home: Path, tier: Tier | None, options: Mapping[str, Value], clients: int
    ) -> Server | None:
        """Returns the server, not yet started; None if the engine, or these options, need none. `tier` is None if
        nothing is stored."""
        if self.server is None:
            return None
        return self.server.create(home, cast(Tier, tier), options, clients)

    def call(self, field: str, function: Callable[..., T], *arguments: object) -> T:
        """Calls a function of the declaration, which is in this field. Raises UsageError for any exception, because
        the function may belong to a plug-in."""
        try:
            return function(*arguments)
        except Exception as error:
            reason = sanitize(exception_text(error), keep="")
            raise UsageError(f"engine {self.name}: its `{field}` raised {type(error).__name__}: {reason}") from None

    def find_unmet_need(self, options: Mapping[str, Value] | None = None) -> str | None:
        """Returns what the engine lacks besides modules, in one line, or None."""
        try:
            missing = self.installation.needs(self.resolve({}) if options is None else options)
            if missing is None:
                return None
            return sanitize(missing, keep="")
        except Exception as error:
            # An error in a plug-in disables only that plug-in's engine.
            return f"has a faulty `needs`: {type(error).__name__}: {sanitize(exception_text(error), keep='')}"

    def resolve(self, given: Mapping[str, object]) -> dict[str, Value]:
        """Returns every option by name: the parsed value from `given` if it is there, or else the default. Those of a
        version of a server have the path of its program. Raises UsageError."""
        values = resolve(self.options, given, f"engine {self.name}: option")
        if version := str(values.get(VERSION, "")):
            installed = find_installed(self.name, version)
            own = None if installed is None else installed.program
            if other := next((name for name in (PROGRAM, URL) if values.get(name) not in (None, "", str(own))), None):
                raise UsageError(f"engine {self.name}@{version}: {other} names another server: leave one of them out")
            if own is not None:
                values[PROGRAM] = str(own)
        return values


_UNEXPECTED = re.compile(r"(?:EngineSpec|PortSpec)\.__init__\(\) got an unexpected keyword argument '(\w+)'")
_RENAMED = {"starting": "start_seconds", "seldom": "maintenance"}
_RECORDS = {"installation": Installation, "server": ServerSpec, "crashes": CrashSpec, "listing": Listing}


def moved_field(error: BaseException) -> str | None:
    """Returns where a field is now that a plug-in for an earlier version of Dyno passes to EngineSpec or PortSpec;
    None for other exceptions."""
    if not isinstance(error, TypeError):
        return None
    match = _UNEXPECTED.search(str(error))
    if match is None:
        return None
    old = match[1]
    new = _RENAMED.get(old, old)
    for record, kind in _RECORDS.items():
        if new in (field.name for field in fields(kind)):
            return f"{old} has moved: write {record}={kind.__name__}({new}=...)"
    return None


def _check_kind(field: str, values: Iterable[object], kind: type) -> None:
    for value in values:
        if not isinstance(value, kind):
            raise UsageError(f"{field}: {value!r:.80} is not a {kind.__name__}")


def _check_clients(field: str, clients: str | None) -> None:
    if clients is not None and clients not in CLIENTS:
        raise UsageError(unknown_name_message(field, clients, CLIENTS))


def _check_tiers(field: str, tiers: Mapping[Tier, object]) -> None:
    for tier in tiers:
        if not isinstance(tier, Tier):
            raise UsageError(
                f"{unknown_name_message(f'{field}: tier', tier, [one.value for one in Tier])} (a Tier, not text)"
            )


def _check_counters(field: str, spec: CounterSpec) -> None:
    _check_kind(f"{field}: counters", spec.counters, Counter)
    names = set[str]()
    for counter in spec.counters:
        if counter.unit not in UNITS:
            raise UsageError(unknown_name_message(f"{field}: {counter.name}: unit", counter.unit, UNITS))
        if counter.name in names:
            raise UsageError(f"{field}: {counter.name} is declared twice")
        names.add(counter.name)


def _check_options(field: str, options: Iterable[Setting]) -> None:
    seen: set[str] = set()
    _check_kind(field, options, Setting)
    for setting in options:
        if not _NAME.fullmatch(setting.name):
            raise UsageError(f"{field}: name: expected small letters, digits, - and _, got {setting.name!r}")
        if setting.name in OWN:
            raise UsageError(f"{field}: {setting.name}: {', '.join(OWN)} are reserved; give the option another name")
        if setting.name in seen:
            raise UsageError(f"{field}: {setting.name} is declared twice")
        seen.add(setting.name)
        # The default must be a value that a user could give.
        setting.read(setting.default, f"{field}: the default")
