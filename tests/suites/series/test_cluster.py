"""Tests clusters: nodes start in turn and stop together, one can be lost while the others go on, and the loss of
acknowledged samples is noticed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from shell import Shell, is_one_line

from dyno.contracts.engine import Nodes
from dyno.contracts.model import Refused, Wrong
from dyno.servers import loopback
from dyno.servers.process import Cluster, Process
from dyno.suites.series import verify as surviving
from dyno.suites.series.dataset import Facility, SyntheticDataset
from dyno.suites.series.port import SampleBatch
from dyno.suites.series.verify import Survival

NODE = """
import os, signal
from pathlib import Path
signal.signal(signal.SIGTERM, lambda *_: (Path("ended").touch(), os._exit(0)))
Path("ready").touch()
while True:
    signal.pause()
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    nodes = []
    for number in range(3):
        home = tmp_path / f"node-{number}"
        home.mkdir()
        nodes.append(Process([sys.executable, "-c", NODE], home, (home / "ready").exists))
    with closing(Cluster(nodes)) as found:
        yield found


@pytest.mark.usefixtures("processes")
def test_a_cluster_behaves_like_one_server(cluster: Cluster, tmp_path: Path) -> None:
    assert cluster.own and cluster.count == 3 and list(cluster.pids()) == []
    cluster.start()
    pids = list(cluster.pids())
    assert len(set(pids)) == 3
    cluster.stop()
    assert list(cluster.pids()) == [] and not any(map(psutil.pid_exists, pids))
    assert len(list(tmp_path.glob("node-*/ended"))) == 3, "each was asked to end"
    cluster.start()
    again = list(cluster.pids())
    assert len(set(again)) == 3
    cluster.kill()
    assert list(cluster.pids()) == [] and not any(map(psutil.pid_exists, again))


@pytest.mark.usefixtures("processes")
def test_other_nodes_survive_a_lost_node(cluster: Cluster, tmp_path: Path) -> None:
    cluster.start()
    first, second, third = cluster.pids()
    cluster.lose(1)
    assert list(cluster.pids()) == [first, third] and not psutil.pid_exists(second)
    assert not (tmp_path / "node-1" / "ended").exists(), "it had no time to"
    cluster.nodes[1].start()
    assert len(list(cluster.pids())) == 3 and first in cluster.pids() and third in cluster.pids()


@pytest.mark.usefixtures("processes")
def test_failed_node_start_stops_all_nodes(cluster: Cluster, tmp_path: Path) -> None:
    cluster.nodes[2].command = [sys.executable, "-c", "print('no room')"]
    with pytest.raises(Refused, match="no room"):
        cluster.start()
    assert list(cluster.pids()) == []


def test_nodes_have_own_addresses_and_common_ports(tmp_path: Path) -> None:
    addresses, further = loopback.cluster(tmp_path, 3, ports=2)
    assert [each.host for each in addresses] == ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
    assert len({each.port for each in addresses}) == len({each.password for each in addresses}) == 1
    assert len({addresses[0].port, *further}) == 3
    (alone,), _ = loopback.cluster(tmp_path, 1, ports=0)
    assert alone.host == loopback.HOST and alone.password == addresses[0].password


# -- lost and surviving samples -----------------------------------------------------------------------------


class Pair(Nodes):
    count = 2
    copies = 2

    def __init__(self, survives: bool) -> None:
        self.survives, self.lost = survives, list[int]()

    def lose(self, number: int) -> None:
        self.lost.append(number)

    def restore(self, number: int) -> None:
        raise NotImplementedError


DATASET = SyntheticDataset(Facility(1, 10, 60), 1, 50, 20_000, 20_000, 20_000)
ARRIVALS = list(DATASET.arrivals())
FAILED = 7


def survived(survives: bool = True) -> Survival:
    """Returns a `Survival` that has recorded the death of a node and one failed batch."""
    server = Pair(survives)
    found = Survival(server, DATASET, 50)
    inserted: list[SampleBatch] = []
    for number, arrival in enumerate(ARRIVALS):
        found.call(number, inserted.append)(arrival.batch)
    assert len(inserted) == len(ARRIVALS) and server.lost == [1]
    found.record_failure(FAILED)
    return found


