"""Runs the suite series on clusters of real nodes. These are long runs: several nodes are Java servers and take
minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from needed import require
from shell import Shell

from dyno import registry

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.soak, pytest.mark.timeout(3_000)]
FEW = ("-p", "variables=100", "-p", "per_half_hour=600", "-p", "batch=500")
SAMPLES = 100 * 600
PATIENT = ("--samples", 1, "--budget", 300, "--timeout", 1_800)


@pytest.fixture
def shell(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setattr("shell.PATIENCE", 3_000.0)
    return shell


@pytest.fixture(autouse=True)
def nothing_is_left(shell: Shell) -> Iterator[None]:
    require(registry.engine("cassandra").reduce_to_port("series"))
    yield
    assert shell.strays() == [], "no process of any node"


def run(shell: Shell, *words: object) -> list[dict[str, Any]]:
    ended = shell.dyno("run", "series", *FEW, *words, *PATIENT, "-o", shell.file)
    assert ended.status == 0, ended.out + ended.err
    return [
        sample for engine in ("cassandra", "sqlite") for line in shell.attempts(engine) for sample in line["samples"]
    ]


def test_three_node_cluster_matches_digest_of_other_engines(shell: Shell) -> None:
    results = run(shell, "-e", "cassandra:nodes=3,sqlite", "--phases", "insert,extract-all-cold,latest-hot")
    assert len({sample["facts"]["digest"] for sample in results if "digest" in sample["facts"]}) == 1
    assert all(sample["checked"] and not sample["void"] for sample in results if sample["facts"])


def test_samples_acknowledged_by_two_nodes_survive_node_loss(shell: Shell) -> None:
    (sample,) = run(shell, "-e", "cassandra:nodes=3", "--phases", "insert", "-p", "kill_percent=50")
    assert not sample["void"], sample["void"]
    assert sample["facts"]["lost_samples"] == 0
    assert 0 < sample["facts"]["acknowledged_samples"] <= SAMPLES
    assert sample["series"], "throughput over time, through the failure"


def test_lost_samples_acknowledged_by_one_node_are_counted(shell: Shell) -> None:
    (sample,) = run(shell, "-e", "cassandra:nodes=3+consistency=ONE", "--phases", "insert", "-p", "kill_percent=50")
    assert not sample["void"], sample["void"]
    assert 0 <= sample["facts"]["lost_samples"] <= sample["facts"]["acknowledged_samples"]
