"""Common parts of the engines for numeric libraries: an opener that imports nothing, a port and a declaration."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dyno.contracts.engine import Engine, EngineSpec, PortSpec, Server
from dyno.contracts.model import Absent, Tier, Value
from dyno.contracts.settings import Setting, integer
from dyno.host.installation import version
from dyno.suites.compute.port import GRID, Arrays, Compute, Operation, X, Y

THREADS = Setting("threads", integer(0, 1024), 0, "threads that compute; 0 for the library's own default")

CHUNK = 1 << 24
"""Maximum number of rows in a chunk of Dask: 64 MiB of float32. Dask advises chunks of about that size."""


class Library(Engine):
    """A library as an engine. Its port imports it, so that the import counts as part of the first result."""

    def __init__(
        self, home: Path, tier: Tier | None, options: Mapping[str, Value], server: Server | None = None
    ) -> None:
        self.home = home
        self.options = options
        self.server = server

    @property
    def threads(self) -> int:
        """The option `threads`; 0 if it is not set."""
        return int(str(self.options.get("threads", 0)))

    def settings(self) -> Mapping[str, Value | None]:
        return dict(self.options)


def library(title: str, *distributions: str) -> type[Library]:
    """Returns an opener that reports the versions of these distributions. `title` is the first's product."""

    class Named(Library):
        def version(self) -> str:
            versions = dict.fromkeys(distributions, "of unknown version")
            for name in distributions:
                with suppress(ModuleNotFoundError):
                    versions[name] = version(name)
            first, *others = versions.values()
            clients = ", ".join(f"{name} {each}" for name, each in zip(distributions[1:], others, strict=True))
            if clients:
                return f"{title} {first} ({clients})"
            return f"{title} {first}"

    return Named


class FunctionPort(Compute):
    """A port that is made of four values: the operations, which are functions of the loaded arrays, `load` as a
    function, the number of threads (None if unknown), and a function that frees what the library holds."""

    def __init__(
        self,
        operations: dict[str, Operation],
        load: Callable[[Arrays], object] | None = None,
        threads: int | None = 1,
        close: Callable[[], object] = lambda: None,
    ) -> None:
        self.operations = operations
        self._load = load or select
        self._threads = threads
        self._close = close

    def load(self, arrays: Arrays) -> object:
        return self._load(arrays)

    def operation(self, name: str) -> Operation:
        if name not in self.operations:
            raise Absent(f"the library has no {name}")
        return self.operations[name]

    def threads(self) -> int | None:
        return self._threads

    def close(self) -> None:
        self._close()


def select(arrays: Arrays) -> Any:
    """Returns the argument of an operation: the pair (x, y), the grid, or x alone, whichever is loaded."""
    if Y in arrays:
        return (arrays[X], arrays[Y])
    return arrays[GRID if GRID in arrays else X]


def declare(
    name: str, title: str, opener: Callable[..., Engine], port: Callable[..., Compute] | PortSpec, **fields: Any
) -> EngineSpec:
    """Returns an engine with only the port `compute`. `fields` are further fields of EngineSpec."""
    if not isinstance(port, PortSpec):
        port = PortSpec(port)
    return EngineSpec(
        name=name, title=title, opener=opener, ports={"compute": port}, tiers={}, in_memory=True, **fields
    )
