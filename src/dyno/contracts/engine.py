"""The contract of an engine: what its file declares, and what its opener returns. No engine may be named here."""

from __future__ import annotations

import importlib
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from dyno.contracts.declarations import exception_text
from dyno.contracts.model import Caveat, Tier, UsageError, Value
from dyno.contracts.programs import Program
from dyno.contracts.settings import Setting, resolve, unknown
from dyno.host import installation, interpreters
from dyno.text.sanitize import sanitize

CLIENTS = ("one", "threads", "processes")
GAPS = ("unsupported", "upstream", "todo")
TIER, OWN = "tier", ("name", "tier", "label")
"""Words that stand among an engine's options where it is asked for, and are none of them."""
_NAME = re.compile(r"[a-z][a-z0-9_-]*")


class Gap(NamedTuple):
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
        """Its processes, but for their descendants; nothing of a user's own, of one that is not running, and of
        a node that was lost."""


class Nodes(ABC):
    """A server of Dyno's own that has several nodes, of which one may be lost: `isinstance` tells it from others."""

    copies = 1
    """On how many nodes each thing that is stored is kept."""
    survives = False
    """Whether what is acknowledged is found by who asks the others when any one node has died for good."""
    halts = ""
    """Why nothing is acknowledged any more when one node is gone; empty where the others go on."""

    @property
    @abstractmethod
    def count(self) -> int:
        """How many nodes there are."""

    @abstractmethod
    def lose(self, number: int) -> None:
        """As a crash ends it: SIGKILL to one node, counted from 0. The others go on."""

    @abstractmethod
    def restore(self, number: int) -> None:
        """Starts one that was lost, with what it had on disk."""


class Maintenance(NamedTuple):
    """What an engine does once in a while: a checkpoint, a new log, a compaction. A crash in the middle of it is
    another than one between two commits, so that whoever brings about crashes has it done on purpose."""

    what: str
    """'checkpoint'; of an engine that does nothing of the kind, what it does instead."""
    do: Callable[[Any], object] | None = None
    """Called with the opened engine between two commits; returns when it is done, or under way. None where there is
    nothing of the kind: every commit does all that is ever done."""
    every: int = 10
    """Commits from one to the next."""


@dataclass(frozen=True)
class PortSpec:
    """What is true of an engine through one port only. None and nothing: what the engine's own declaration says."""

    implementation: Callable[..., Any] | str
    """The class that implements the port, or where it is: 'package.module:Class', imported when it is first used, in
    the worker."""
    modules: tuple[str, ...] = ()
    """Modules that must be importable, beside those of the engine."""
    requires: tuple[str, ...] = ()
    """Beside those of the engine."""
    packages: tuple[str, ...] = ()
    """Beside those of the engine."""
    needs: Callable[[Mapping[str, Value]], str | None] = lambda options: None
    """What is missing here for it, beside what the engine itself needs, with what to do about it."""
    options: tuple[Setting, ...] = ()
    """Beside those of the engine."""
    tiers: Mapping[Tier, Mapping[str, Value]] | None = None
    """In place of those of the engine; none at all where nothing is stored."""
    clients: str | None = None
    gaps: tuple[Gap, ...] = ()
    caveats: tuple[Caveat, ...] = ()

    def open(self, *arguments: Any) -> Any:
        """The port on an opened engine: an instance of the implementation."""
        made = self.implementation
        if isinstance(made, str):
            module, _, attribute = made.partition(":")
            made = getattr(importlib.import_module(module), attribute)
        return made(*arguments)


@dataclass(frozen=True)
class _Either:
    """What is missing for the one, or else for the other. No lambda: two of the same are equal."""

    one: Callable[[Mapping[str, Value]], str | None]
    other: Callable[[Mapping[str, Value]], str | None]

    def __call__(self, options: Mapping[str, Value]) -> str | None:
        return self.one(options) or self.other(options)


