"""The suite `http`: conformance checks of its port, and a trial on Dyno's own server or a user's addresses."""

import os
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import cycle
from multiprocessing import get_context
from signal import SIGKILL
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dyno.contracts.engine import Engine
from dyno.contracts.equality import same, shorten
from dyno.contracts.model import Fact, Phase, Refused, Tier, Unavailable, Wrong
from dyno.contracts.passwords import mask_password
from dyno.contracts.quantities import whole
from dyno.contracts.suite import Job, NativeInFlight, Opened, Operations, Work, by_name, check_each
from dyno.host.process import die_with_parent
from dyno.suites._shared.digest import new_digest
from dyno.suites._shared.store import OnStore
from dyno.suites.http import FRESH, KEPT, LINE_END, RANDOM, Requester, RequestOptions, Requests, Target
from dyno.suites.http.multi import KEPT_BYTES, RequestFailed, Response, StatusError
from dyno.suites.http.stages import STAGES, stages

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

BODIES = (b"", b"x", bytes(range(256)) * 40, bytes(300_000))
PATIENCE_NS = 120_000_000_000
REMEDIES = {
    5: "check the name of the proxy",
    6: "check the name of the host",
    7: "check the host and the port, and whether the server is running",
    28: "raise the parameter patience, or check the host and the port",
    35: "check whether the port speaks TLS",
    58: "check the options cert and key",
    60: "set SSL_CERT_FILE to a file with its certificate, or accept any certificate with the option insecure=yes",
}
"""Remedies for requests that got no connection, by libcurl's error number."""


# -- single responses ---------------------------------------------------------------------------------------


def request_all(requester: Requester, places: int, urls: Sequence[str]) -> list[Any]:
    """Requests all URLs, up to `places` at once. Returns the answers in order. Raises Wrong if one is missing."""
    free = list(range(places))
    answers: list[Response | Exception | None] = [None] * len(urls)
    in_flight = dict[int, int]()
    at = 0
    while at < len(urls) or in_flight:
        while free and at < len(urls):
            in_flight[free[-1]] = at
            requester.begin(free.pop(), urls[at])
            at += 1
        ended = requester.ended(PATIENCE_NS)
        if not ended:
            raise Wrong(f"{len(in_flight)} requests were not answered")
        for place, answer in ended:
            answers[in_flight.pop(place)] = answer
            free.append(place)
    return answers


def check_connection(target: Target, answer: object) -> None:
    """Raises Refused, with a remedy, if the request got no connection to the server."""
    if type(answer) is RequestFailed and answer.number in REMEDIES:
        raise Refused(f"{mask_password(target.url)}: {answer}: {REMEDIES[answer.number]}")


def digest_of(target: Target, answer: object) -> bytes:
    """Returns a body's digest. Raises Refused if no connection or an error status came, and Wrong otherwise."""
    check_connection(target, answer)
    if type(answer) is StatusError:
        raise Refused(f"{mask_password(target.url)}: {answer}: only responses with a status under 400 are measured")
    if type(answer) is not Response:
        raise Wrong(f"{mask_password(target.url)}: a request failed: {shorten(answer)}")
    return answer.digest or new_digest(answer.body or b"").digest()


def check_body(target: Target, answer: Any) -> int:
    """Compares a body. Returns the number of compared bodies. Raises Wrong, or the exceptions of `digest_of`."""
    digest = digest_of(target, answer)
    if target.size is not None and not same(answer.size, target.size):
        raise Wrong(f"{mask_password(target.url)}: the body has {answer.size} bytes, expected {target.size}")
    if target.digest is not None and not same(digest, target.digest):
        raise Wrong(f"{mask_password(target.url)}: the body is another one than expected")
    return int(target.digest is not None)


def _check_bodies(opened: Opened[Requests], name: str, fresh: bool) -> None:
    with opened(name) as port:
        targets = [*port.publish(BODIES)] * 3
        with closing(port.asking(2, fresh)) as requester:
            answers = request_all(requester, 2, [target.url for target in targets])
    for target, answer in zip(targets, answers, strict=True):
        check_body(target, answer)
        if fresh and not 1 <= answer.connects <= 1 + answer.redirects:
            raise Wrong(f"{target.url}: {answer.connects} connections for a request, expected 1")


def kept(opened: Opened[Requests], tier: Tier | None) -> None:
    """Published bodies come back, on connections that are kept."""
    _check_bodies(opened, "kept", fresh=False)


def fresh(opened: Opened[Requests], tier: Tier | None) -> None:
    """Published bodies come back, each on a new connection."""
    _check_bodies(opened, "fresh", fresh=True)


def known(opened: Opened[Requests], tier: Tier | None) -> None:
    """A target has the size and digest of the published body, or neither."""
    with opened("known") as port:
        for body, target in zip(BODIES, port.publish(BODIES), strict=False):
            got = (target.size, target.digest)
            if not same(got, (len(body), new_digest(body).digest())) and not same(got, (None, None)):
                raise Wrong(f"{target.url}: the target has another size or digest than the published body")


CHECKS = by_name(known, kept, fresh)


# -- the trial ----------------------------------------------------------------------------------------------

SLICE = 500
NEW_CONNECTIONS = 0.05
"""Maximum share of new connections in the phase `kept`. Apache closes a connection after 100 requests."""


