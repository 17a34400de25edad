"""What engines that are a library have in common, which computes in the process and stores nothing: an opener that
imports nothing, so that the import is in the time of what opens it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from dyno.contracts.engine import EngineSpec, PortSpec, Server
from dyno.contracts.model import Absent, Caveat, Tier, Value
from dyno.contracts.settings import Setting, integer
from dyno.host.versions import version
from dyno.suites.compute.port import GRID, X, Y

THREADS = Setting("threads", integer(0, 1024), 0, "threads that compute; 0 for the library's own default")


class Library:
    """Opened by the name of its distribution. Its port imports it."""

    def __init__(
        self, home: Path, tier: Tier | None, options: Mapping[str, Value], server: Server | None = None
    ) -> None:
        self.home, self.options, self.server = home, options, server

    def close(self) -> None:
        pass

    def version(self) -> str:
        return "unknown"

    def settings(self) -> Mapping[str, Value | None]:
        return dict(self.options)

    def files(self) -> Iterable[Path]:
        return ()

    def caveats(self) -> Iterable[Caveat]:
        return ()


def of(title: str, *distributions: str) -> type[Library]:
    """An opener that tells the versions of these."""

    class Named(Library):
        def version(self) -> str:
            found = []
            for name in distributions:
                try:
                    found.append(version(name))
                except ModuleNotFoundError:
                    found.append("of unknown version")
            rest = [f"{name} {told}" for name, told in zip(distributions[1:], found[1:], strict=True)]
            return f"{title} {found[0]}" + (f" ({', '.join(rest)})" if rest else "")

    return Named


class Functions:
    """What ports `compute` have in common whose operations are functions of what was loaded, by name."""

    _operations: Mapping[str, Callable[[Any], Any]]

    def operation(self, name: str) -> Callable[[Any], Any]:
        return self._operations[name]

    def threads(self) -> int | None:
        return 1

    def close(self) -> None:
        pass


def shaped(made: Mapping[str, Any]) -> Any:
    """What an operation is given of the arrays that were loaded: a pair, a table, or the one that there is."""
    return (made[X], made[Y]) if Y in made else made[GRID if GRID in made else X]


def one_of(name: str, offered: Mapping[str, Callable[[Any], Any]], why: str = "it does not offer that") -> Any:
    """The operation of that name. Raises Absent."""
    if name not in offered:
        raise Absent(why)
    return offered[name]


def declare(
    name: str, title: str, opener: Callable[..., Any], port: Callable[..., Any] | PortSpec, **more: Any
) -> EngineSpec:
    """An engine of the port `compute`, which stores nothing."""
    given = port if isinstance(port, PortSpec) else PortSpec(port)
    return EngineSpec(
        name=name, title=title, opener=opener, ports={"compute": given}, tiers={}, in_memory=True, **more
    )
