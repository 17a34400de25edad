"""`dyno capacity` as a shell runs it, on an engine whose operations only take time."""

from __future__ import annotations

import json
import random
import signal

import pytest
from shell import Shell, is_one_line, wait_for

from dyno import results
from dyno.results.probes import by_block, maximum, probe
from dyno.runner.search import Step, next_step
from dyno.stats.capacity import capacity

pytestmark = pytest.mark.usefixtures("processes")

QUEUE = "synthetic:wait_us=200+exponential=true"
"""A queue M/M/1 that serves 5,000 operations a second."""
BRIEF = ("--duration", "0.2", "--warmup", "0.05", "--confirm", "0.3", "--phases", "work")


def search(shell: Shell, engine: str, *limits: str) -> tuple[str, ...]:
    words = [word for limit in limits for word in ("--limit", limit)]
    return ("capacity", "selftest", "-e", engine, *words, *BRIEF, "-o", str(shell.file))


def searched_as_recorded(shell: Shell) -> int:
    """Checks that each probe of the run file is the one that the search asks for after those before it. Returns the
    number of probes."""
    run = results.load(shell.file)
    (closed,), attempts = by_block(run.attempts)
    probes = [probe(each, run.limits, lambda sample: False) for each in attempts]
    for at, attempt in enumerate(attempts):
        step = next_step(run.limits, maximum(closed) or 0.0, probes[:at], capacity, seed=run.plan.seed)
        assert isinstance(step, Step)
        assert (step.stage, step.rate) == (attempt.stage, attempt.rate)
    return len(probes)


def test_interrupted_search_resumes_with_the_same_probes(shell: Shell) -> None:
    command = search(shell, QUEUE, "p50<1ms", "errors<50%")
    with shell.started(*command) as process:
        assert wait_for(lambda: shell.trial_lines() >= random.Random(7).randint(2, 5)), process.poll()
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    before = shell.file.read_text()
    status, out, err = shell.dyno(*command, "--resume")
    assert status in (0, 1), err
    assert "p50 < 1ms and errors < 50%" in out and "poisson" in out
    over = shell.file.read_text()
    assert over.startswith(before) and json.loads(over.splitlines()[0])["schema"] == 4
    assert searched_as_recorded(shell) >= 5
    first, *others = results.load(shell.file).attempts
    assert first.rate is None and all(each.rate and each.stage for each in others)
    for each in others:
        (sample,) = each.samples
        assert (sample.due or 0) >= (sample.judged or 0) >= sample.broken["p50<1ms"] >= sample.broken["errors<50%"]
    # Other commands have the same figure.
    (cell,) = shell.shown()["cells"]
    rate = cell["throughput"]["median"] if cell["valid"] else None
    assert rate == (cell["capacity"]["per_second"] if cell["valid"] else None)
    # A search that is over has no further probes.
    assert shell.dyno(*command, "--resume").status == status
    assert shell.file.read_text() == over


def test_limit_that_never_holds_ends_early(shell: Shell) -> None:
    status, out, err = shell.dyno(*search(shell, "synthetic", "p50<1ns"))
    assert status == 0 and "none" in out, err
    assert searched_as_recorded(shell) <= 5


def test_limit_that_always_holds_has_a_price(shell: Shell) -> None:
    prices = shell.home / "prices.toml"
    prices.write_text("load = 1_000_000\n[prices.synthetic]\nmonth = 5\n")
    status, out, err = shell.dyno(*search(shell, "synthetic:wait_us=500", "p50<900s"), "--prices", prices)
    assert status == 0 and "machines" in out and "at least" in out, out + err
    assert searched_as_recorded(shell) <= 5
    capacity = shell.shown()["cells"][0]["capacity"]
    assert 0 < capacity["wall_s"] < capacity["bound_s"] and capacity["forecast_s"] > 0


def test_a_probe_is_killed_at_the_timeout(shell: Shell) -> None:
    command = search(shell, "synthetic:wait_us=5000000", "p50<900s")
    status, _, err = shell.dyno(*command, "--timeout", "1")
    assert status == 3, err
    run = results.load(shell.file)
    assert [each.outcome for each in run.attempts] == ["timeout"] * 3
    assert all(each.why == "not done after 1 s" for each in run.attempts)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--timeout", "60"), "give at least 125"),
        (("--within", "60"), "within 60: 1 search of 17 probes need"),
        (("--within", "0.1"), "within"),
    ],
)
def test_search_that_exceeds_time_limits_is_refused(shell: Shell, words: tuple[str, ...], why: str) -> None:
    status, out, err = shell.dyno("capacity", "selftest", "-e", "synthetic", "--limit", "p99<5ms", *words)
    assert (status, out) == (2, "") and is_one_line(err) and why in err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "--limit"),
        (("--limit", "p99"), "p99<5ms"),
        (("--limit", "p99<5ms", "--limit", "p99<6ms"), "p99 has a limit"),
        (("--limit", "p99<5ms", "-p", "rate=5"), "rate"),
    ],
)
def test_invalid_limits_are_a_one_line_error(shell: Shell, words: tuple[str, ...], why: str) -> None:
    status, out, err = shell.dyno("capacity", "selftest", "-e", "synthetic", *words)
    assert (status, out) == (2, "") and is_one_line(err) and why in err
    assert not list(shell.home.glob("*.json"))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("records", "-e", "memory"), "--phases"),
        (("records", "-e", "memory", "--phases", "insert", "-p", "txn=all"), "insert"),
        (("cpu",), "primes"),
    ],
)
def test_phase_without_open_loop_rate_is_refused(shell: Shell, words: tuple[str, ...], why: str) -> None:
    status, out, err = shell.dyno("capacity", *words, "--limit", "p99<5ms")
    assert (status, out) == (2, "") and is_one_line(err) and why in err
