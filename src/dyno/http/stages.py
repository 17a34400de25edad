"""The stages of a request, of the moments that libcurl tells. Nothing is asked of libcurl here.

    lookup    the name is resolved                            namelookup
    tcp       the connection is made                          connect - namelookup
    tls       the handshake; none without TLS                 appconnect - connect
    send      the request is made and sent                    posttransfer - the one before
    wait      until the first byte of the response            starttransfer - posttransfer
    transfer  from the first byte to the last                 total - starttransfer

Together they are the total. On a connection that was there before, the first three are None: nothing of the kind was
done. libcurl's documentation, "curl_easy_getinfo", section TIMES.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

STAGES = ("lookup", "tcp", "tls", "send", "wait", "transfer")
CONNECTING = STAGES[:3]
TICK_US = 1
"""What libcurl's clock tells apart."""
FINE_US = 10 * TICK_US
"""A stage that is shorter is known to no better than 10 %."""
MICRO = 1e6
COARSE = f"under {FINE_US} µs, too fine for libcurl's clock, which has whole µs"


class Moments(NamedTuple):
    """In µs from the start of a request, as libcurl tells them: 0 for what was not reached, None for what it does not
    tell."""

    namelookup: int | None
    connect: int
    appconnect: int
    pretransfer: int
    posttransfer: int
    starttransfer: int
    total: int


def stages(at: Moments, secure: bool, fresh: bool, failed: bool = False) -> dict[str, int | None]:
    """Each stage's time in µs; None for what was not done. Of a request that failed, the stage in which it did lasts
    until then."""
    marks = {
        "lookup": at.namelookup if fresh else None,
        "tcp": at.connect if fresh else None,
        "tls": at.appconnect if fresh and secure else None,
        "send": at.posttransfer,
        "wait": at.starttransfer,
        "transfer": at.total,
    }
    found: dict[str, int | None] = dict.fromkeys(STAGES)
    before = 0
    for name, mark in marks.items():
        if mark is None:
            continue
        if failed and not mark:
            found[name] = at.total - before
            break
        # A response may begin before all of the request is sent.
        reached = min(max(mark, before), at.total)
        found[name], before = reached - before, reached
    return found


def fine(spent: Iterable[Mapping[str, int | None]]) -> list[str]:
    """The stages that libcurl's clock is too coarse for, in their order."""
    short = {name for one in spent for name, us in one.items() if us is not None and us < FINE_US}
    return [name for name in STAGES if name in short]
