"""HTTP: how long do the stages of a request take, with one or many requests in flight?"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from dyno.contracts.model import Phase, Preset, Value
from dyno.contracts.quantities import whole
from dyno.contracts.roles import NativeSuite
from dyno.contracts.settings import Setting, choice, integer
from dyno.contracts.suite import IN_FLIGHT, InFlight, Suite
from dyno.suites.http.stages import STAGES

KEPT, FRESH = "kept", "fresh"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_CHECKED = "status, and every body by its size and digest"


class RequestOptions(NamedTuple):
    """Options of all requests of a trial."""

    version: str = "1.1"
    """Version of HTTP: '1.1', '2' or '3'."""
    max_time: float = 60.0
    """Timeout of a request, in seconds."""
    large: bool = False
    """True if bodies are too large to be kept until they are checked. They are then hashed as they arrive."""
    method: str = "GET"
    data: bytes | None = None
    """Body of each request."""
    header: Sequence[str] = ()
    location: bool = False
    """Whether redirects are followed."""


class Target(NamedTuple):
    """An address, and the size and digest of its body, which are None if unknown."""

    url: str
    size: int | None
    digest: bytes | None


class Requester(InFlight, Protocol):
    """Requests in flight. An operation's argument is the URL of a target: the same object, not a copy."""

    @property
    def codes(self) -> Mapping[int, int]:
        """Number of responses by status."""

    def close(self) -> None: ...


class Requests(Protocol):
    """A server with a client. Engines implement this protocol as a class called with `(engine, options)`."""

    def publish(self, bodies: Sequence[bytes]) -> Sequence[Target]:
        """Publishes the bodies on Dyno's own server. Returns their targets, or those of a user's server."""

    def asking(self, places: int, fresh: bool, library: bool = False) -> Requester:
        """Returns a requester for up to `places` requests in flight. `fresh`: each request uses a new connection.
        `library`: not by native load, whose requests end before others begin, unless they are measured."""

    def close(self) -> None: ...


RANDOM, LINE_END = "random:", "\\n"
"""Prefix of a size of random bytes, and the text between two headers."""
SECRET_HEADERS = re.compile("auth|cookie|token|secret|password|api-?key", re.IGNORECASE)


def data(text: str) -> Value:
    """Parses the body of a request: a text, or random:SIZE."""
    if text.startswith(RANDOM):
        whole(text.removeprefix(RANDOM))
    return text


def headers(text: str) -> Value:
    """Parses headers, which stand in the run file, so that secret ones are rejected."""
    for line in text.split(LINE_END) if text else ():
        name, colon, _ = line.partition(":")
        if not (colon and name.strip()) or not line.isprintable():
            raise ValueError(f"expected NAME: VALUE, and {LINE_END} between two headers")
        if SECRET_HEADERS.search(name):
            raise ValueError(f"{name} would stand in the run file: use the option secret of the engine website")
    return text


_SAME = "on your own server: whether an address always has the same body"
_SEND = f"body of each request, or {RANDOM}SIZE for random bytes; a comma is written \\,"
_STRESS = "requests that a second process has in flight meanwhile, so that the server is loaded; 0: none"
_STANDARD = {"inflight": (1, 8, 64, 512), "body": (1_000, 100_000), "requests": 100_000}
_BODIES = (1_000, 100_000, 10_000_000, 100_000_000)
_FULL = {"inflight": (1, 8, 64, 512, 10_000), "body": _BODIES, "targets": 2, "requests": 1_000_000}


class HttpSuite(NativeSuite, Suite):
    name = "http"
    title = "HTTP requests, one or many under way at once, part by part"
    ports = ("requests",)
    engines = ("nginx",)
    params = (
        Setting(IN_FLIGHT, integer(1, 10_000), 1, "requests in flight at once, all from one process"),
        Setting("body", integer(0, 1_000_000_000), 1_000, "bytes of each body, on a server of Dyno's own"),
        Setting("targets", integer(1, 10_000), 8, "files to request in random order, on a server of Dyno's own"),
        Setting("requests", integer(1), 20_000, "requests of a phase"),
        Setting("protocol", choice("1.1", "2", "3"), "1.1", "version of HTTP"),
        Setting("method", choice(*METHODS), "GET", "method of each request"),
        Setting("send", data, "", _SEND),
        Setting("header", headers, "", f"headers of each request, {LINE_END} between two: NAME: VALUE"),
        Setting("redirects", choice("count", "follow"), "count", "count a redirect as a response, or follow it"),
        Setting("stress", integer(0, 10_000), 0, _STRESS),
        Setting("patience", integer(1, 3_600), 60, "seconds after which a request is an error"),
        Setting("bodies", choice("same", "any"), "same", _SAME),
    )
    presets = MappingProxyType(
        {
            "quick": Preset({"inflight": (1, 8, 64), "requests": 10_000}, samples=3, budget=2, timeout=120),
            "standard": Preset(_STANDARD, samples=5, budget=20, timeout=600),
            "full": Preset(_FULL, samples=10, budget=60, timeout=3_600),
        }
    )
    native_tls = True

    def can_load_natively(self, phase: str, params: Mapping[str, Value]) -> bool:
        """Returns whether the requests are of HTTP/1.1, and none follows from another's response."""
        return params["protocol"] == "1.1" and params["redirects"] == "count"

    phases = (
        Phase(
            KEPT,
            "a request, on connections that are there",
            "request",
            False,
            checked=_CHECKED,
            parts=STAGES,
            says="{figure} requests a second, p99 {p99}",
        ),
        Phase(
            FRESH,
            "a request, each on a connection of its own",
            "request",
            False,
            checked=_CHECKED,
            parts=STAGES,
            says="{figure} requests a second with a connection for each",
        ),
    )


SUITE = HttpSuite()
