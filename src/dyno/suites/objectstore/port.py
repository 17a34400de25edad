"""The port `bucket`: objects by key, and requests of them. No engine and no measuring belong here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, Protocol

from dyno.contracts.suite import InFlight

Body = bytes | memoryview
MAX_WAIT_SECONDS = 1e6
"""Longest wait for a response: a queue rejects a much longer one."""


class StoreRequest(NamedTuple):
    """One request of a bucket."""

    verb: str
    """'put', 'get', 'head', 'list', 'copy' or 'delete'; 'open', 'part', 'join' and 'drop' of an upload in parts."""
    key: str
    """The object's key; for a list, the prefix."""
    body: Body = b""
    start: int | None = None
    """For a get, the first byte of a range; None requests the whole object."""
    end: int = 0
    """The first byte after the range."""
    other: str = ""
    """For a copy, the source's key; for a list, the key after which it starts."""
    upload: str = ""
    """For requests of an upload in parts, its name, as 'open' returned it."""
    number: int = 0
    """For a part, its number from 1 on; for a list, the maximum number of names."""
    tags: tuple[str, ...] = ()
    """For 'join', the tags of all parts in order."""


class StoreResponse(NamedTuple):
    """The answer to a request."""

    size: int = 0
    """Bytes of the received body; for 'head', of the object."""
    digest: bytes | None = None
    """SHA-256 of the received body, if the body is not kept."""
    body: bytes | None = None
    first_ns: int = 0
    """From the start of the request to the first byte of the answer."""
    total_ns: int = 0
    """From the start of the request to the last byte of the answer."""
    names: Callable[[], Sequence[str]] | None = None
    """For a list, returns the keys in the received order."""
    tag: str = ""
    """For 'open', the upload's name; for 'part', the part's tag that 'join' needs."""


class Throttled(Exception):
    """The store refuses the request because it is overloaded: 429, or 503 SlowDown."""


class NoObject(Exception):
    """No object has that name."""


class StoreError(Exception):
    """Any other status of 300 or more, with its code."""


class Requester(InFlight, Protocol):
    """Keeps several requests in flight. An argument is a `StoreRequest`."""

    def close(self) -> None: ...


class ThreadedRequester:
    """A `Requester` for a client that waits for each response: a thread per place, and none for a single place.

    `respond` makes a request and returns the response; if it raises, the exception is the answer.
    """

    def __init__(self, respond: Callable[[StoreRequest], StoreResponse], places: int) -> None:
        self._respond = respond
        self._done: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        self._requests: list[SimpleQueue[Any]] = [SimpleQueue() for _ in range(places if places > 1 else 0)]
        self._threads = [
            Thread(target=self._serve, args=(place,), daemon=True) for place in range(len(self._requests))
        ]
        for thread in self._threads:
            thread.start()

    def begin(self, place: int, argument: Any) -> None:
        if self._requests:
            self._requests[place].put(argument)
        else:
            self._done.put((place, self._answer(argument)))

    def ended(self, wait_ns: int) -> Sequence[tuple[int, Any]]:
        done: list[tuple[int, Any]] = []
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
    """Engines implement it as a class called with `(engine, large, patience)`.

    `large`: bodies are too large to keep in memory until they are checked. `patience`: seconds after which a request
    is an error. A bucket on a server lists only the names of its own store.
    """

    def asking(self, places: int, fresh: bool) -> Requester:
        """A requester of up to `places` requests in flight. `fresh`: each on a new connection, if the client can."""

    def close(self) -> None: ...