@dataclass(frozen=True)
class EngineSpec:
    """What an engine's file declares. Importing that file must not import the engine's library."""

    name: str
    title: str
    opener: Callable[..., Engine]
    """See `Engine`."""
    ports: Mapping[str, PortSpec]
    """The ports that it implements, by name."""
    tiers: Mapping[Tier, Mapping[str, Value]]
    """The tiers that it can give, each with the setting that gives it; none where it stores nothing."""
    default_tier: Tier | None = None
    """None where there are no tiers."""
    modules: tuple[str, ...] = ()
    """Modules that must be importable for it to run."""
    requires: tuple[str, ...] = ()
    """What pip installs for it, as requirements of PEP 508: 'lmdb>=1.4'."""
    builds: tuple[str, ...] = ()
    """What pip has to have beforehand to build those, as requirements, where they don't say so themselves: for an
    engine with an interpreter of its own."""
    programs: tuple[Program, ...] = ()
    """Programs that `dyno install` builds or fetches for it."""
    packages: tuple[str, ...] = ()
    """Packages of Debian's that have what `needs` misses."""
    python: str = ""
    """The version of an interpreter of its own, '3.10', in which its trials run and its modules are looked for."""
    options: tuple[Setting, ...] = ()
    refuse: Callable[[Tier, Mapping[str, Value]], str | None] = lambda tier, options: None
    """Why these options can't give that tier; None where they can."""
    clients: str = "one"
    """How several clients share it: 'threads' (of one process), 'processes', or 'one' (they can't)."""
    sharing: Callable[[Mapping[str, Value]], str] | None = None
    """How they do with these options, where an option decides it; None: as `clients` says."""
    server: Callable[[Path, Any, Mapping[str, Value], int], Server | None] | None = None
    """Its server, not yet started: called with a directory for it, the tier, all options and the number of clients.
    None for an engine without one, and from the call where these options want none."""
    gives: Callable[[Any], Tier] | None = None
    """Called with an engine opened on a user's own server: the tier that the server's settings give. None if no tier
    follows from them: nobody can read them, or they can't change it."""
    remove: Callable[[Path, Mapping[str, Value], Any], None] | None = None
    """Called with the home of a store, all options and the server: takes the store off the server."""
    removal: Callable[[str, Mapping[str, Value]], str] | None = None
    """Called with the name of a store on a user's own server, and all options: the command with which the user
    removes a store that Dyno could not remove. It is shown, and not run; the password of `url` is hidden."""
    missing_right: Callable[[Exception], str | None] | None = None
    """Called with an exception that a user's own server caused: which right its user lacks, as the server says it;
    None if the exception means something else. The trial is refused for it."""
    log: tuple[str, ...] = ()
    """Patterns of the files that have what a commit wrote when it is acknowledged, in the directory of a proof of its
    tiers ('*/wal/*'), for an engine that goes on with others in the background: the proof is by these alone."""
    upkeep: Callable[[Any], None] | None = None
    """Called with the opened engine, untimed, before a phase that finds a store which has been written to since: what
    its administrator does after a load (statistics for its planner). None where there is nothing of the kind."""
    seldom: Maintenance | None = None
    """What it does once in a while only; None where nobody has said: what a crash in the middle of it does is not
    covered."""
    intact: Callable[[Any], str | None] | None = None
    """Called with the opened engine: what its own check of its files finds wrong, None for nothing. None where it has
    no such check."""
    in_place: str = ""
    """Why half of a transaction that changes what is there may be left by a crash: it is not judged. Empty where none
    may."""
    needs: Callable[[Mapping[str, Value]], str | None] = lambda options: None
    """What is missing here beside modules (a server's program), with what to do about it."""
    starting: Callable[[Mapping[str, Value]], float] = lambda options: 0.0
    """Seconds that its server may take to start, with all options, on two cores with other work: a trial's timeout is
    so much longer for each time that it does, where nobody said how long."""
    in_memory: bool = False
    """It reads from memory alone, also where it keeps files, so that none of its reads can be cold."""
    floor: bool = False
    """A null engine: it does nothing, and its figure prices the harness."""
    by_default: bool = True
    """Runs without being named, where it can run."""
    untested: str = ""
    """Why nobody has run it against the real thing; empty for an engine that the tests run."""

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Those of all its ports."""
        return tuple(gap for port in self.ports.values() for gap in port.gaps)

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """Those of all its ports."""
        return tuple(caveat for port in self.ports.values() for caveat in port.caveats)

    def through(self, name: str) -> EngineSpec:
        """The engine as it is through one of its ports, and with no other."""
        port = self.ports[name]
        tiers = self.tiers if port.tiers is None else port.tiers
        return replace(
            self,
            ports={name: port},
            tiers=tiers,
            default_tier=self.default_tier if self.default_tier in tiers else next(iter(tiers), None),
            modules=(*self.modules, *port.modules),
            requires=(*self.requires, *port.requires),
            packages=(*self.packages, *port.packages),
            needs=_Either(self.needs, port.needs),
            options=(*self.options, *port.options),
            clients=port.clients or self.clients,
        )

    def chosen(self, options: Mapping[str, Value]) -> EngineSpec:
        """The engine as it is with these options. Raises UsageError for a way to share it that there is not."""
        if self.sharing is None:
            return self
        clients = self.ask("sharing", options)
        _check_clients("sharing", clients)
        return replace(self, clients=clients)

    def check(self, ports: Iterable[str]) -> None:
        """Whether the declaration can be meant as it stands; `ports`: those that there are. Raises UsageError, which
        names the field and what would be right."""
        if not _NAME.fullmatch(self.name):
            raise UsageError(f"name {self.name!r} is not one: it wants small letters, digits, - and _")
        _check_clients("clients", self.clients)
        _check_tiers("tiers", self.tiers)
        _check_options("options", self.options)
        known = tuple(ports)
        for name, port in self.ports.items():
            if name not in known:
                raise UsageError(unknown("ports: port", name, known))
            if not isinstance(port, PortSpec):
                raise UsageError(f"ports: {name} is not a PortSpec; write PortSpec(...) around the class")
            _check_clients(f"ports: {name}: clients", port.clients)
            _check_tiers(f"ports: {name}: tiers", port.tiers or {})
            _check_options(f"ports: {name}: options", (*self.options, *port.options))
            _check_gaps(f"ports: {name}: gaps", port.gaps)
            _check_kind(f"ports: {name}: caveats", port.caveats, Caveat)
        if self.default_tier not in self.tiers and (self.tiers or self.default_tier is not None):
            given = ", ".join(tier.value for tier in self.tiers) or "none"
            raise UsageError(f"default_tier is {_word(self.default_tier)}, which is not among its tiers: {given}")

    def missing(self) -> tuple[str, ...]:
        """The modules that it needs and that are not installed where its trials run, found without importing them;
        that interpreter, where it is not there."""
        if not self.python:
            return interpreters.missing(self.modules)
        own = self.interpreter()
        return (f"Python {self.python}",) if own is None else interpreters.missing(self.modules, own)

    def interpreter(self) -> Path | None:
        """The Python that its trials run in where that is one of its own; None where it is not, or is not there."""
        return interpreters.interpreter(self.name, self.python) if self.python else None

    @property
    def remedy(self) -> str:
        """The one command that gets what it lacks; empty where it names nothing that could be got."""
        if self._not_for_this_python():
            return ""
        if self.requires and not (self.programs or self.packages or self.python) and installation.apart():
            return installation.command(self.requires)
        return f"dyno install {self.name}" if self.requires or self.programs or self.packages or self.python else ""

    def _not_for_this_python(self) -> str | None:
        """Why no command can get a missing module, in one clause; None if one can."""
        if not any(";" in requirement for requirement in self.requires):
            return None
        version = self.python or f"{sys.version_info[0]}.{sys.version_info[1]}"
        excluded = installation.excluded(self.missing(), self.requires, version)
        return excluded and f"there is none for Python {version} ({excluded})"

    def lacking(self, options: Mapping[str, Value] | None = None) -> str | None:
        """Why it can't run here with these options (None: its defaults), in one line with the remedy; None where it
        can."""
        if missing := self.missing():
            remedy = self._not_for_this_python() or self.remedy
            return f"needs {', '.join(missing)}{remedy and ': '}{remedy}"
        return self.needing(options)

    def ask(self, name: str, *arguments: Any) -> Any:
        """Calls a function of the declaration: 'refuse', 'sharing', 'starting'. Raises UsageError for whatever it
        raises: it may be a plug-in's."""
        try:
            return getattr(self, name)(*arguments)
        except Exception as error:
            why = sanitize(exception_text(error), keep="")
            raise UsageError(f"engine {self.name}: its `{name}` raised {type(error).__name__}: {why}") from None

    def needing(self, options: Mapping[str, Value] | None = None) -> str | None:
        """What it lacks beside modules, in one line; None where that is nothing."""
        try:
            told = self.needs(self.resolve({}) if options is None else options)
            return None if told is None else sanitize(told, keep="")
        except Exception as error:
            # A plug-in's error keeps its own engine from running, and nothing else.
            return f"has a faulty `needs`: {type(error).__name__}: {sanitize(exception_text(error), keep='')}"

    def resolve(self, given: Mapping[str, Any]) -> dict[str, Value]:
        """Every option by name: `given` where given, defaults elsewhere. Raises UsageError."""
        return resolve(self.options, given, f"engine {self.name}: option")


