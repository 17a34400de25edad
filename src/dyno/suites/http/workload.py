"""Trial of the suite `http`: requests for files on Dyno's own server, or for a user's addresses."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from dyno.contracts.engine import Engine
from dyno.contracts.model import Fact, Phase, Wrong
from dyno.contracts.suite import Operations, Work, check_each
from dyno.http.multi import KEPT_BYTES
from dyno.http.stages import STAGES, Moments, stages
from dyno.suites._shared.store import OnStore
from dyno.suites.http import FRESH, KEPT, Requester, RequestOptions, Requests, Target
from dyno.suites.http.conformance import CHECKS, check_body, check_connection, digest_of, request_all

SLICE = 500
NEW_CONNECTIONS = 0.05
"""Maximum share of requests on a new connection in the phase `kept`. Apache closes a connection after 100
requests."""


def bodies(seed: int, files: int, size: int) -> list[bytes]:
    """Returns seeded bodies of that size, all different."""
    return [random.Random(f"{seed}:{at}").randbytes(size) for at in range(files)]


class HttpWorkload(OnStore):
    checks = CHECKS

    def __init__(self, job: Any) -> None:
        super().__init__(job)
        params = job.params
        self._places, self._requests = int(params["inflight"]), int(params["requests"])
        self._body, self._files = int(params["body"]), int(params["targets"])
        self._bodies: list[bytes] = []
        self._targets: Sequence[Target] = ()
        self._secure = False
        self._fresh = False
        self._codes, self._connections, self._responses = Counter[int](), 0, 0

    def conformance(self) -> None:
        # The checks compare bodies, which is impossible if the bodies change.
        if self._job.params["bodies"] == "same":
            super().conformance()

    def port(self, engine: Engine, *arguments: Any) -> Requests:
        params = self._job.params
        options = RequestOptions(str(params["protocol"]), float(params["patience"]), self._body > KEPT_BYTES)
        port: Requests = self._job.port(engine, options)
        return port

    def prepare(self, phase: Phase) -> None:
        if self._store is None:
            self._bodies = [] if self._job.spec.floor else bodies(self._job.seed, self._files, self._body)
        self.begin()
        self._fresh = phase.name == FRESH
        self._codes, self._connections, self._responses = Counter(), 0, 0

    @contextmanager
    def connect(self) -> Iterator[Requester]:
        with closing(self.port(self.engine())) as port:
            self._targets = port.publish(self._bodies)
            self._secure = any(target.url.startswith("https:") for target in self._targets)
            if not self._job.spec.floor:
                self._probe(port)
            with closing(port.asking(self._places, self._fresh)) as requester:
                if not self._fresh and not self._job.spec.floor:
                    # Open all connections before the clock starts.
                    urls = [self._targets[at % len(self._targets)].url for at in range(self._places)]
                    request_all(requester, self._places, urls)
                before = Counter(requester.codes)
                yield requester
                self._codes = Counter(requester.codes) - before

    def _probe(self, port: Requests) -> None:
        """Requests each of a user's URLs once, to learn the body that later responses must have. Raises Refused if a
        server can't be reached."""
        unknown = [target for target in self._targets if target.digest is None]
        if not unknown:
            return
        with closing(port.asking(1, True)) as requester:
            answers = request_all(requester, 1, [target.url for target in unknown])
        known = dict[str, Target]()
        for target, answer in zip(unknown, answers, strict=True):
            check_connection(target, answer)
            if self._job.params["bodies"] == "same":
                digest = digest_of(target, answer)
                known[target.url] = target._replace(size=answer.size, digest=digest)
        self._targets = [known.get(target.url, target) for target in self._targets]

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Work]:
        for start in range(0, self._requests, SLICE):
            count = min(SLICE, self._requests - start)
            # The seed depends only on job, round and slice, so that every engine gets the same requests in the same
            # order.
            rng = random.Random(f"{self._job.seed}:{round}:{start}")
            targets, floor = rng.choices(self._targets, k=count), self._job.spec.floor
            yield Operations(
                calls=lambda _: (),
                arguments=[target.url for target in targets],
                check=check_each(targets, check_body, not floor),
                sizes=None if floor else lambda answers: [answer.size for answer in answers],
                parts=None if floor else self._parts,
                many=port,
                places=self._places,
            )

    def _parts(self, answers: Sequence[Any]) -> Mapping[str, Sequence[int]]:
        """Returns the stages of the requests in ns. Requests on a kept connection have fewer stages."""
        parts: dict[str, list[int]] = {name: [] for name in STAGES}
        self._responses += len(answers)
        for answer in answers:
            self._connections += answer.connects
            for name, us in stages(Moments(*answer.moments), self._secure, answer.connects > 0).items():
                if us is not None:
                    parts[name].append(us * 1_000)
        return {name: spans for name, spans in parts.items() if spans}

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


WORKLOAD = HttpWorkload
