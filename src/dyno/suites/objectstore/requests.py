"""Parts of the workload: bodies, names, scripts of requests, untimed requests, probes, and counts for a bill."""

import random
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache
from time import perf_counter_ns as now
from types import SimpleNamespace
from typing import Any

from dyno.contracts.equality import same, shorten
from dyno.contracts.model import Wrong
from dyno.contracts.suite import NativeInFlight, RanInFlight
from dyno.suites import objectstore as p
from dyno.suites._shared.digest import new_digest
from dyno.suites.objectstore import Body, Bucket, NoObject, Requester, StoreRequest, StoreResponse, Throttled

PATIENCE_NS = 600_000_000_000
RETRY_SECONDS, MAX_RETRIES = 0.05, 1_200
"""Delay and maximum number of retries of throttled requests."""
STEADY = 10
"""Consecutive probes that a recovered store must serve. It recovered when the first of them was sent."""
PROBE_SECONDS = 0.01
STALE_CHECKS = ("stale_reads", "stale_lists", "stale_overwrites", "stale_deletes", "stale_delete_lists")

WRITING = "writing_requests"
READING = "reading_requests"
SENT = "sent_bytes"
KEPT = "kept_bytes"
"""Names of facts about billed requests and bytes."""

Script = Generator[StoreRequest, Any, Any]
"""Requests of one operation: a generator that receives each answer, and returns the operation's answer."""


# -- objects ------------------------------------------------------------------------------------------------------

STEP = 64
MOST = 32
HELD = 1 << 28
BLOCK = (1 << 20) + 7
"""Length in bytes after which the random text repeats. No two windows are a multiple of it apart."""
FILLER_BYTES = 1_000


