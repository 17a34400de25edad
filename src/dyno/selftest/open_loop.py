"""An open loop, and a stall in it."""

from __future__ import annotations

from pathlib import Path

from dyno.contracts.histogram import percentiles
from dyno.selftest import Verdict
from dyno.selftest.trials import trials

RATE, SECONDS = 1_000, 10
STALL_MS, AFTER = 1_000, 3_000
NEAR = 0.1
BLIND_MS = 100


def stall(work: Path) -> Verdict:
    """One operation of 10,000 takes a second longer. At 1,000 a second, a thousand others wait for it.

    The one that is due k ms after it waits for 1,000 - k ms, and so the 100th longest wait of 10,000, which is the
    p99, is 900 ms. By service time alone a single operation was slow.
    """
    engine = f"synthetic:stall_ms={STALL_MS}+stall_after={AFTER}"
    run = trials(work, "stall", [engine], rate=[RATE], duration=SECONDS, samples=1)
    (sample,) = run.attempts[-1].samples
    response, service = percentiles([sample.response])["p99"], percentiles([sample.histogram])["p99"]
    if response is None or service is None:
        return Verdict(False, "no response times were recorded")
    expected_ms = STALL_MS - SECONDS * RATE / 100 * 1_000 / RATE
    found_ms, blind_ms = response / 1e6, service / 1e6
    passed = abs(found_ms - expected_ms) <= NEAR * expected_ms and blind_ms < BLIND_MS
    text = f"p99 of the response time is {found_ms:.0f} ms, by calculation {expected_ms:.0f} ms;"
    text += f" that of the service time, all that a closed loop sees, is {blind_ms:.3g} ms"
    return Verdict(passed, text, {"response_p99_ns": response, "service_p99_ns": service})
