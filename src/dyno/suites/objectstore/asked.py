"""Requests that are made beforehand or afterwards, untimed: to fill a bucket, or to look at what is in it."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any

from dyno.contracts.equality import shorten
from dyno.contracts.model import Wrong
from dyno.suites.objectstore.dataset import DIGEST
from dyno.suites.objectstore.port import Requester, StoreRequest, StoreResponse, Throttled

PATIENCE_NS = 600_000_000_000
AGAIN_SECONDS, AGAIN = 0.05, 1_200
"""How soon, and how often, a request is made again that was throttled."""
Script = Generator[StoreRequest, Any, Any]
"""Requests that are one operation: it is sent the answer of each, an exception too, and returns what the operation
comes to."""


class Chain:
    """See `dyno.contracts.suite.InFlight`: an argument is a callable that begins a script, and its requests follow
    each other at one place."""

    def __init__(self, asking: Requester) -> None:
        self._asking = asking
        self._scripts: dict[int, Script] = {}

    def begin(self, place: int, argument: Any) -> None:
        script = self._scripts[place] = argument()
        self._asking.begin(place, next(script))

    def ended(self, wait_ns: int) -> Sequence[tuple[int, Any]]:
        done = []
        for place, answer in self._asking.ended(wait_ns):
            try:
                following = self._scripts[place].send(answer)
            except StopIteration as stop:
                done.append((place, stop.value))
            else:
                self._asking.begin(place, following)
        return done


def every(
    asking: Requester, places: int, asks: Iterable[StoreRequest]
) -> Iterator[tuple[StoreRequest, StoreResponse]]:
    """Makes all of them, and again those that are throttled. Raises Wrong for one that fails otherwise."""
    free, held, tries = list(range(places)), dict[int, StoreRequest](), 0
    waiting = iter(asks)
    again: list[StoreRequest] = []
    while True:
        while free and (ask := again.pop() if again else next(waiting, None)) is not None:
            place = free.pop()
            held[place] = ask
            asking.begin(place, ask)
        if not held:
            return
        done = asking.ended(PATIENCE_NS)
        if not done:
            raise Wrong(f"{len(held)} requests were not answered")
        for place, came in done:
            ask = held.pop(place)
            free.append(place)
            if isinstance(came, Throttled) and tries < AGAIN:
                tries += 1
                again.append(ask)
                time.sleep(AGAIN_SECONDS)
            elif type(came) is StoreResponse:
                yield ask, came
            else:
                raise Wrong(f"{ask.verb} {ask.key}: {shorten(came)}")


def digest_of(answer: StoreResponse) -> bytes:
    """Of the body that came."""
    return answer.digest or DIGEST(answer.body or b"").digest()


def in_parts(key: str, parts: Sequence[Any]) -> Script:
    """An object of these parts; where one fails, what is there of it is dropped."""
    opened = yield StoreRequest("open", key)
    if isinstance(opened, Exception):
        return opened
    tags = []
    for number, body in enumerate(parts, start=1):
        part = yield StoreRequest("part", key, body, upload=opened.tag, number=number)
        if isinstance(part, Exception):
            yield StoreRequest("drop", key, upload=opened.tag)
            return part
        tags.append(part.tag)
    joined = yield StoreRequest("join", key, upload=opened.tag, tags=tuple(tags))
    return joined
