"""Object stores: what are their latency and bandwidth, and how do they behave as a bucket grows and in bursts?"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import NamedTuple, Protocol

from dyno.contracts.model import Phase, Preset, Value
from dyno.contracts.roles import NativeSuite
from dyno.contracts.settings import Setting, integer
from dyno.contracts.suite import IN_FLIGHT, InFlight, Proof, Suite

Body = bytes | memoryview
MAX_WAIT_SECONDS = 1e6
"""Maximum wait for a response, since a queue rejects a much longer timeout."""


class StoreRequest(NamedTuple):
    verb: str
    """'put', 'get', 'head', 'list', 'copy' or 'delete'. For an upload in parts: 'open', 'part', 'join' or 'drop'."""
    key: str
    """Key of the object; for a list, the prefix of the keys."""
    body: Body = b""
    start: int | None = None
    """For a get, position of the first byte of a range. None requests the whole object."""
    end: int = 0
    """For a get, position after the last byte of the range."""
    other: str = ""
    """For a copy, key of the source. For a list, the key after which it starts."""
    upload: str = ""
    """For requests of an upload in parts, the upload's name, as returned by 'open'."""
    number: int = 0
    """For a part, its number, from 1 up. For a list, the maximum number of names."""
    tags: tuple[str, ...] = ()
    """For 'join', the tags of all parts in order."""


class StoreResponse(NamedTuple):
    size: int = 0
    """Number of bytes in the received body; for 'head', in the object."""
    digest: bytes | None = None
    """Digest of the received body; None if the body is kept or there is none."""
    body: bytes | None = None
    first_ns: int = 0
    """Time from the start of the request to the first byte of the response."""
    total_ns: int = 0
    """Time from the start of the request to the last byte of the response."""
    names: Callable[[], Sequence[str]] | None = None
    """For a list, a function that returns the keys in the received order."""
    tag: str = ""
    """For 'open', name of the upload. For 'part', tag of the part, which 'join' needs."""


class Throttled(Exception):
    """The store refused the request because it is overloaded: status 429, or 503 SlowDown."""


class NoObject(Exception):
    """There is no object of that name."""


class StoreError(Exception):
    """The response has another status of 300 or more. The message has the status."""


class Requester(InFlight, Protocol):
    """Keeps several requests in flight. An operation's argument is a `StoreRequest`."""

    def close(self) -> None: ...


class ThreadedRequester:
    """A `Requester` for clients that wait for each response. It has a thread for each place, or none for a single
    place. `respond` makes a request and returns the response. If it raises an exception, that is the answer."""

    def __init__(self, respond: Callable[[StoreRequest], StoreResponse], places: int) -> None:
        self._respond = respond
        self._done: SimpleQueue[tuple[int, object]] = SimpleQueue()
        self._requests: list[SimpleQueue[StoreRequest | None]] = [
            SimpleQueue() for _ in range(places if places > 1 else 0)
        ]
        self._threads = [
            Thread(target=self._serve, args=(place,), daemon=True) for place in range(len(self._requests))
        ]
        for thread in self._threads:
            thread.start()

    def begin(self, place: int, argument: StoreRequest) -> None:
        if self._requests:
            self._requests[place].put(argument)
        else:
            self._done.put((place, self._answer(argument)))

    def ended(self, wait_ns: int) -> Sequence[tuple[int, object]]:
        done: list[tuple[int, object]] = []
        with suppress(Empty):
            done.append(self._done.get(timeout=min(wait_ns / 1e9, MAX_WAIT_SECONDS)))
            while True:
                done.append(self._done.get_nowait())
        return done

    def _answer(self, request: StoreRequest) -> StoreResponse | Exception:
        try:
            return self._respond(request)
        except Exception as error:
            return error

    def _serve(self, place: int) -> None:
        while (request := self._requests[place].get()) is not None:
            self._done.put((place, self._answer(request)))

    def close(self) -> None:
        for requests in self._requests:
            requests.put(None)
        for thread in self._threads:
            thread.join()


class Bucket(Protocol):
    """A client's access to a bucket. Engines implement this protocol as a class called with `(engine, large,
    patience)`. `large`: bodies are too large to keep in memory until they are checked. `patience`: seconds after
    which a request is an error. A bucket on a server lists only the names of its own store."""

    def asking(self, places: int, fresh: bool, library: bool = False) -> Requester:
        """Returns a requester for up to `places` requests in flight. `fresh`: use a new connection for each, if the
        client can. `library`: not by native load, which can't send a request that follows from another's response."""

    def close(self) -> None: ...


