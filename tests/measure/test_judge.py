"""The operations that break a limit are counted one by one, compared with a plain loop over all of them."""

from __future__ import annotations

import numpy as np

from dyno.contracts.limits import parse_all
from dyno.contracts.pace import Pace
from dyno.measure.tally import ALL, Tally

LIMITS = {limit.text: limit.latency_ns for limit in parse_all(["p99<1.5ms", "p50<1ms", "errors<1%"])}
SETTLING_NS = 1_000_000_000
PACE = Pace(rate=1000.0, limits=LIMITS, settling_ns=SETTLING_NS)


def test_operations_breaking_a_limit_are_counted_exactly() -> None:
    random = np.random.default_rng(1)
    due = np.sort(random.integers(0, 5 * SETTLING_NS, 10_000))
    responses = random.exponential(1e6, 10_000).astype(np.int64)
    # Edges: a response as long as the limit keeps it, and an operation that is due when counting begins counts.
    due[0], responses[0], responses[1] = SETTLING_NS, 1_500_000, 1_500_001
    due[1] = SETTLING_NS
    good = random.random(10_000) > 0.02
    one, other = Tally(), Tally()
    one.judge(PACE, due[:3_000], responses[:3_000], good[:3_000])
    other.judge(PACE, due[3_000:], responses[3_000:], good[3_000:])
    other.judge_unstarted(PACE, 7)
    one.merge(other)
    counted = [(r, g) for d, r, g in zip(due, responses, good, strict=True) if d >= SETTLING_NS]
    assert one.judged == len(counted) + 7
    assert one.broken == {
        text: 7 + sum(not g or (most is not None and r > most) for r, g in counted) for text, most in LIMITS.items()
    }


def test_limits_are_judged_when_all_operations_succeed() -> None:
    tally = Tally()
    tally.judge(PACE, np.array([SETTLING_NS, 2 * SETTLING_NS]), np.array([1, 2_000_000]), ALL)
    assert (tally.judged, tally.broken) == (2, {"p99<1.5ms": 1, "p50<1ms": 1, "errors<1%": 0})
