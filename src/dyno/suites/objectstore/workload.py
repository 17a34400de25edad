"""One trial of the suite objectstore: a bucket that is filled, and requests of it."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from dyno.contracts.engine import Engine
from dyno.contracts.equality import same
from dyno.contracts.model import Fact, Phase, Wrong
from dyno.contracts.suite import Failure, Operations, Work
from dyno.suites._shared.store import OnStore
from dyno.suites.objectstore import params as p
from dyno.suites.objectstore.asked import Chain, digest_of, every, in_parts
from dyno.suites.objectstore.billed import KEPT, billed
from dyno.suites.objectstore.burst import Begun, by_tenth, recovery
from dyno.suites.objectstore.conformance import CHECKS, Check
from dyno.suites.objectstore.dataset import DIGEST, FILLER_BYTES, Bodies, Names
from dyno.suites.objectstore.port import Bucket, Requester, StoreRequest, StoreResponse, Throttled
from dyno.suites.objectstore.visible import LOOKS, visible

SLICE = 250
LARGE_BYTES = 16 << 10
LISTED, LOADING, SAMPLE = 1_000, 8, 16
MADE = {p.PUT: "new/", p.COPY: "copied/", p.MULTIPART: "parts/", p.DELETE: "gone/"}
"""Under which names a phase has what it writes."""
Checked = Callable[[Sequence[Any]], int]


class ObjectStoreWorkload(OnStore):
    """See `dyno.contracts.suite.Workload`."""

    def __init__(self, job: Any) -> None:
        super().__init__(job)
        given = {name: int(job.params[name]) for name in (setting.name for setting in p.PARAMS)}
        self._given, self._places, self._size = given, given["inflight"], given["size"]
        self._targets = min(given["targets"], given["objects"])
        self._stride = given["objects"] // self._targets
        self._parts = max(2, -(-self._size // given["part"]))
        self._piece = max(1, self._size * given["range"] // 100)
        # A burst is about requests, and not about the bytes of the largest objects.
        self._share = min(self._size, p.MOST_BYTES // given["burst"])
        self._names = Names(0 if job.spec.floor else given["objects"], given["prefixes"])
        self._bodies, self._fillers = Bodies(job.seed, self._size), Bodies(job.seed, FILLER_BYTES)
        self._pieces = Bodies(job.seed, given["part"])
        self._loaded = False
        self._phase = ""
        self._told = Counter[str]()
        self._recovered: float | None = None
        self._burst: Sequence[Any] = ()
        self._stored: dict[str, bytes] = {}
        """Of what a phase was told is written: the digest of each."""

    # -- see OnStore ----------------------------------------------------------------------------------------

    def checks(self) -> Mapping[str, Check]:
        return CHECKS

    def port(self, engine: Engine, *how: Any) -> Bucket:
        port: Bucket = self._job.port(engine, self._size > LARGE_BYTES, float(self._given["patience"]))
        return port

    def prepare(self, phase: Phase) -> None:
        self.begin()
        self._phase, self._told, self._recovered, self._stored = phase.name, Counter(), None, {}
        if self._job.spec.floor:
            return
        with closing(self.port(self.engine())) as port, closing(port.asking(LOADING, False)) as asking:
            if not self._loaded:
                self._ask(
                    asking, (StoreRequest("put", key, self._body(at)) for at, key in enumerate(self._names.every))
                )
                self._loaded = True
            if phase.name == p.DELETE:
                keys = self._keys(phase.name, 0)
                self._ask(asking, (StoreRequest("put", key, self._bodies.body(at)) for at, key in enumerate(keys)))
        if phase.name == p.BURST:
            time.sleep(self._given["silence"])

    @staticmethod
    def _ask(asking: Requester, asks: Iterator[StoreRequest]) -> None:
        for _ in every(asking, LOADING, asks):
            pass

    @contextmanager
    def connect(self) -> Iterator[Any]:
        burst = self._phase == p.BURST
        with closing(self.port(self.engine())) as port:
            with closing(port.asking(self._given["burst"] if burst else self._places, burst)) as asking:
                if self._job.spec.floor:
                    yield asking
                    return
                if not burst and self._phase != p.COLD:
                    # As many connections as there will be are there when the clock starts.
                    warm = [StoreRequest("head", self._names.every[0])] * self._places
                    for _ in every(asking, self._places, warm):
                        pass
                begun = Begun(asking)
                yield begun if burst else Chain(asking) if self._phase in (p.MULTIPART, p.VISIBLE) else asking
            if burst and self._told["throttled"] + self._told["failed"] and begun.at is not None:
                ask, patience = StoreRequest("get", self._names.every[0]), float(self._given["patience"])
                self._recovered = recovery(port, ask, begun.at, patience)

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Work]:
        if round and phase.name in (p.BURST, p.COLD, p.DELETE):
            return
        burst = phase.name == p.BURST
        count = self._given["burst"] if burst else self._count(phase.name)
        step = count if burst else SLICE
        for start in range(0, count, step):
            # Seeded by job, phase, round and slice alone: every engine is asked for the same in the same order.
            rng = random.Random(f"{self._job.seed}:{phase.name}:{round}:{start}")
            numbers = range(start, min(start + step, count))
            arguments, check = self._slice(phase.name, rng, round, numbers)
            floor = self._job.spec.floor
            yield Operations(
                calls=lambda _: (),
                arguments=arguments,
                check=(lambda answers: 0) if floor else self._counted(check),
                sizes=None if floor else self._sizes(phase.name, len(numbers)),
                parts=None if floor else self._latencies(phase),
                many=port,
                places=count if burst else self._places,
            )

    # -- what is asked --------------------------------------------------------------------------------------

    def _count(self, name: str) -> int:
        """Requests of a phase: no more than a phase may move, but some."""
        if name == p.COLD:
            return min(self._targets, self._given["requests"])
        size = self._parts * self._given["part"] if name == p.MULTIPART else self._size
        return min(self._given["requests"], max(p.FEW, self._places, p.MOST_BYTES // size))

    def _sent(self, name: str) -> int:
        """Bytes of an answer of a phase that reads."""
        return {p.RANGE: self._piece, p.BURST: self._share}.get(name, self._size)

    def _keys(self, name: str, round: int, numbers: range | None = None) -> list[str]:
        return [f"{MADE[name]}{round}/{at:08d}" for at in numbers or range(self._count(name))]

    def _body(self, number: int) -> memoryview:
        """Of one of the objects that are there throughout."""
        target, off = divmod(number, self._stride)
        return self._fillers.body(number) if off or target >= self._targets else self._bodies.body(target)

    def _slice(self, name: str, rng: random.Random, round: int, numbers: range) -> tuple[list[Any], Checked]:
        if self._job.spec.floor:
            return [StoreRequest("head", "")] * len(numbers), len
        if name in (p.PUT, p.DELETE):
            keys = self._keys(name, round, numbers)
            put = [StoreRequest("put", key, self._bodies.body(at)) for at, key in zip(numbers, keys, strict=True)]
            rights = [self._bodies.right(at) for at in numbers]
            return [StoreRequest("delete", key) for key in keys] if name == p.DELETE else put, self._noted(
                keys, rights
            )
        if name == p.MULTIPART:
            return self._in_parts(round, numbers)
        if name == p.VISIBLE:
            return [self._visible(f"visible-{round}-{at:08d}", at) for at in numbers], self._stale
        # In the cold each object is read once.
        targets = list(numbers) if name == p.COLD else rng.choices(range(self._targets), k=len(numbers))
        return self._reading(name, rng, round, numbers, targets)

    def _reading(
        self, name: str, rng: random.Random, round: int, numbers: range, targets: list[int]
    ) -> tuple[list[Any], Checked]:
        names = [self._names.every[target * self._stride] for target in targets]
        if name == p.HEAD:
            return [StoreRequest("head", key) for key in names], self._heads
        if name == p.COPY:
            keys, rights = self._keys(name, round, numbers), [self._bodies.right(target) for target in targets]
            return [StoreRequest("copy", key, other=of) for key, of in zip(keys, names, strict=True)], self._noted(
                keys, rights
            )
        if name == p.LIST:
            after = [rng.randrange(self._given["objects"]) for _ in numbers]
            asks = [
                StoreRequest("list", self._names.prefix(at), other=self._names.every[at], number=LISTED)
                for at in after
            ]
            return asks, self._lists(after)
        if name == p.RANGE:
            # Of a few places, so that there is time to digest what is right.
            length = self._piece
            starts = [(self._size - length) * rng.randrange(5) // 4 for _ in numbers]
            asks = [
                StoreRequest("get", key, start=at, end=at + length) for key, at in zip(names, starts, strict=True)
            ]
            return asks, self._bodies_are(
                [self._bodies.right(t, at, at + length) for t, at in zip(targets, starts, strict=True)]
            )
        end = self._share if name == p.BURST else self._size
        start = 0 if end < self._size else None
        return [StoreRequest("get", key, start=start, end=end) for key in names], self._bodies_are(
            [self._bodies.right(t, 0, end) for t in targets]
        )

    def _in_parts(self, round: int, numbers: range) -> tuple[list[Any], Checked]:
        def begins(key: str, at: int) -> Callable[[], Any]:
            return lambda: in_parts(key, [self._pieces.body(at + part) for part in range(self._parts)])

        keys = self._keys(p.MULTIPART, round, numbers)
        return [begins(key, at) for key, at in zip(keys, numbers, strict=True)], self._noted(
            keys, [self._joined(at) for at in numbers]
        )

    def _joined(self, at: int) -> bytes:
        """The digest of an object in parts; of few of them, as it takes time, and of the others none."""
        if at % SLICE >= 2:
            return b""
        found = DIGEST()
        for part in range(self._parts):
            found.update(self._pieces.body(at + part))
        return found.digest()

    def _visible(self, key: str, at: int) -> Callable[[], Any]:
        body, right = self._bodies.body, self._bodies.right
        return lambda: visible(key, (body(at), body(at + 1)), (right(at), right(at + 1)))

    # -- what was answered ----------------------------------------------------------------------------------

    def _counted(self, check: Checked) -> Checked:
        def counted(answers: Sequence[Any]) -> int:
            for answer in answers:
                failure = type(answer) is Failure
                throttled = failure and answer.error.startswith(f"{Throttled.__name__}:")
                self._told["throttled" if throttled else "failed" if failure else "served"] += 1
            if self._phase == p.BURST:
                self._burst = answers
            return check(answers)

        return counted

    def _noted(self, keys: Sequence[str], rights: Sequence[bytes]) -> Checked:
        def noted(answers: Sequence[Any]) -> int:
            done = [at for at, answer in enumerate(answers) if type(answer) is not Failure]
            self._stored.update({keys[at]: rights[at] for at in done})
            return 0

        return noted

    def _heads(self, answers: Sequence[Any]) -> int:
        return self._each(answers, lambda at, answer: same(answer.size, self._size), "a size that is another")

    def _bodies_are(self, rights: Sequence[bytes]) -> Checked:
        return lambda answers: self._each(
            answers, lambda at, answer: same(digest_of(answer), rights[at]), "a body that is another"
        )

    def _lists(self, after: Sequence[int]) -> Checked:
        def listed(at: int, answer: StoreResponse) -> bool:
            assert answer.names is not None
            return same(list(answer.names()), self._names.after(after[at], LISTED))

        return lambda answers: self._each(answers, listed, "a list that is another")

    def _stale(self, answers: Sequence[Any]) -> int:
        seen = [answer for answer in answers if type(answer) is not Failure]
        self._told.update(look for one in seen for look in one.stale)
        return len(seen) * len(LOOKS)

    @staticmethod
    def _each(answers: Sequence[Any], is_right: Callable[[int, Any], bool], wrong: str) -> int:
        count = 0
        for at, answer in enumerate(answers):
            if type(answer) is not Failure:
                if not is_right(at, answer):
                    raise Wrong(f"answer {at}: {wrong}")
                count += 1
        return count

    def _sizes(self, name: str, count: int) -> Any:
        if name in (p.PUT, p.MULTIPART):
            moved = self._parts * self._given["part"] if name == p.MULTIPART else self._size
            return lambda answers: [moved] * len(answers)
        if name in (p.GET, p.RANGE, p.BURST, p.COLD):
            return lambda answers: [answer.size for answer in answers]
        return None

    def _latencies(self, phase: Phase) -> Any:
        if phase.name == p.BURST:
            return lambda answers: by_tenth(self._burst)
        if phase.parts:
            first, rest = p.PARTS
            return lambda answers: {
                first: [answer.first_ns for answer in answers],
                rest: [max(answer.total_ns - answer.first_ns, 0) for answer in answers],
            }
        return None

    # -- what is there afterwards ---------------------------------------------------------------------------

    def verify(self, phase: Phase) -> int:
        """Every name that was acknowledged is listed, and some objects are read back; what was deleted is not."""
        if self._job.spec.floor or phase.name not in MADE or not self._stored:
            return 0
        with closing(self.port(self.engine())) as port, closing(port.asking(LOADING, False)) as asking:
            found = set(self._everything(asking, MADE[phase.name]))
            if phase.name == p.DELETE:
                if left := sorted(found & set(self._stored)):
                    raise Wrong(f"{left[0]} was deleted, and is listed")
                return len(self._stored)
            if lost := sorted(set(self._stored) - found):
                raise Wrong(f"{lost[0]} was written, and is not listed")
            digested = [key for key, digest in self._stored.items() if digest]
            some = random.Random(self._job.seed).sample(digested, min(SAMPLE, len(digested)))
            for ask, answer in every(asking, LOADING, [StoreRequest("get", key) for key in some]):
                if not same(digest_of(answer), self._stored[ask.key]):
                    raise Wrong(f"{ask.key} is not what was written")
        return len(self._stored) + len(some)

    @staticmethod
    def _everything(asking: Requester, prefix: str) -> Iterator[str]:
        after = ""
        while True:
            ((_, answer),) = every(asking, 1, [StoreRequest("list", prefix, other=after, number=LISTED)])
            names = list(answer.names()) if answer.names is not None else []
            yield from names
            if not names:
                return
            after = names[-1]

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        if self._job.spec.floor:
            return {}
        found: dict[str, Fact] = {name: self._told[name] for name in ("served", "throttled", "failed")}
        found |= billed(phase.name, self._told["served"], self._size, self._parts, self._sent(phase.name))
        found[KEPT] = self._targets * self._size + (self._given["objects"] - self._targets) * FILLER_BYTES
        if phase.name == p.BURST:
            found["recovery_seconds"] = self._recovered
        if phase.name == p.VISIBLE:
            found.update({look: self._told[look] for look in LOOKS})
        return found
