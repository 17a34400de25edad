"""The contract of an engine: what its file declares, and what its opener returns. No engine may be named here."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from dyno.model import Caveat, Tier, Value
from dyno.settings import Setting, resolve


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


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        # The package that it would be a part of is not there.
        return False