def _word(value: object) -> str:
    return value.value if isinstance(value, Tier) else repr(value)


def _check_kind(field: str, values: Iterable[object], kind: type) -> None:
    for value in values:
        if not isinstance(value, kind):
            raise UsageError(f"{field}: {value!r:.80} is not a {kind.__name__}")


def _check_clients(field: str, clients: str | None) -> None:
    if clients is not None and clients not in CLIENTS:
        raise UsageError(unknown(field, clients, CLIENTS))


def _check_tiers(field: str, tiers: Mapping[Any, object]) -> None:
    for tier in tiers:
        if not isinstance(tier, Tier):
            raise UsageError(f"{unknown(f'{field}: tier', tier, [known.value for known in Tier])} (a Tier, no text)")


def _check_options(field: str, options: Iterable[Setting]) -> None:
    seen: set[str] = set()
    _check_kind(field, options, Setting)
    for setting in options:
        if not _NAME.fullmatch(setting.name):
            raise UsageError(f"{field}: {setting.name!r} is no name: it wants small letters, digits, - and _")
        if setting.name in OWN:
            raise UsageError(
                f"{field}: {setting.name} is no name of an option: {', '.join(OWN)} are Dyno's own words"
            )
        if setting.name in seen:
            raise UsageError(f"{field}: {setting.name} is there twice")
        seen.add(setting.name)
        # What nobody could ask for is no default.
        setting.read(setting.default, f"{field}: the default")


def _check_gaps(field: str, gaps: Iterable[Gap]) -> None:
    _check_kind(field, gaps, Gap)
    for gap in gaps:
        if gap.kind not in GAPS:
            raise UsageError(unknown(f"{field}: kind", gap.kind, GAPS))
