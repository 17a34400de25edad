"""No figure exceeds what was possible, with several clients and at a rate, on the wall clock.

The engines are turnstiles: operations pass one at a time and take 5 ms each, and checking an answer takes 5 ms. So
200 operations per second are the maximum, whatever the number of clients and the speed of the machine.
"""

from __future__ import annotations

from typing import Any

import pytest
from shell import TESTS, Shell

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.serial]

HOLD_NS = 5_000_000
MOST = 1e9 / HOLD_NS
ENGINES = "turnstile-threads,turnstile-processes"


def samples(shell: Shell, *words: object) -> list[tuple[str, dict[str, Any]]]:
    """Engine and sample of every trial, without null engines."""
    shell.plugins = [TESTS / "plugins" / "turnstile"]
    status, _, err = shell.dyno("run", "turnstile", "-e", ENGINES, "--samples", "1", *words, "-o", shell.file)
    assert status == 0, err
    results = [(name, t["samples"][0]) for name in ENGINES.split(",") for t in shell.attempts(name)]
    assert all(sample["void"] is None and sample["errors"] == 0 for _, sample in results)
    return results


@pytest.mark.claim("No figure of several clients is higher than what was possible")
def test_several_clients_never_outrun_a_serial_engine(shell: Shell) -> None:
    results = samples(shell, "--clients", "1,2,4", "-p", "operations=60")
    assert len(results) == 6
    for name, sample in results:
        assert sample["operations"] == sample["checked"] == 60, name
        # Operations run one after the other, so less time is impossible.
        assert sample["elapsed_ns"] >= 60 * HOLD_NS, (name, sample["clients"])
        assert sample["wall_ns"] >= sample["elapsed_ns"]


@pytest.mark.claim("No figure of several clients is higher than what was possible")
def test_reported_throughput_of_several_clients_is_possible(shell: Shell) -> None:
    samples(shell, "--clients", "2", "-p", "operations=40")
    rates = [cell["throughput"]["median"] for cell in shell.shown()["cells"] if not cell["floor"]]
    assert len(rates) == 2 and all(0 < rate <= MOST for rate in rates)


@pytest.mark.claim("An offered rate holds on the wall clock")
@pytest.mark.parametrize("arrivals", ["uniform", "poisson"])
def test_a_rate_holds_on_the_wall_clock(shell: Shell, arrivals: str) -> None:
    """The schedule continues while answers are checked, although the checks take three times as long as the
    operations.
    """
    words = ("--rate", 100, "--arrivals", arrivals, "-p", "operations=60", "-p", "check_us=15000")
    for name, sample in samples(shell, "--clients", "1,2", *words):
        # The difference is the sum of all pauses between the first operation and the last.
        assert sample["wall_ns"] - sample["elapsed_ns"] <= 0.01 * sample["elapsed_ns"] + 5_000_000, name
        assert sample["due"] == sample["operations"] == 60
        if arrivals == "uniform":
            # The last of 60 operations is due after 600 ms.
            assert sample["wall_ns"] >= 600_000_000


@pytest.mark.claim("A rate that was not reached is an overload")
def test_rate_beyond_capacity_is_an_overload(shell: Shell) -> None:
    samples(shell, "--rate", 1000, "--budget", 0.5, "-p", "operations=600")
    for cell in shell.shown()["cells"]:
        if not cell["floor"]:
            assert "overload" in [doubt["code"] for doubt in cell["doubts"]]
            assert cell["operations"] / cell["elapsed_ns"] * 1e9 <= MOST
            # About 500 were due in half a second, and at most 100 could be served.
            assert cell["due"] >= 490 and cell["operations"] <= 101
