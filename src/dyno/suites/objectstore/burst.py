"""A burst, and how long a store takes to come back from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from time import perf_counter_ns as now
from time import sleep
from typing import Any

from dyno.suites.objectstore.params import TENTH, TENTHS
from dyno.suites.objectstore.port import Bucket, Requester, StoreRequest, StoreResponse

STEADY = 10
"""Probes that are served one after the other before a store is said to have recovered: with the first of them."""
BETWEEN_SECONDS = 0.01


class Begun:
    """See `Requester`: notes when the first request of it began."""

    def __init__(self, asking: Requester) -> None:
        self._asking = asking
        self.at: int | None = None
        self.ended, self.close = asking.ended, asking.close

    def begin(self, place: int, argument: Any) -> None:
        if self.at is None:
            self.at = now()
        self._asking.begin(place, argument)


def recovery(port: Bucket, ask: StoreRequest, begun_ns: int, patience: float) -> float | None:
    """Seconds from the start of a burst to the first of some probes in a row that are served, made one by one, each
    on a connection of its own; None where they were not within the time."""
    served, first = 0, 0
    with closing(port.asking(1, True)) as asking:
        while now() - begun_ns < patience * 1e9:
            asked = now()
            asking.begin(0, ask)
            done = asking.ended(round(patience * 1e9))
            if not done:
                return None
            if type(done[0][1]) is not StoreResponse:
                served = 0
            else:
                first, served = (asked, 1) if not served else (first, served + 1)
            if served == STEADY:
                return (first - begun_ns) / 1e9
            sleep(BETWEEN_SECONDS)
    return None


def by_tenth(answers: Sequence[Any]) -> Mapping[str, Sequence[int]]:
    """The latencies in ns of those that were served, by the tenth of the burst in which they were sent."""
    found: dict[str, list[int]] = {}
    for place, answer in enumerate(answers):
        if type(answer) is StoreResponse:
            found.setdefault(TENTH[place * TENTHS // len(answers)], []).append(answer.total_ns)
    return found
