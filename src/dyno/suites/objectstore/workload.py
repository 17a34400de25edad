"""Trial of the suite `objectstore`: fills a bucket, and makes the requests of each phase."""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import chain
from typing import Any

from dyno.contracts.engine import Engine
from dyno.contracts.equality import expect, same
from dyno.contracts.model import Fact, Phase, Wrong
from dyno.contracts.suite import Failure, InFlight, Job, Operations, Work, check_each
from dyno.suites import objectstore as p
from dyno.suites._shared.digest import new_digest
from dyno.suites._shared.store import OnStore
from dyno.suites.objectstore import Bucket, StoreRequest, StoreResponse, Throttled
from dyno.suites.objectstore.conformance import CHECKS
from dyno.suites.objectstore.requests import (
    FILLER_BYTES,
    KEPT,
    STALE_CHECKS,
    Bodies,
    Names,
    ScriptRunner,
    count_billed,
    digest_of,
    multipart_script,
    note_begin,
    recovery_seconds,
    run_all,
    visibility_script,
)

SLICE = 250
LARGE_BYTES = 16 << 10
LISTED = 1_000
LOADING = 8
SAMPLE = 16
"""Names in each list; requests in flight while loading; objects that are read back after a phase."""
PREFIXES = {p.PUT: "new/", p.COPY: "copied/", p.MULTIPART: "parts/", p.DELETE: "gone/"}
"""Prefix of the objects that a phase writes or deletes."""
CheckAnswers = Callable[[Sequence[object]], int]


