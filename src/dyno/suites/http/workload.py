"""One trial of the suite http: requests to files that a server of Dyno's own has, or to addresses of a user's."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from dyno.contracts.engine import Engine
from dyno.contracts.model import Fact, Phase, Wrong
from dyno.contracts.suite import Failure, Operations, Work
from dyno.http.multi import KEPT_BYTES
from dyno.http.stages import STAGES, Moments, stages
from dyno.suites._shared.store import OnStore
from dyno.suites.http import dataset
from dyno.suites.http.asked import connected, digest_of, every, judge
from dyno.suites.http.conformance import CHECKS, Check
from dyno.suites.http.params import FRESH, KEPT
from dyno.suites.http.port import Requester, RequestOptions, Requests, Target

SLICE = 500
NEW_CONNECTIONS = 0.05
"""Largest share of requests on a new connection in the phase kept. Apache closes a connection after 100 requests."""


class HttpWorkload(OnStore):
    """See `dyno.contracts.suite.Workload`."""

    def __init__(self, job: Any) -> None:
        super().__init__(job)
        params = job.params
        self._places, self._requests = int(params["inflight"]), int(params["requests"])
        self._body, self._files = int(params["body"]), int(params["targets"])
        self._bodies: list[bytes] = []
        self._targets: Sequence[Target] = ()
        self._secure = False
        self._asking: Requester | None = None
        self._fresh = False
        self._codes, self._connections, self._responses = Counter[int](), 0, 0

    def checks(self) -> Mapping[str, Check]:
        return CHECKS

    def conformance(self) -> None:
        # What changes has no digest to be held to.
        if self._job.params["bodies"] == "same":
            super().conformance()

    def port(self, engine: Engine, *how: Any) -> Requests:
        params = self._job.params
        asked = RequestOptions(str(params["protocol"]), float(params["patience"]), self._body > KEPT_BYTES)
        port: Requests = self._job.port(engine, asked)
        return port

    def prepare(self, phase: Phase) -> None:
        if self._store is None:
            self._bodies = [] if self._job.spec.floor else dataset.bodies(self._job.seed, self._files, self._body)
        self.begin()
        self._fresh = phase.name == FRESH
        self._codes, self._connections, self._responses = Counter(), 0, 0

    @contextmanager
    def connect(self) -> Iterator[Requester]:
        with closing(self.port(self.engine())) as port:
            self._targets = port.publish(self._bodies)
            self._secure = any(target.url.startswith("https:") for target in self._targets)
            if not self._job.spec.floor:
                self._look(port)
            with closing(port.asking(self._places, self._fresh)) as asking:
                if not self._fresh and not self._job.spec.floor:
                    # As many connections as there will be are there when the clock starts.
                    urls = [self._targets[at % len(self._targets)].url for at in range(self._places)]
                    every(asking, self._places, urls)
                self._asking, before = asking, Counter(asking.codes)
                yield asking
                self._codes = Counter(asking.codes) - before

    def _look(self, port: Requests) -> None:
        """Requests each of a user's URLs once: its later responses must have the same body. Raises Refused if a
        server can't be reached."""
        unknown = [target for target in self._targets if target.digest is None]
        if not unknown:
            return
        with closing(port.asking(1, True)) as asking:
            answers = every(asking, 1, [target.url for target in unknown])
        known = dict[str, Target]()
        for target, answer in zip(unknown, answers, strict=True):
            connected(target, answer)
            if self._job.params["bodies"] == "same":
                digest = digest_of(target, answer)
                known[target.url] = target._replace(size=answer.size, digest=digest)
        self._targets = [known.get(target.url, target) for target in self._targets]

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Work]:
        for start in range(0, self._requests, SLICE):
            count = min(SLICE, self._requests - start)
            # Seeded by job, round and slice alone: every engine is asked for the same in the same order.
            rng = random.Random(f"{self._job.seed}:{round}:{start}")
            targets = rng.choices(self._targets, k=count)
            yield Operations(
                calls=lambda _: (),
                arguments=[target.url for target in targets],
                check=_Right(targets, not self._job.spec.floor),
                sizes=None if self._job.spec.floor else _sizes,
                parts=None if self._job.spec.floor else self._parts,
                many=port,
                places=self._places,
            )

    def _parts(self, answers: Sequence[Any]) -> Mapping[str, Sequence[int]]:
        """In ns; of what was on a connection that was there before, it has fewer."""
        found: dict[str, list[int]] = {name: [] for name in STAGES}
        self._responses += len(answers)
        for answer in answers:
            self._connections += answer.connects
            for name, us in stages(Moments(*answer.moments), self._secure, answer.connects > 0).items():
                if us is not None:
                    found[name].append(us * 1_000)
        return {name: spans for name, spans in found.items() if spans}

    def verify(self, phase: Phase) -> int:
        new, all = self._connections, self._responses
        if phase.name == KEPT and new > NEW_CONNECTIONS * all:
            raise Wrong(
                f"not kept: the server closed connections, so {new:,} of {all:,} requests were on a new one; "
                f"the phase {FRESH} measures those"
            )
        return 0

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        codes = {f"status_{code}": times for code, times in sorted(self._codes.items())}
        return {} if self._job.spec.floor else {"connections": self._connections, **codes}


def _sizes(answers: Sequence[Any]) -> Sequence[int]:
    return [answer.size for answer in answers]


class _Right:
    """Each response has the body that it must have."""

    def __init__(self, targets: Sequence[Target], judged: bool) -> None:
        self._targets, self._judged = targets, judged

    def __call__(self, answers: Sequence[Any]) -> int:
        if not self._judged:
            return 0
        pairs = zip(self._targets, answers, strict=False)
        return sum(judge(target, answer) for target, answer in pairs if type(answer) is not Failure)
