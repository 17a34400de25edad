"""The port `call`: a Python function that is called again and again."""

from collections.abc import Callable
from typing import Any, Protocol


class Call(Protocol):
    """Engines implement it as a class called with `(engine, directory)`, where the user's code is."""

    def function(self, concurrent: bool) -> Callable[..., object]:
        """Returns the function, which takes one argument or none; the same function each time. If calls will be
        `concurrent`, the user expects it to be an `async def`. Raises Refused."""

    def load(self, reference: str) -> Any:
        """Returns the object FILE.py:NAME or package.module:NAME of the user's code. Raises Refused."""

    def close(self) -> None: ...
