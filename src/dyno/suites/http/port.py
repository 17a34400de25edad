"""The port `requests`. No engine and no measuring may be put here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from dyno.contracts.suite import InFlight


class RequestOptions(NamedTuple):
    """How it is asked."""

    version: str = "1.1"
    """Of HTTP: '1.1' or '2'."""
    max_time: float = 60.0
    """Seconds that a request may take."""
    large: bool = False
    """Whether bodies are too large to be kept until the clock stands still."""


class Target(NamedTuple):
    """What is asked for, and what the response must be; None for what is not known beforehand."""

    url: str
    size: int | None
    digest: bytes | None


class Requester(InFlight, Protocol):
    """Requests under way at once. An argument is the address of a target, the very same object."""

    @property
    def codes(self) -> Mapping[int, int]:
        """How often each status was answered."""

    def close(self) -> None: ...


class Requests(Protocol):
    """Engines implement it as a class called with `(engine, how)`."""

    def publish(self, bodies: Sequence[bytes]) -> Sequence[Target]:
        """Has the server give these, and says where; or, where a server has what it has, what to ask of it."""

    def asking(self, places: int, fresh: bool) -> Requester:
        """Requests of which so many are under way at once; each on a connection of its own where they are `fresh`."""

    def close(self) -> None: ...
