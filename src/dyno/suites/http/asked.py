"""Requests that are made beforehand, untimed: to look at what comes, or so that connections are there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyno.contracts.equality import same, shorten
from dyno.contracts.model import Refused, Wrong
from dyno.http.multi import DIGEST, RequestFailed, Response, StatusError
from dyno.suites.http.port import Requester, Target
from dyno.text.passwords import mask_password

PATIENCE_NS = 120_000_000_000
REMEDIES = {
    5: "check the name of the proxy",
    6: "check the name of the host",
    7: "check the host and the port, and whether the server is running",
    28: "raise the parameter patience, or check the host and the port",
    35: "check whether the port speaks TLS",
    60: "set SSL_CERT_FILE to a file with its certificate, or accept any certificate with the option insecure=yes",
}
"""What to do when there is no connection, by libcurl's error number."""


def every(asking: Requester, places: int, urls: Sequence[str]) -> list[Any]:
    """All of them, with up to so many under way at once; the answers, in their order. Raises Wrong where one does not
    come."""
    free, answers, held, at = list(range(places)), [None] * len(urls), dict[int, int](), 0
    while at < len(urls) or held:
        while free and at < len(urls):
            held[free[-1]] = at
            asking.begin(free.pop(), urls[at])
            at += 1
        done = asking.ended(PATIENCE_NS)
        if not done:
            raise Wrong(f"{len(held)} requests were not answered")
        for place, answer in done:
            answers[held.pop(place)] = answer
            free.append(place)
    return answers


def connected(target: Target, answer: Any) -> None:
    """Raises Refused, with the remedy, if the request had no connection to the server."""
    if type(answer) is RequestFailed and answer.number in REMEDIES:
        raise Refused(f"{mask_password(target.url)}: {answer}: {REMEDIES[answer.number]}")


def digest_of(target: Target, answer: Any) -> bytes:
    """Digest of the body of a response. Raises Refused if the request had no connection or was answered with an error
    status, and Wrong if it failed in another way."""
    connected(target, answer)
    if type(answer) is StatusError:
        raise Refused(f"{mask_password(target.url)}: {answer}: only responses with a status under 400 are measured")
    if type(answer) is not Response:
        raise Wrong(f"{mask_password(target.url)}: a request failed: {shorten(answer)}")
    return answer.digest or DIGEST(answer.body or b"").digest()


def judge(target: Target, answer: Any) -> int:
    """How many bodies were compared with what they must be. Raises Wrong if one differs, and if the request failed as
    `digest_of` does."""
    digest = digest_of(target, answer)
    if target.size is not None and not same(answer.size, target.size):
        raise Wrong(f"{mask_password(target.url)}: {answer.size} bytes came, of {target.size}")
    if target.digest is not None and not same(digest, target.digest):
        raise Wrong(f"{mask_password(target.url)}: a body that is another")
    return int(target.digest is not None)
