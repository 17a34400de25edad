"""Requests that are made beforehand, untimed: to look at what comes, or so that connections are there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyno.answers import same, shorten
from dyno.http.multi import DIGEST, Response
from dyno.model import Wrong
from dyno.suites.http.port import Asking, Target

PATIENCE_NS = 120_000_000_000


def every(asking: Asking, places: int, urls: Sequence[str]) -> list[Any]:
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


def digest_of(answer: Any) -> bytes:
    """Of the body of a response. Raises Wrong for a request that failed."""
    if type(answer) is not Response:
        raise Wrong(f"a request failed: {shorten(answer)}")
    return answer.digest or DIGEST(answer.body or b"").digest()


def judge(target: Target, answer: Any) -> int:
    """How many bodies were compared with what they must be. Raises Wrong where one is another, and for a request that
    failed."""
    digest = digest_of(answer)
    if target.size is not None and not same(answer.size, target.size):
        raise Wrong(f"{target.url}: {answer.size} bytes came, of {target.size}")
    if target.digest is not None and not same(digest, target.digest):
        raise Wrong(f"{target.url}: a body that is another")
    return int(target.digest is not None)
