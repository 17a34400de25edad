"""Tests that a sample with impossible figures is void, and that every possible one is accepted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dyno.fields import Sample
from dyno.runner.trial_report import impossible

MS, S = 10**6, 10**9
USED = {"user_ns": 900 * MS, "system_ns": 50 * MS}
GOOD = Sample(
    phase="p",
    unit="op",
    operations=1_000,
    items=1_000,
    elapsed_ns=S,
    busy_ns=900 * MS,
    errors=0,
    ended_by="count",
    checked=1_000,
    wall_ns=1_100 * MS,
    client=USED,
)


def why(cores: int = 2, **changed: Any) -> str | None:
    """Returns why a sample of two seconds is impossible in a trial of three seconds, or None."""
    return next(impossible(replace(GOOD, **changed), 2 * S, 3 * S, cores), None)


@pytest.mark.claim("No sample reports more than was possible")
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"clients": 4, "busy_ns": 4 * S},
        {"wall_ns": None, "client": None},
        {"bulk": True, "operations": 1, "items": 10**9, "bytes": 10**12},
        # These are the fastest possible figures.
        {"operations": 20_000_000, "items": 20_000_000},
        {"client": {"user_ns": 2 * S, "system_ns": 2 * S}},
        # A server's CPU time counts since the trial began.
        {"server": {"user_ns": 6 * S, "system_ns": None}},
        # A tool may round times to whole seconds.
        {"reported_by": "tool", "elapsed_ns": 2 * S, "busy_ns": 2 * S},
        {"items": 0, "operations": 1, "elapsed_ns": 0, "busy_ns": 0},
        # Discarded pages reduce the written bytes.
        {"written_bytes": -4096},
    ],
)
def test_possible_figures_are_accepted(changed: dict[str, Any]) -> None:
    assert why(**changed) is None


@pytest.mark.claim("No sample reports more than was possible")
@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"wall_ns": 3 * S}, "it took 3 s, but only 2 s passed"),
        ({"elapsed_ns": 2 * S}, "measured 2 s, but only 1.1 s passed"),
        ({"wall_ns": None, "elapsed_ns": 3 * S}, "measured 3 s, but only 2 s passed"),
        ({"busy_ns": 1_200 * MS}, "the engine took 1.2 s of 1 s"),
        ({"clients": 2, "busy_ns": 3 * S}, "the engine took 3 s of 2 s"),
        ({"operations": 2 * S}, "2,000,000,000 operations do not fit into 1 s"),
        ({"items": 5 * 10**23}, "500,000,000,000,000,000,000,000 ops do not fit into 1 s"),
        ({"bulk": True, "operations": 1, "items": 10**14}, "100,000,000,000,000 ops do not fit into 1 s"),
        ({"elapsed_ns": 0, "busy_ns": 0}, "1,000 operations do not fit into 0 s"),
        ({"client": {"user_ns": 5 * S, "system_ns": 0}}, "the client used 5 s of CPU time, but 2 cores had 4 s"),
        ({"server": {"user_ns": 7 * S}}, "the server used 7 s of CPU time, but 2 cores had 6 s"),
        ({"operations": -1}, "operations is -1"),
        ({"elapsed_ns": -S}, "elapsed_ns is -1000000000"),
        ({"bytes": -1}, "bytes is -1"),
        ({"reported_by": "tool", "elapsed_ns": 4 * S}, "measured 4 s, but only 1.1 s passed"),
    ],
)
def test_impossible_figures_are_rejected_with_a_reason(changed: dict[str, Any], told: str) -> None:
    assert why(**changed) == told
