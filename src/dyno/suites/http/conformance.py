"""Conformance checks of the port `requests`, and checks of single responses."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from dyno.contracts.equality import same, shorten
from dyno.contracts.model import Refused, Tier, Wrong
from dyno.contracts.passwords import mask_password
from dyno.contracts.suite import Opened, by_name
from dyno.http.multi import DIGEST, RequestFailed, Response, StatusError
from dyno.suites.http import Requester, Requests, Target

BODIES = (b"", b"x", bytes(range(256)) * 40, bytes(300_000))
PATIENCE_NS = 120_000_000_000
REMEDIES = {
    5: "check the name of the proxy",
    6: "check the name of the host",
    7: "check the host and the port, and whether the server is running",
    28: "raise the parameter patience, or check the host and the port",
    35: "check whether the port speaks TLS",
    60: "set SSL_CERT_FILE to a file with its certificate, or accept any certificate with the option insecure=yes",
}
"""Remedies for requests that got no connection, by libcurl's error number."""


# -- single responses ---------------------------------------------------------------------------------------


def request_all(requester: Requester, places: int, urls: Sequence[str]) -> list[Any]:
    """Requests all URLs, with up to `places` requests in flight. Returns the answers in the order of the URLs. Raises
    Wrong if an answer is missing."""
    free, answers, in_flight, at = list(range(places)), [None] * len(urls), dict[int, int](), 0
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


def check_connection(target: Target, answer: Any) -> None:
    """Raises Refused, with a remedy, if the request got no connection to the server."""
    if type(answer) is RequestFailed and answer.number in REMEDIES:
        raise Refused(f"{mask_password(target.url)}: {answer}: {REMEDIES[answer.number]}")


def digest_of(target: Target, answer: Any) -> bytes:
    """Returns the digest of a response's body. Raises Refused if the request got no connection or an error status,
    and Wrong for other failures."""
    check_connection(target, answer)
    if type(answer) is StatusError:
        raise Refused(f"{mask_password(target.url)}: {answer}: only responses with a status under 400 are measured")
    if type(answer) is not Response:
        raise Wrong(f"{mask_password(target.url)}: a request failed: {shorten(answer)}")
    return answer.digest or DIGEST(answer.body or b"").digest()


def check_body(target: Target, answer: Any) -> int:
    """Compares a body. Returns the number of compared bodies. Raises Wrong if the body differs. If the request
    failed, raises the exceptions of `digest_of`."""
    digest = digest_of(target, answer)
    if target.size is not None and not same(answer.size, target.size):
        raise Wrong(f"{mask_password(target.url)}: the body has {answer.size} bytes, expected {target.size}")
    if target.digest is not None and not same(digest, target.digest):
        raise Wrong(f"{mask_password(target.url)}: the body is another one than expected")
    return int(target.digest is not None)


# -- the suite ----------------------------------------------------------------------------------------------


def _check_bodies(port: Requests, fresh: bool) -> None:
    targets = [*port.publish(BODIES)] * 3
    with closing(port.asking(2, fresh)) as requester:
        answers = request_all(requester, 2, [target.url for target in targets])
    for target, answer in zip(targets, answers, strict=True):
        check_body(target, answer)
        if answer.connects != 1 and fresh:
            raise Wrong(f"{target.url}: {answer.connects} connections for a request, expected 1")


def kept(opened: Opened[Requests], tier: Tier | None) -> None:
    """Published bodies come back, on connections that are kept."""
    with opened("kept") as port:
        _check_bodies(port, fresh=False)


def fresh(opened: Opened[Requests], tier: Tier | None) -> None:
    """Published bodies come back, each on a new connection."""
    with opened("fresh") as port:
        _check_bodies(port, fresh=True)


def known(opened: Opened[Requests], tier: Tier | None) -> None:
    """A target has the size and digest of the published body, or neither."""
    with opened("known") as port:
        for body, target in zip(BODIES, port.publish(BODIES), strict=False):
            got = (target.size, target.digest)
            if not same(got, (len(body), DIGEST(body).digest())) and not same(got, (None, None)):
                raise Wrong(f"{target.url}: the target has another size or digest than the published body")


CHECKS = by_name(known, kept, fresh)