class ObjectStoreWorkload(OnStore):
    checks = CHECKS

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        params = {setting.name: int(job.params[setting.name]) for setting in p.PARAMS}
        self._params = params
        self._places = params["inflight"]
        self._size = params["size"]
        self._targets = min(params["targets"], params["objects"])
        self._stride = params["objects"] // self._targets
        self._parts = max(2, -(-self._size // params["part"]))
        self._range_bytes = max(1, self._size * params["range"] // 100)
        # A burst measures requests rather than bandwidth, so it reads only the start of very large objects.
        self._burst_bytes = min(self._size, p.MOST_BYTES // params["burst"])
        self._names = Names(0 if job.spec.floor else params["objects"], params["prefixes"])
        self._bodies, self._fillers = Bodies(job.seed, self._size), Bodies(job.seed, FILLER_BYTES)
        self._part_bodies = Bodies(job.seed, params["part"])
        self._loaded = False
        self._phase = ""
        self._counts = Counter[str]()
        self._recovered: float | None = None
        self._burst: Sequence[object] = ()
        self._stored: dict[str, bytes] = {}
        """Digest of each object whose write was acknowledged; empty for an object that is not read back."""

    def port(self, engine: Engine, *how: object) -> Bucket:
        port: Bucket = self._job.port(engine, self._size > LARGE_BYTES, float(self._params["patience"]))
        return port

    def prepare(self, phase: Phase) -> None:
        self._phase = phase.name
        self._counts = Counter()
        self._recovered = None
        self._stored = {}
        if self._job.spec.floor:
            return
        with closing(self.port(self.engine())) as port, closing(port.asking(LOADING, False)) as requester:
            every = enumerate(() if self._loaded else self._names.every)
            deleted = enumerate(self._keys(phase.name, 0) if phase.name == p.DELETE else ())
            targets = ((key, self._bodies.body(at)) for at, key in deleted)
            objects = chain(((key, self._body(at)) for at, key in every), targets)
            for _ in run_all(requester, LOADING, (StoreRequest("put", key, body) for key, body in objects)):
                pass
            self._loaded = True
        if phase.name == p.BURST:
            time.sleep(self._params["silence"])

    @contextmanager
    def connect(self) -> Iterator[object]:
        burst = self._phase == p.BURST
        with closing(self.port(self.engine())) as port:
            places = self._params["burst"] if burst else self._places
            scripted = self._phase in p.SCRIPTED
            with closing(port.asking(places, burst, library=scripted)) as requester:
                if self._job.spec.floor:
                    yield requester
                    return
                if not burst and self._phase != p.COLD:
                    # Open all connections before the clock starts.
                    warm = [StoreRequest("head", self._names.every[0])] * self._places
                    for _ in run_all(requester, self._places, warm):
                        pass
                begun = list[int]()
                if burst:
                    yield note_begin(requester, begun)
                elif scripted:
                    yield ScriptRunner(requester)
                else:
                    yield requester
            if burst and self._counts["throttled"] + self._counts["failed"] and begun:
                request, patience = StoreRequest("get", self._names.every[0]), float(self._params["patience"])
                self._recovered = recovery_seconds(port, request, begun[0], patience)

    def work(self, phase: Phase, port: InFlight, client: int, clients: int, round: int) -> Iterator[Work]:
        if round and phase.name in (p.BURST, p.COLD, p.DELETE):
            return
        burst = phase.name == p.BURST
        floor = self._job.spec.floor
        name = phase.name
        if burst:
            count = self._params["burst"]
        else:
            count = self._count(name)
        step = count if burst else SLICE
        for start in range(0, count, step):
            # The seed doesn't depend on the engine, so that every engine gets the same requests in the same order.
            rng = random.Random(f"{self._job.seed}:{name}:{round}:{start}")
            numbers = range(start, min(start + step, count))
            places: dict[str, Any] = {"calls": lambda _: (), "many": port, "places": count if burst else self._places}
            if floor:
                yield Operations(arguments=[StoreRequest("head", "")] * len(numbers), check=lambda _: 0, **places)
                continue
            if name in PREFIXES:
                arguments, check = self._writes(name, rng, self._keys(name, round, numbers), numbers)
            elif name == p.VISIBLE:
                arguments, check = self._visibility(round, numbers)
            else:
                arguments, check = self._reads(name, rng, numbers)
            yield Operations(
                arguments=arguments,
                check=partial(self._count_and_check, check),
                sizes=self._sizes(name),
                parts=self._latencies(phase),
                **places,
            )

    # -- requests -------------------------------------------------------------------------------------------

    def _count(self, name: str) -> int:
        """Returns the number of a phase's requests, limited by the bytes that it may move, but at least a few."""
        if name == p.COLD:
            return min(self._targets, self._params["requests"])
        if name == p.MULTIPART:
            size = self._parts * self._params["part"]
        else:
            size = self._size
        return min(self._params["requests"], max(p.FEW, self._places, p.MOST_BYTES // size))

    def _keys(self, name: str, round: int, numbers: range | None = None) -> list[str]:
        return [f"{PREFIXES[name]}{round}/{at:08d}" for at in numbers or range(self._count(name))]

    def _body(self, number: int) -> memoryview:
        """Returns the body of an object that the bucket always holds."""
        target, off = divmod(number, self._stride)
        if off or target >= self._targets:
            return self._fillers.body(number)
        return self._bodies.body(target)

    def _writes(
        self, name: str, rng: random.Random, keys: Sequence[str], numbers: range
    ) -> tuple[Sequence[object], CheckAnswers]:
        """Returns requests that write or delete these keys. Acknowledged ones are compared after the phase."""
        bodies, digests = self._bodies, [self._bodies.right(at) for at in numbers]
        requests: list[object]
        if name == p.MULTIPART:
            body = self._part_bodies.body
            uploads = [[body(at + part) for part in range(self._parts)] for at in numbers]
            requests = [partial(multipart_script, key, upload) for key, upload in zip(keys, uploads, strict=True)]
            # To save time, most digests are left empty, so that these objects are not read back.
            digests = [_joined_digest(upload) if at < 2 else b"" for at, upload in enumerate(uploads)]
        elif name == p.COPY:
            targets = rng.choices(range(self._targets), k=len(numbers))
            sources = [self._names.every[target * self._stride] for target in targets]
            requests = [StoreRequest("copy", key, other=source) for key, source in zip(keys, sources, strict=True)]
            digests = [bodies.right(target) for target in targets]
        elif name == p.DELETE:
            requests = [StoreRequest("delete", key) for key in keys]
        else:
            requests = [StoreRequest("put", key, bodies.body(at)) for key, at in zip(keys, numbers, strict=True)]

        def remember(at: int, answer: object) -> int:
            self._stored[keys[at]] = digests[at]
            return 0

        return requests, check_each(range(len(keys)), remember)

    def _reads(self, name: str, rng: random.Random, numbers: range) -> tuple[Sequence[object], CheckAnswers]:
        # A cold phase reads each object once.
        if name == p.COLD:
            targets = list(numbers)
        else:
            targets = rng.choices(range(self._targets), k=len(numbers))
        names, bodies = [self._names.every[target * self._stride] for target in targets], self._bodies
        if name == p.HEAD:
            requests = [StoreRequest("head", key) for key in names]
            return requests, check_each(names, lambda _, answer: _expect(answer.size, self._size, "size"))
        if name == p.LIST:
            after = [rng.randrange(self._params["objects"]) for _ in numbers]
            every, prefix = self._names.every, self._names.prefix
            requests = [StoreRequest("list", prefix(at), other=every[at], number=LISTED) for at in after]

            def check_list(at: int, answer: Any) -> int:
                return _expect(list(answer.names()), self._names.names_after(at, LISTED), "list")

            return requests, check_each(after, check_list)
        if name == p.BURST:
            end = self._burst_bytes
        else:
            end = self._size
        starts, length = [0] * len(numbers), end
        if name == p.RANGE:
            # Use at most five positions, to limit the time for hashing the expected answers.
            length = self._range_bytes
            starts = [(self._size - length) * rng.randrange(5) // 4 for _ in numbers]
        ranged = name == p.RANGE or end < self._size
        requests = [
            StoreRequest("get", key, start=at if ranged else None, end=at + length)
            for key, at in zip(names, starts, strict=True)
        ]
        digests = [bodies.right(target, at, at + length) for target, at in zip(targets, starts, strict=True)]
        return requests, check_each(digests, lambda right, answer: _expect(digest_of(answer), right, "body"))

    def _visibility(self, round: int, numbers: range) -> tuple[Sequence[object], CheckAnswers]:
        def count_stale(_: object, answer: list[str]) -> int:
            self._counts.update(answer)
            return len(STALE_CHECKS)

        body, right = self._bodies.body, self._bodies.right
        scripts = [
            partial(
                visibility_script, f"visible-{round}-{at:08d}", (body(at), body(at + 1)), (right(at), right(at + 1))
            )
            for at in numbers
        ]
        return scripts, check_each(scripts, count_stale)

    # -- answers --------------------------------------------------------------------------------------------

    def _count_and_check(self, check: CheckAnswers, answers: Sequence[object]) -> int:
        for answer in answers:
            outcome = "served"
            if type(answer) is Failure:
                outcome = "failed"
                if answer.error.startswith(f"{Throttled.__name__}:"):
                    outcome = "throttled"
            self._counts[outcome] += 1
        if self._phase == p.BURST:
            self._burst = answers
        return check(answers)

    def _sizes(self, name: str) -> Callable[[Sequence[StoreResponse]], Sequence[int]] | None:
        if name in (p.PUT, p.MULTIPART):
            if name == p.MULTIPART:
                moved = self._parts * self._params["part"]
            else:
                moved = self._size
            return lambda answers: [moved] * len(answers)
        if name in (p.GET, p.RANGE, p.BURST, p.COLD):
            return lambda answers: [answer.size for answer in answers]
        return None

    def _latencies(self, phase: Phase) -> Callable[[Sequence[StoreResponse]], Mapping[str, Sequence[int]]] | None:
        if phase.name == p.BURST:
            return lambda answers: self._latencies_by_tenth()
        if phase.parts:
            first, rest = p.PARTS
            return lambda answers: {
                first: [answer.first_ns for answer in answers],
                rest: [max(answer.total_ns - answer.first_ns, 0) for answer in answers],
            }
        return None

    def _latencies_by_tenth(self) -> Mapping[str, Sequence[int]]:
        """Returns the latencies in ns of the served requests, by the tenth of the burst in which they were sent."""
        latencies: dict[str, list[int]] = {}
        for index, answer in enumerate(self._burst):
            if type(answer) is StoreResponse:
                latencies.setdefault(p.TENTH[index * p.TENTHS // len(self._burst)], []).append(answer.total_ns)
        return latencies

    def verify(self, phase: Phase) -> int:
        """Checks that acknowledged objects are listed, and deleted ones are not, and reads some of them back."""
        if not self._stored:
            return 0
        with closing(self.port(self.engine())) as port, closing(port.asking(LOADING, False)) as requester:
            listed, names = set[str](), [""]
            while names:
                request = StoreRequest("list", PREFIXES[phase.name], other=names[-1], number=LISTED)
                ((_, answer),) = run_all(requester, 1, [request])
                if answer.names is not None:
                    names = list(answer.names())
                else:
                    names = []
                listed.update(names)
            if phase.name == p.DELETE:
                if left := sorted(listed & set(self._stored)):
                    raise Wrong(f"{left[0]} was deleted, and is still listed")
                return len(self._stored)
            if lost := sorted(set(self._stored) - listed):
                raise Wrong(f"{lost[0]} was written, and is not listed")
            digested = [key for key, digest in self._stored.items() if digest]
            sample = random.Random(self._job.seed).sample(digested, min(SAMPLE, len(digested)))
            for request, answer in run_all(requester, LOADING, [StoreRequest("get", key) for key in sample]):
                if not same(digest_of(answer), self._stored[request.key]):
                    raise Wrong(f"{request.key} differs from what was written")
        return len(self._stored) + len(sample)

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        if self._job.spec.floor:
            return {}
        served = self._counts["served"]
        sent = {p.RANGE: self._range_bytes, p.BURST: self._burst_bytes}.get(phase.name, self._size)
        facts: dict[str, Fact] = {name: self._counts[name] for name in ("served", "throttled", "failed")}
        facts |= count_billed(phase.name, served, self._size, self._parts, sent)
        facts[KEPT] = self._targets * self._size + (self._params["objects"] - self._targets) * FILLER_BYTES
        if phase.name == p.BURST:
            facts["recovery_seconds"] = self._recovered
            facts |= {f"burst_{name}": self._counts[name] for name in ("served", "throttled", "failed")}
        if phase.name == p.VISIBLE:
            facts.update({check: self._counts[check] for check in STALE_CHECKS})
        return facts


def _joined_digest(parts: Sequence[memoryview]) -> bytes:
    digest = new_digest()
    for part in parts:
        digest.update(part)
    return digest.digest()


def _expect(got: object, right: object, what: str) -> int:
    expect(got, right, f"wrong {what}")
    return 1


WORKLOAD = ObjectStoreWorkload