class HttpWorkload(OnStore):
    checks = CHECKS

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        params = job.params
        self._places, self._requests = int(params["inflight"]), int(params["requests"])
        self._body = int(params["body"])
        self._bodies: list[bytes] = []
        self._targets: Sequence[Target] = ()
        self._secure = False
        self._fresh = False
        self._reset()

    def _reset(self) -> None:
        self._codes, self._versions = Counter[int](), Counter[str]()
        self._connections = self._fresh_responses = self._redirects = self._stressed = 0

    def conformance(self) -> None:
        # The checks compare bodies, which is impossible if the bodies change.
        if self._job.params["bodies"] == "same":
            super().conformance()

    def port(self, engine: Engine, *arguments: object) -> Requests:
        params = self._job.params
        text, header = str(params["send"]), str(params["header"])
        if text.startswith(RANDOM):
            body = random.Random(self._job.seed).randbytes(whole(text.removeprefix(RANDOM)))
        else:
            body = text.encode()
        options = RequestOptions(
            str(params["protocol"]),
            float(params["patience"]),
            self._body > KEPT_BYTES,
            str(params["method"]),
            body if text else None,
            header.split(LINE_END) if header else (),
            params["redirects"] == "follow",
        )
        port: Requests = self._job.port(engine, options)
        return port

    def prepare(self, phase: Phase) -> None:
        if self._store is None:
            files = range(0 if self._job.spec.floor else int(self._job.params["targets"]))
            self._bodies = [random.Random(f"{self._job.seed}:{at}").randbytes(self._body) for at in files]
        self.begin()
        self._fresh = phase.name == FRESH
        self._reset()

    @contextmanager
    def connect(self) -> Iterator[Requester]:
        with closing(self.port(self.engine())) as port:
            self._targets = port.publish(self._bodies)
            self._secure = any(target.url.startswith("https:") for target in self._targets)
            if not self._job.spec.floor:
                self._probe(port)
            with closing(port.asking(self._places, self._fresh)) as requester:
                if not self._fresh and not self._job.spec.floor:
                    self._open_connections(requester)
                before = Counter(requester.codes)
                with self._stress(port):
                    yield requester
                self._codes = Counter(requester.codes) - before

    def _open_connections(self, requester: Requester) -> None:
        """Opens all connections before the clock starts. libcurl's are shared by all places. With native load, each
        place has a connection of its own to each server."""
        urls = dict[object, list[str]]()
        for target in self._targets:
            server = urlsplit(target.url)[:2] if isinstance(requester, NativeInFlight) else None
            urls.setdefault(server, []).append(target.url)
        for group in urls.values():
            request_all(requester, self._places, [group[at % len(group)] for at in range(self._places)])

    @contextmanager
    def _stress(self, port: Requests) -> Iterator[None]:
        """Keeps the server busy from a second process, if the user asked for it."""
        places = 0
        if not self._job.spec.floor:
            places = int(self._job.params["stress"])
        if not places:
            yield
            return
        context = get_context("fork")
        count, urls = context.Value("q", 0, lock=False), [target.url for target in self._targets]
        process = context.Process(target=_keep_busy, args=(port, places, urls, count, os.getpid()), daemon=True)
        process.start()
        try:
            deadline = monotonic() + PATIENCE_NS / 1e9
            while not count.value:
                if not process.is_alive() or monotonic() > deadline:
                    raise Unavailable("the second load got no response")
                sleep(0.01)
            before = count.value
            yield
            self._stressed = count.value - before
        finally:
            process.kill()
            process.join()

    def _probe(self, port: Requests) -> None:
        """Requests each of a user's URLs once, to learn its body. Raises Refused if a server can't be reached."""
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

    def work(self, phase: Phase, port: Requester, client: int, clients: int, round: int) -> Iterator[Work]:
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

    def _parts(self, answers: Sequence[Response]) -> Mapping[str, Sequence[int]]:
        """Returns the stages of the requests in ns. Requests on a kept connection have fewer stages."""
        parts: dict[str, list[int]] = {name: [] for name in STAGES}
        self._versions.update(answer.version for answer in answers)
        for answer in answers:
            self._connections += answer.connects
            self._fresh_responses += answer.connects > 0
            self._redirects += answer.redirects
            for name, us in stages(answer.moments, self._secure, answer.connects > 0).items():
                if us is not None:
                    parts[name].append(round(us * 1_000))
        return {name: spans for name, spans in parts.items() if spans}

    def verify(self, phase: Phase) -> int:
        new, all = self._fresh_responses, self._versions.total()
        protocol = str(self._job.params["protocol"])
        if protocol != "1.1" and set(self._versions) - {protocol}:
            raise Wrong(f"not HTTP/{protocol}: the server answered with HTTP/{', '.join(sorted(self._versions))}")
        if phase.name == KEPT and new > NEW_CONNECTIONS * all:
            raise Wrong(
                f"not kept: the server closed connections, so {new:,} of {all:,} requests were on a new one; "
                f"the phase {FRESH} measures those"
            )
        return 0

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        if self._job.spec.floor:
            return {}
        facts: dict[str, Fact] = {
            "connections": self._connections,
            **{f"status_{code}": times for code, times in sorted(self._codes.items())},
            "protocol": ", ".join(sorted(self._versions)) or None,
            "reused": self._versions.total() - self._fresh_responses,
        }
        if self._job.params["redirects"] == "follow":
            facts["redirects"] = self._redirects
        if self._job.params["stress"]:
            facts["stress_requests"] = self._stressed
        return facts


def _keep_busy(port: Requests, places: int, urls: Sequence[str], count: "Synchronized[int]", parent: int) -> None:
    """Keeps this number of requests in flight, and counts the responses."""
    die_with_parent(parent, SIGKILL)
    following = cycle(urls)
    with closing(port.asking(places, False, library=True)) as requester:
        for place in range(places):
            requester.begin(place, next(following))
        while True:
            for place, answer in requester.ended(PATIENCE_NS):
                count.value += type(answer) is Response
                requester.begin(place, next(following))


WORKLOAD = HttpWorkload