def store(without: Callable[[int], bool] = lambda number: False) -> dict[tuple[int, int], tuple[Any, ...]]:
    kept: dict[tuple[int, int], tuple[Any, ...]] = {}
    for number, arrival in enumerate(ARRIVALS):
        if not without(number):
            for pv, ts, *rest in zip(*(values.tolist() for values in arrival.batch), strict=True):
                kept[pv, ts] = tuple(rest)
    return kept


def pieces(kept: dict[tuple[int, int], tuple[Any, ...]]) -> list[SampleBatch]:
    rows = [(*key, *rest) for key, rest in kept.items()]
    types = "i4", "i8", "f8", "i2", "i2"
    whole = SampleBatch(
        *(np.array(values, dtype) for values, dtype in zip(zip(*rows, strict=True), types, strict=True))
    )
    half = len(rows) // 2
    return [SampleBatch(*(values[:half] for values in whole)), SampleBatch(*(values[half:] for values in whole))]


def test_unacknowledged_batch_may_be_kept_or_lost() -> None:
    for kept in (store(), store(lambda number: number == FAILED)):
        survival = survived()
        assert survival.verify(pieces(kept), len(ARRIVALS)) == len(kept)
        facts = survival.facts()
        assert facts["lost_samples"] == 0 and facts["failed_batches"] == 1
        assert DATASET.total - 50 <= facts["acknowledged_samples"] < DATASET.total  # type: ignore[operator]


def test_lost_samples_are_counted_or_void_the_phase() -> None:
    kept = store()
    for key in list(store(lambda number: number != 3))[:4]:
        del kept[key]
    survival = survived(survives=False)
    survival.verify(pieces(kept), len(ARRIVALS))
    assert survival.facts()["lost_samples"] == 4
    with pytest.raises(Wrong, match=r"4 of [0-9,]+ acknowledged samples are lost with a node"):
        survived().verify(pieces(kept), len(ARRIVALS))


def test_changed_and_duplicate_samples_are_found() -> None:
    kept = store()
    key, (value, *rest) = next(iter(kept.items()))
    with pytest.raises(Wrong, match="1 samples are not as they were written"):
        survived(False).verify(pieces({**kept, key: (value + 0.5, *rest)}), len(ARRIVALS))
    with pytest.raises(Wrong, match="twice"):
        survived(False).verify([*pieces(kept), pieces(kept)[0]], len(ARRIVALS))


class Hesitant:
    """Port that fails `times` times in the middle of an answer, like a client that still uses a lost node."""

    def __init__(self, times: int) -> None:
        self.times = times

    def settle(self) -> None:
        pass

    def all(self) -> Iterator[SampleBatch]:
        first, second = pieces(store())
        yield first
        self.times -= 1
        if self.times >= 0:
            raise TimeoutError("only one of two answered")
        yield second


def test_reads_are_retried_until_cluster_notices_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surviving, "RETRY_SECONDS", 0.0)
    port: Any = Hesitant(3)
    assert sum(len(piece.ts) for piece in surviving.read_with_retries(port)) == len(store())
    monkeypatch.setattr(surviving, "PATIENCE_SECONDS", 0.0)
    port = Hesitant(3)
    with pytest.raises(TimeoutError):
        surviving.read_with_retries(port)


def test_phase_that_ends_before_the_kill_is_void() -> None:
    with pytest.raises(Wrong, match="before the node was to be killed"):
        Survival(Pair(True), DATASET, 50).verify([], 0)


def test_kill_percent_needs_a_cluster_with_copies(shell: Shell) -> None:
    words = ("-p", "kill_percent=50", "-p", "variables=10", "-p", "per_half_hour=10", "--phases", "insert")
    ended = shell.dyno("run", "series", "-e", "sqlite", *words, "--samples", "1", "-o", shell.file)
    assert ended.status == 3 and "has no node to lose" in ended.out + ended.err
    alone = Pair(True)
    alone.copies = 1
    with pytest.raises(Refused, match="keeps each sample once"):
        Survival(alone, DATASET, 50)
    ended = shell.dyno("run", "series", "-e", "cassandra:replication=3", "-p", "variables=10")
    assert ended.status == 2 and is_one_line(ended.err) and "nodes=3" in ended.err
