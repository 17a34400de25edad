"""One slice through a loop: its transaction around it, its stamps as arrays afterwards."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dyno.measure.loops import Loop, resolved
from dyno.suite import Failure, Operations

Times = NDArray[np.int64]


class Timed(NamedTuple):
    """What a loop saw. Times in ns."""

    answers: list[Any]
    starts: Times
    """When each operation began, since the slice did."""
    ends: Times
    failures: list[Failure]
    transaction_ns: int
    """Entering and leaving the transaction around the slice: the engine's time, and in no span."""
    elapsed_ns: int
    """From before `around` is entered to after it is left: every span, the loop's own time between spans, waiting
    for what is due, and transaction_ns."""
    out_of_time: bool
    entered_ns: int
    """When the transaction had been entered, since the slice began: no operation was free to start before."""


def timed(loop: Loop, work: Operations, budget_ns: int, due: Times | None = None) -> Timed:
    """Runs a slice. `due`: when each operation is to begin, in ns since the slice did; negative is overdue."""
    failures: list[Failure] = []

    def failed(error: Exception) -> Failure:
        failures.append(Failure.of(error))
        return failures[-1]

    arguments, now = tuple(work.arguments), loop.now
    begin = now()
    with work.around() as entered:
        inside = now()
        calls = tuple(work.calls(entered))
        if due is None:
            answers, stamps = loop.closed(calls, arguments, begin + budget_ns, failed)
        else:
            answers, stamps = loop.paced(calls, arguments, due + begin, begin + budget_ns, failed)
        leaving = now()
    over = now()
    starts, ends = resolved(stamps)
    return Timed(
        answers,
        starts - begin,
        ends - begin,
        failures,
        transaction_ns=inside - begin + over - leaving,
        elapsed_ns=over - begin,
        out_of_time=len(answers) < len(arguments),
        entered_ns=inside - begin,
    )
