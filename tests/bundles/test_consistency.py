"""Tests which samples contradict themselves, by the time that their operations took together."""

from __future__ import annotations

from typing import Any

import pytest
from madeup import a_cell, a_sample, an_attempt, of_cells, repeated

from dyno.bundles import consistency

MS = 1_000_000


def checked(cell: Any, **sample: Any) -> None:
    """Ten operations of 1 ms each."""
    ten: dict[str, Any] = {"operations": 10, "items": 10, "clients": 1, "histogram": repeated(MS, 10)}
    consistency.check(of_cells(cell, attempts=(an_attempt(0, a_sample(**ten, **sample), duration_ns=60 * 10**9),)))


@pytest.mark.parametrize(
    ("params", "sample"),
    [
        ({}, {"elapsed_ns": 11 * MS, "busy_ns": 10 * MS}),
        ({"inflight": 1}, {"elapsed_ns": 11 * MS, "busy_ns": 9 * MS}),
        ({"inflight": 8}, {"elapsed_ns": 2 * MS, "busy_ns": MS}),
        ({}, {"elapsed_ns": 2 * MS, "busy_ns": 2 * MS, "reported_by": "fio"}),
        ({}, {"elapsed_ns": 2 * MS, "busy_ns": 2 * MS, "load": "native"}),
    ],
    ids=["one by one", "one in flight", "eight in flight", "by a program", "native load"],
)
def test_possible_sums_of_operation_times_are_accepted(params: Any, sample: Any) -> None:
    checked(a_cell(**params), **sample)


def test_sequential_operations_exceeding_client_time_are_refused() -> None:
    with pytest.raises(ValueError, match="add up to more than its time"):
        checked(a_cell(), elapsed_ns=11 * MS, busy_ns=9 * MS)