_at_once = integer(1, 2_000)
MOST_BYTES = 1 << 28
"""Maximum number of bytes that a phase moves, unless a few requests already move more."""
FEW = 8
TENTHS = 10
PUT = "put"
HEAD = "head"
GET = "get"
RANGE = "range-get"
LIST = "list"
COPY = "copy"
MULTIPART = "multipart-put"
VISIBLE = "visible"
BURST = "burst"
COLD = "get-cold"
DELETE = "delete"
SCRIPTED = (MULTIPART, VISIBLE)
"""Phases whose operations are several requests, which follow from each other's responses."""
# All phases except the burst, whose number of requests is the parameter `burst`.
NOT_BURST = (PUT, HEAD, GET, RANGE, LIST, COPY, MULTIPART, VISIBLE, COLD, DELETE)

PARAMS = (
    Setting("size", integer(1, 1_000_000_000), 1_000, "bytes of an object"),
    Setting(IN_FLIGHT, _at_once, 1, "requests under way at once, all from one process", phases=NOT_BURST),
    Setting("objects", integer(1, 10_000_000), 200, "objects in the bucket: those of `size`, and others of 1 kB"),
    Setting("targets", integer(1, 100_000), 50, "objects of `size`, which are requested"),
    Setting("prefixes", integer(1, 10_000), 1, "prefixes over which the objects are spread"),
    Setting("requests", integer(1), 500, "requests of a phase", phases=NOT_BURST),
    Setting("range", integer(1, 100), 10, "percent of an object that range-get asks for", phases=(RANGE,)),
    Setting("part", integer(1, 1_000_000_000), 5 << 20, "bytes of a part of multipart-put", phases=(MULTIPART,)),
    Setting("burst", _at_once, 50, "requests of a burst, all at once", phases=(BURST,)),
    Setting("silence", integer(0, 3_600), 1, "seconds without a request before a burst", phases=(BURST,)),
    Setting("patience", integer(1, 3_600), 60, "seconds after which a request is an error"),
)

_SIZES, _OBJECTS = (1_000, 100_000, 10_000_000, 1_000_000_000), (1_000, 10_000, 100_000)
_STANDARD = {"size": _SIZES[:3], "inflight": (1, 8, 32), "objects": _OBJECTS[:2], "targets": 20}
_FULL = {"size": _SIZES, "inflight": (1, 8, 32, 128), "objects": _OBJECTS, "prefixes": (1, 100), "targets": 8}
_MANY = {"requests": 10_000, "burst": 1_000, "silence": 30}
PRESETS = {
    "quick": Preset({"size": (1_000, 100_000), "inflight": (1, 8)}, samples=3, budget=0.5, timeout=120),
    "standard": Preset({**_STANDARD, "requests": 2_000, "burst": 500}, samples=3, budget=1, timeout=600),
    "full": Preset({**_FULL, **_MANY}, samples=5, budget=20, timeout=7_200),
}

PARTS = ("first-byte", "body")
TENTH = tuple(f"tenth-{at + 1}" for at in range(TENTHS))
_READ = "every body, by its size and digest"
_WRITTEN = "a sample is read back, by size and digest, and the list of all"
_STALE = "each answer: stale ones are counted, and are not errors"
_REQUESTS, _CONNECTIONS = "one request to open, one for each part, one to join", "each on a connection of its own"
_read = partial(Phase, unit="object", writes=False, checked=_READ, parts=PARTS, metric="bandwidth")
_write = partial(Phase, unit="object", writes=True, checked=_WRITTEN)
PHASES = (
    _write(PUT, "new objects", metric="bandwidth", says="{range} written, in objects of {size} bytes"),
    Phase(
        HEAD, "the size of an object", "object", False, checked="every size", says="{range} sizes looked up a second"
    ),
    _read(GET, "whole objects", says="{range} read"),
    _read(RANGE, "a piece of an object"),
    Phase(LIST, "up to 1,000 names of one prefix, from a random one on", "request", False, checked="every name"),
    _write(COPY, "an object to another name, by the store itself"),
    _write(MULTIPART, f"new objects in parts: {_REQUESTS}", metric="bandwidth"),
    _write(VISIBLE, "write, read, list, overwrite, read, delete, read and list one name", checked=_STALE),
    _read(BURST, f"all requests at once after silence, {_CONNECTIONS}", parts=TENTH, metric="throughput"),
    _read(COLD, "whole objects, once each", temperature="cold"),
    _write(DELETE, "objects that are there", checked="none is listed afterwards"),
)


class ObjectStoreSuite(NativeSuite, Suite):
    name = "objectstore"
    title = "object stores: latency, bandwidth, growth of a bucket, bursts"
    ports = ("bucket",)
    engines = ("directory",)
    params = PARAMS
    presets = PRESETS
    phases = PHASES
    native_tls = True

    def can_load_natively(self, phase: str, params: Mapping[str, Value]) -> bool:
        """Returns whether each operation of the phase is a single request."""
        return phase not in SCRIPTED

    proof = Proof(PUT, "requests", {"objects": 1}, also=Proof(COPY, "requests"))


SUITE = ObjectStoreSuite()
