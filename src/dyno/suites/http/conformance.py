"""The conformance suite of the port `requests`. Nothing may be put here that depends on an engine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing

from dyno.contracts.equality import same
from dyno.contracts.model import Tier, Wrong
from dyno.http.multi import DIGEST
from dyno.suites.http.asked import every, judge
from dyno.suites.http.port import Requests

Opened = Callable[[str], AbstractContextManager[Requests]]
Check = Callable[[Opened, Tier | None], None]
BODIES = (b"", b"x", bytes(range(256)) * 40, bytes(300_000))


def _asked(port: Requests, fresh: bool) -> None:
    targets = port.publish(BODIES)
    urls = [target.url for target in targets] * 3
    with closing(port.asking(2, fresh)) as asking:
        answers = every(asking, 2, urls)
    for target, answer in zip([*targets] * 3, answers, strict=True):
        judge(target, answer)
        if answer.connects != 1 and fresh:
            raise Wrong(f"{target.url}: {answer.connects} connections for a request that was to have its own")


def kept(opened: Opened, tier: Tier | None) -> None:
    """What was published comes back, on connections that are kept."""
    with opened("kept") as port:
        _asked(port, fresh=False)


def fresh(opened: Opened, tier: Tier | None) -> None:
    """The same, each on a connection of its own."""
    with opened("fresh") as port:
        _asked(port, fresh=True)


def known(opened: Opened, tier: Tier | None) -> None:
    """What a target says of its body is true of what was published."""
    with opened("known") as port:
        for body, target in zip(BODIES, port.publish(BODIES), strict=False):
            told = (target.size, target.digest)
            if not same(told, (len(body), DIGEST(body).digest())) and not same(told, (None, None)):
                raise Wrong(f"{target.url}: it is said to be what it is not")


CHECKS: dict[str, Check] = {"known": known, "kept": kept, "fresh": fresh}