class Bodies:
    """Different bodies of one size, as many as there is time to hash. Each body is a window into one random text,
    STEP bytes after the previous window, so that all together take hardly more memory than one."""

    def __init__(self, seed: int, size: int) -> None:
        self.size = size
        self.count = max(2, min(MOST, HELD // size))
        length = size + STEP * self.count
        block = random.Random(f"{seed}:{size}").randbytes(min(length, BLOCK))
        self._text = memoryview((block * (length // len(block) + 1))[:length])
        self._digest = cache(lambda which, start, end: new_digest(self.body(which)[start:end]).digest())

    def body(self, number: int) -> memoryview:
        at = number % self.count * STEP
        return self._text[at : at + self.size]

    def right(self, number: int, start: int = 0, end: int | None = None) -> bytes:
        """Returns the digest of a body, or of a range of it."""
        return self._digest(number % self.count, start, self.size if end is None else end)


class Names:
    """Names of the objects that a bucket always holds, by number. They are spread over the prefixes in turn."""

    def __init__(self, objects: int, prefixes: int) -> None:
        self.prefixes = min(prefixes, objects)
        self.every = [f"{self.prefix(at)}{at:08d}" for at in range(objects)]

    def prefix(self, number: int) -> str:
        return f"objects/{number % self.prefixes:04d}/"

    def names_after(self, number: int, most: int) -> list[str]:
        """Returns up to `most` names that follow an object's name in a list of its prefix."""
        return self.every[number + self.prefixes :: self.prefixes][:most]


# -- requests -----------------------------------------------------------------------------------------------------


class ScriptRunner:
    """Runs scripts on a requester, see `dyno.contracts.suite.InFlight`. An operation's argument is a function that
    starts a script. The requests of a script follow each other at one place."""

    def __init__(self, requester: Requester) -> None:
        self._requester = requester
        self._scripts: dict[int, Script] = {}

    def begin(self, place: int, argument: Callable[[], Script]) -> None:
        script = self._scripts[place] = argument()
        self._requester.begin(place, next(script))

    def ended(self, wait_ns: int) -> Sequence[tuple[int, object]]:
        done = []
        for place, answer in self._requester.ended(wait_ns):
            try:
                following = self._scripts[place].send(answer)
            except StopIteration as stop:
                done.append((place, stop.value))
            else:
                self._requester.begin(place, following)
        return done


def note_begin(requester: Requester, begun: list[int]) -> Any:
    """Returns the requester, which adds to `begun` when its first request began, in ns."""

    def begin(place: int, argument: object) -> None:
        if not begun:
            begun.append(now())
        requester.begin(place, argument)

    noting: dict[str, Any] = {"begin": begin, "ended": requester.ended}
    if isinstance(requester, NativeInFlight):
        run_batch = requester.run

        def run(*arguments: Any) -> RanInFlight:
            ran = run_batch(*arguments)
            if not begun:
                begun.extend(ran.starts[:1].tolist())
            return ran

        noting |= {"prepare": requester.prepare, "run": run}
    return SimpleNamespace(**noting)


def run_all(
    requester: Requester, places: int, requests: Iterable[StoreRequest]
) -> Iterator[tuple[StoreRequest, StoreResponse]]:
    """Makes all requests, and retries throttled ones. Yields each with its response. Raises Wrong for a failure."""
    free = list(range(places))
    running = dict[int, StoreRequest]()
    retries = 0
    remaining, throttled = iter(requests), list[StoreRequest]()
    while True:
        while free and (request := throttled.pop() if throttled else next(remaining, None)) is not None:
            place = free.pop()
            running[place] = request
            requester.begin(place, request)
        if not running:
            return
        done = requester.ended(PATIENCE_NS)
        if not done:
            raise Wrong(f"{len(running)} requests were not answered")
        for place, response in done:
            request = running.pop(place)
            free.append(place)
            if isinstance(response, Throttled) and retries < MAX_RETRIES:
                retries += 1
                throttled.append(request)
                time.sleep(RETRY_SECONDS)
            elif type(response) is StoreResponse:
                yield request, response
            else:
                raise Wrong(f"{request.verb} {request.key}: {shorten(response)}")


def digest_of(answer: StoreResponse) -> bytes:
    return answer.digest or new_digest(answer.body or b"").digest()


def multipart_script(key: str, parts: Sequence[Body]) -> Script:
    """Uploads an object in parts. If a part fails, drops the upload and returns the exception."""
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


def visibility_script(key: str, bodies: tuple[Body, Body], digests: tuple[bytes, bytes]) -> Script:
    """Writes, reads, lists, overwrites and deletes an object, and compares each answer with the acknowledged state.
    Returns the members of STALE_CHECKS with an older state, or the exception of the first request that failed."""
    stale = []
    steps: tuple[tuple[str, StoreRequest, object], ...] = (
        ("", StoreRequest("put", key, bodies[0]), None),
        ("stale_reads", StoreRequest("get", key), digests[0]),
        ("stale_lists", StoreRequest("list", key, number=2), [key]),
        ("", StoreRequest("put", key, bodies[1]), None),
        ("stale_overwrites", StoreRequest("get", key), digests[1]),
        ("", StoreRequest("delete", key), None),
        ("stale_deletes", StoreRequest("get", key), None),
        ("stale_delete_lists", StoreRequest("list", key, number=2), []),
    )
    for check, request, right in steps:
        response, seen = (yield request), None
        if isinstance(response, Exception) and not (isinstance(response, NoObject) and check):
            return response
        if check and not isinstance(response, NoObject):
            seen = list(response.names()) if request.verb == "list" else digest_of(response)
        if check and not same(seen, right):
            stale.append(check)
    return stale


def recovery_seconds(port: Bucket, request: StoreRequest, begun_ns: int, patience: float) -> float | None:
    """Returns the seconds from the start of a burst to the first of STEADY consecutive probes that are served, each
    on a new connection. Returns None if the store did not recover within `patience` seconds."""
    served, first = 0, 0
    with closing(port.asking(1, True)) as requester:
        while now() - begun_ns < patience * 1e9:
            sent = now()
            requester.begin(0, request)
            done = requester.ended(round(patience * 1e9))
            if not done:
                return None
            if type(done[0][1]) is not StoreResponse:
                served = 0
            else:
                if not served:
                    first = sent
                served += 1
            if served == STEADY:
                return (first - begun_ns) / 1e9
            time.sleep(PROBE_SECONDS)
    return None


def count_billed(phase: str, served: int, size: int, parts: int, sent: int) -> Mapping[str, int]:
    """Returns the requests (by class) and the outgoing bytes that a provider bills for `served` operations of a
    phase.

    Classes are Amazon's, which other providers share (Amazon Web Services, Amazon S3 pricing, "Requests & data
    retrievals"): a list costs as much as a write, and a delete costs nothing. Prices are left out, since they change.
    `size`: bytes of an object. `parts`: parts of an upload. `sent`: bytes of an answer in a phase that reads.
    """
    writing, reading, out = {
        **dict.fromkeys((p.PUT, p.COPY, p.LIST), (1, 0, 0)),
        # One request to open the upload, and one to join the parts.
        p.MULTIPART: (parts + 2, 0, 0),
        p.HEAD: (0, 1, 0),
        **dict.fromkeys((p.GET, p.BURST, p.COLD, p.RANGE), (0, 1, sent)),
        # Two writes and two lists; three reads, of which the last finds no object.
        p.VISIBLE: (4, 3, 2 * size),
        p.DELETE: (0, 0, 0),
    }[phase]
    return {WRITING: writing * served, READING: reading * served, SENT: out * served}
