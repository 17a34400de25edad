"""`call` is a Python function of the user's; `noop` is one that does nothing: what calling a function costs."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from dyno.contracts.engine import Engine, EngineSpec, Listing, PortSpec
from dyno.contracts.model import Caveat, Refused, Tier, Value
from dyno.contracts.settings import Setting
from dyno.engines.call.user_code import load
from dyno.suites.calls import FUNCTION, reference


class Function(Engine):
    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value]) -> None:
        self.options = options

    def version(self) -> str:
        return f"Python {platform.python_version()}"


class Noop(Function):
    def version(self) -> str:
        return "does nothing"

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("floor", "is a function that does nothing: calling it is a part of every other figure")


class Call:
    """The port `call` of the user's function."""

    def __init__(self, engine: Function, directory: Path) -> None:
        self._name, self._directory = str(engine.options[FUNCTION]), directory

    def function(self, concurrent: bool) -> Callable[..., object]:
        function = self.load(self._name)
        if not callable(function):
            raise Refused(f"{self._name} is not a function, but {type(function).__name__}")
        loaded: Callable[..., object] = function
        return loaded

    def load(self, reference: str) -> object:
        return load(reference, self._directory)

    def close(self) -> None:
        pass


class NoCall:
    """The port `call` of a function that returns its argument."""

    def __init__(self, engine: Noop, directory: Path) -> None:
        pass

    def function(self, concurrent: bool) -> Callable[..., object]:
        if concurrent:
            return nothing_async
        return return_argument

    def load(self, reference: str) -> object:
        raise Refused("it has no code of the user's")

    def close(self) -> None:
        pass


def return_argument(argument: object = None) -> object:
    return argument


async def nothing_async(argument: object = None) -> object:
    return argument


CALL = EngineSpec(
    name="call",
    title="A Python function of yours, plain or async",
    opener=Function,
    ports={"call": PortSpec(Call)},
    tiers={},
    options=(Setting(FUNCTION, reference, "builtins:dict", "the function: FILE.py:NAME or package.module:NAME"),),
    listing=Listing(labelled=FUNCTION, by_default=False),
    clients="processes",
)
NOOP = EngineSpec(
    name="noop",
    title="A Python function that does nothing: the floor, what calling one costs",
    opener=Noop,
    ports={"call": PortSpec(NoCall)},
    tiers={},
    clients="processes",
    floor=True,
)
