"""Checks by real trials of the self-test suite, with plan, parent, worker and run file as in `dyno run`."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from dyno.contracts.histogram import percentiles
from dyno.options import RunRequest
from dyno.results import Run
from dyno.runner import parent, plan
from dyno.selftest import CheckResult
from dyno.stats.compare import ratios
from dyno.stats.doubts import doubts
from dyno.stats.estimate import CONFIDENCE, FEWEST_TRIALS, center, make_interval
from dyno.stats.summary import summarize

PHASE = "work"
RATE, SECONDS = 1_000, 10
STALL_MS, AFTER = 1_000, 3_000
NEAR = 0.1
BLIND_MS = 100
BLOCKS, MOST_RUNS = 8, 4
NARROW = 0.04
"""Blocks are added until the interval's half width is at most this, since a busy machine needs more of them."""
OPERATIONS = 50_000
PLANTED_PERCENT = 10
LEAST, MOST = 0.05, 0.15
"""Half and one and a half times the planted slowdown: limits for the measured one."""
ALIKE = 0.03
BUSY_TRIALS = 3
"""Only the busiest trial counts: in the others, further processes may have taken the client's core."""
BASE = "synthetic"
AGAIN = "synthetic:slower=0"
SLOWER = f"synthetic:slower={PLANTED_PERCENT}"


def run_trials(work: Path, name: str, engines: Sequence[str], **options: Any) -> Run:
    """Runs these engines without the floor. Raises RuntimeError if a trial fails."""
    made = plan.make(RunRequest("selftest", engines=engines, **options))
    made = replace(made, cells=tuple(cell for cell in made.cells if not cell.floor))
    run = parent.execute(made, work / f"{name}.json", work, overwrite=True)
    for attempt in run.final():
        if attempt.outcome != "ok":
            raise RuntimeError(f"a trial ended in {attempt.outcome}: {attempt.why}")
    return run


def stall(work: Path) -> CheckResult:
    """Stalls one operation of 10,000 for a second. At 1,000 operations a second, a thousand others wait for it.

    The operation that is due k ms later waits for 1,000 - k ms. So the 100th longest wait of 10,000, which is the
    p99, is 900 ms. By service time, only a single operation is slow.
    """
    engine = f"synthetic:stall_ms={STALL_MS}+stall_after={AFTER}"
    run = run_trials(work, "stall", [engine], rate=[RATE], duration=SECONDS, samples=1)
    (sample,) = run.attempts[-1].samples
    response, service = percentiles([sample.response])["p99"], percentiles([sample.histogram])["p99"]
    if response is None or service is None:
        return CheckResult(False, "no response times were recorded")
    expected_ms = STALL_MS - SECONDS * RATE / 100 * 1_000 / RATE
    response_ms, service_ms = response / 1e6, service / 1e6
    passed = abs(response_ms - expected_ms) <= NEAR * expected_ms and service_ms < BLIND_MS
    text = f"p99 of the response time is {response_ms:.0f} ms, by calculation {expected_ms:.0f} ms;"
    text += f" that of the service time, all that a closed loop sees, is {service_ms:.3g} ms"
    return CheckResult(passed, text, {"response_p99_ns": response, "service_p99_ns": service})


class Ratio(NamedTuple):
    median: float
    low: float
    high: float
    blocks: int


def check_equal_engines(work: Path) -> CheckResult:
    """Compares an engine with itself. By chance one interval in twenty excludes 1, so the check fails only if the
    interval is more than 3 % away from 1."""
    ratio = _compare(work, AGAIN)
    differs = ratio.high < 1 - ALIKE or ratio.low > 1 + ALIKE
    # A wide interval could hide a difference.
    alike = not differs and ratio.high - ratio.low <= 2 * LEAST
    return _verdict(alike, differs, ratio, "A against A")


def slower(work: Path) -> CheckResult:
    """Compares an engine with a copy that does 10 % more work, which must show with the right size."""
    ratio = _compare(work, SLOWER)
    right = ratio.high < 1 and LEAST <= 1 / ratio.median - 1 <= MOST
    missed = ratio.low > 1 / (1 + LEAST) or ratio.high < 1 / (1 + MOST)
    return _verdict(right, missed, ratio, f"{PLANTED_PERCENT} % more work")


def _compare(work: Path, engine: str) -> Ratio:
    """Returns an engine's throughput relative to the base. Raises RuntimeError if too few blocks have samples."""
    by_block: list[float] = []
    for _ in range(MOST_RUNS):
        run = run_trials(work, "pairs", [BASE, engine], samples=BLOCKS, params={"operations": [OPERATIONS]})
        by_block += ratios(run, PHASE, engine, BASE)
        if len(by_block) < FEWEST_TRIALS:
            raise RuntimeError("too few blocks have a sample of both")
        estimate = make_interval(median(by_block), center(by_block), CONFIDENCE)
        ratio = Ratio(estimate.median, estimate.low or 0.0, estimate.high or math.inf, len(by_block))
        if ratio.high - ratio.low <= 2 * NARROW:
            break
    return ratio


def _verdict(right: bool, wrong: bool, ratio: Ratio, what: str) -> CheckResult:
    """Returns the result of a comparison. If it is neither right nor wrong, the interval is too wide, which is the
    machine's fault and not Dyno's."""
    text = f"{what}: {ratio.median:.3f} of the throughput,"
    text += f" 95 % interval {ratio.low:.3f} to {ratio.high:.3f}, from {ratio.blocks} blocks"
    passed = None
    if right or wrong:
        passed = right
    else:
        text += "; this machine is too busy to tell, dyno doctor says more"
    return CheckResult(passed, text, {"ratio": ratio.median, "low": ratio.low, "high": ratio.high})


def client(work: Path) -> CheckResult:
    """Measures two servers that do nothing: one has a client that computes all the time, one a client that waits."""
    runs = (
        run_trials(work, "busy", ["synthetic:server=yes"], samples=BUSY_TRIALS),
        run_trials(work, "waiting", ["synthetic:server=yes+wait_us=1000"], samples=1, params={"operations": [200]}),
    )
    busy, waiting = (
        any(doubt.code == "client" for row in summarize(run) for doubt in doubts(row, run)) for run in runs
    )
    text = f"a client that computes all the time is {'' if busy else 'not '}noticed,"
    text += f" one that waits is {'' if waiting else 'not '}suspected"
    return CheckResult(busy and not waiting, text)
