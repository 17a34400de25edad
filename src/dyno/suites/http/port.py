"""The port `requests`: HTTP requests, of which many may be in flight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from dyno.contracts.suite import InFlight


class RequestOptions(NamedTuple):
    """Options of all requests of a trial."""

    version: str = "1.1"
    """Version of HTTP: '1.1' or '2'."""
    max_time: float = 60.0
    """Timeout of a request, in seconds."""
    large: bool = False
    """True if bodies are too large to be kept until they are checked; they are hashed as they arrive."""


class Target(NamedTuple):
    """An address, and the size and digest of its body; None if unknown."""

    url: str
    size: int | None
    digest: bytes | None


class Requester(InFlight, Protocol):
    """Requests in flight. The argument of an operation is the URL of a target: the same object, not a copy."""

    @property
    def codes(self) -> Mapping[int, int]:
        """Number of responses by status."""

    def close(self) -> None:
        return None


class Requests(Protocol):
    """Engines implement it as a class called with `(engine, options)`."""

    def publish(self, bodies: Sequence[bytes]) -> Sequence[Target]:
        """Publishes the bodies on a server of Dyno's own and returns their targets. A user's server has its own
        targets."""

    def asking(self, places: int, fresh: bool) -> Requester:
        """Up to `places` requests in flight; `fresh`: each on a new connection."""

    def close(self) -> None:
        return None
