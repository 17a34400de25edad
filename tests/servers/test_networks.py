"""Loads servers from machines that are network namespaces, with clocks and limits of CPU time of their own: the
server's own counter, planted clock offsets, a slow machine, a lost write, and kills at any moment.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from dask_machines import Machines
from needed import require, unavailable
from networks import Networks
from shell import MARK, TESTS, Shell, small, wait_for

from dyno import registry
from dyno.contracts.histogram import percentiles
from dyno.servers.process import Process

pytestmark = pytest.mark.usefixtures("processes")

FOUR = ("one", "two", "three", "four")
HOUR = 3600
AHEAD = 7
"""Seconds by which a machine's clock is ahead."""
RATE, SECONDS = 4000, 2
QUIET = 0.5
"""Seconds without a command before a phase: the start is a second away when all machines are ready."""
PORT = 7391


class Laboratory:
    """The machines, and a Redis of the user's own that all reach, without a password."""

    def __init__(self, machines: Machines, networks: Networks, home: Path) -> None:
        import redis

        self.machines, self.networks = machines, networks
        words = ["--port", str(PORT), "--bind", networks.host, "--protected-mode", "no", "--save", ""]
        home.mkdir()
        self.client: Any = redis.Redis(host=networks.host, port=PORT)
        self.server = Process(["redis-server", *words], home, self._answers)
        self.server.start()
        self.engine = f"redis:url=redis://{networks.host}:{PORT}"

    def _answers(self) -> bool:
        import redis

        try:
            return bool(self.client.ping())
        except redis.RedisError:
            return False

    def gets(self) -> int:
        """Returns how many GETs the server has executed since it was started."""
        return int(self.client.info("commandstats").get("cmdstat_get", {}).get("calls", 0))

    def close(self) -> None:
        self.client.close()
        self.server.close()


Start = Callable[..., Laboratory]


@pytest.fixture
def laboratory(shell: Shell, place: Path, tmp_path: Path) -> Iterator[Start]:
    if find_spec("distributed") is None:
        unavailable("Dask is not installed")
    require(registry.engine("redis"))
    with ExitStack() as stack:

        def start(names: Sequence[str], prefixes: dict[str, list[str]] | None = None, **how: Any) -> Laboratory:
            networks = stack.enter_context(closing(Networks(names, **how)))
            started = {name: [*words, *(prefixes or {}).get(name, ())] for name, words in networks.prefixes.items()}
            home = tmp_path / "dask"
            home.mkdir()
            # Without the mark, the machines outlive each command of the shell.
            environment = {name: value for name, value in shell.environment().items() if name != MARK}
            machines = Machines(home, names, environment, None, networks.host, networks.hosts, started)
            stack.enter_context(closing(machines))
            networks.limit()
            return stack.enter_context(closing(Laboratory(machines, networks, place / "redis")))

        yield start


def words(shell: Shell, laboratory: Laboratory, engine: str = "", **plan: object) -> list[object]:
    chosen = {"samples": 1, "retries": 0, "phases": "rand-key", "clients": 8, "param_records": 2000, **plan}
    flags = small(**chosen)
    if "duration" in chosen:
        at = flags.index("--budget")
        del flags[at : at + 2]
    loading = ("--load-from", laboratory.machines.address, "--plain-tcp", "-o", shell.file)
    return ["run", "records", "-e", engine or laboratory.engine, *flags, *loading]


class Counter:
    """The server's own count of GETs, read all the time."""

    def __init__(self, laboratory: Laboratory) -> None:
        self._laboratory, self._over = laboratory, threading.Event()
        self.seen: list[tuple[float, int]] = []
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> Counter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _read(self) -> None:
        while not self._over.wait(0.02):
            before = time.monotonic()
            gets = self._laboratory.gets()
            self.seen.append(((before + time.monotonic()) / 2, gets))

    def phase(self, wall_s: float) -> tuple[int, int]:
        """Returns the count before the last phase, which took about `wall_s`, and after it. Clients that lost their
        cores can be quiet during the phase too, so it began after the quiet time that ended nearest to its start."""
        grew = [at for at in range(1, len(self.seen)) if self.seen[at][1] > self.seen[at - 1][1]]
        last = grew[-1]
        began_s = self.seen[last][0] - wall_s
        after_quiet = [
            at for before, at in itertools.pairwise(grew) if self.seen[at - 1][0] - self.seen[before][0] > QUIET
        ]
        first = min(after_quiet, key=lambda at: abs(self.seen[at][0] - began_s))
        return self.seen[first - 1][1], self.seen[last][1]


@pytest.mark.claim("Load from other machines adds up to what the server itself has counted")
def test_operations_of_four_machines_equal_server_counter(shell: Shell, laboratory: Start) -> None:
    """In an open loop and in a closed loop."""
    lab = laboratory(FOUR, ahead={"two": HOUR, "four": AHEAD})
    check_counts(shell, lab, "library", {"rate": RATE})
    shell.file.unlink()
    check_counts(shell, lab, "native", {})


def check_counts(shell: Shell, lab: Laboratory, load: str, pace: dict[str, Any]) -> None:
    with Counter(lab) as counter:
        ended = shell.dyno(*words(shell, lab, load=load, duration=SECONDS, **pace))
    assert ended.status == 0, ended
    (sample,) = shell.attempts()[0]["samples"]
    assert sample["void"] is None and sample["load"] == load
    none, all_of_it = counter.phase((sample["wall_ns"] or sample["elapsed_ns"]) / 1e9)
    # Every operation is one GET, and none was sent twice.
    assert all_of_it - none == sample["operations"]
    described: dict[str, Any] = sample["machines"]
    assert sum(each["operations"] for each in described.values()) == sample["operations"]
    # Planted offsets are found, and enter no latency.
    for name, each in described.items():
        planted = {"two": HOUR, "four": AHEAD}.get(name, 0)
        assert abs(each["offset_ns"] - planted * 10**9) <= each["uncertainty_ns"] + 1_000_000
        assert each["skew_ns"] < 10_000_000
    by_machine = {name: b64decode(histogram) for name, histogram in sample["by_machine"].items()}
    assert percentiles(list(by_machine.values())) == percentiles([b64decode(sample["histogram"])])
    for histogram in by_machine.values():
        assert 0 < (percentiles([histogram])["max"] or 0) < AHEAD * 10**9


@pytest.mark.claim("A machine that is slower than the others is named")
def test_slow_machine_is_named_in_a_doubt(shell: Shell, laboratory: Start) -> None:
    lab = laboratory(("one", "two", "three"), cores={"two": 0.2})
    ended = shell.dyno(*words(shell, lab, clients=3, duration=4, load="library"))
    assert ended.status == 0, ended
    (row,) = shell.cells().values()
    texts = [doubt["text"] for doubt in row["doubts"] if doubt["code"] in ("uneven", "client")]
    assert any("two" in text for text in texts), row["doubts"]
    assert not any(f"machine {name}" in text for text in texts for name in ("one", "three")), texts


@pytest.mark.claim("A write that another machine's client has lost is found by the check of the whole store")
def test_lost_remote_write_voids_the_row(shell: Shell, laboratory: Start) -> None:
    shell.plugins = [TESTS / "plugins" / "losing"]
    lab = laboratory(("one", "two"), prefixes={"two": ["env", "DYNO_TEST_LOSES=1"]})
    plan = {"phases": "update", "param_txn": 1, "rate": 400, "duration": 2, "load": "library"}
    ended = shell.dyno(*words(shell, lab, f"losing:listen={lab.networks.host}", **plan))
    (attempt,) = shell.attempts()
    (sample,) = attempt["samples"]
    # No record is replaced twice in so short a time: only the check of the whole store can find it.
    assert sample["errors"] == 0 and sample["machines"]["two"]["operations"] > 100
    assert sample["void"], ended


KILLED: dict[str, Any] = {"clients": 4, "rate": 200, "duration": 3}


def kill_at(
    shell: Shell, lab: Laboratory, what: str, seconds: float, load: str
) -> tuple[dict[str, Any] | None, list[int]]:
    """Kills something so long after the start of a run. Returns the trial's line, and the highest number of processes
    of clients that each machine had."""
    shell.file.unlink(missing_ok=True)
    most = [0, 0]
    with shell.started(*words(shell, lab, load=load, **KILLED)) as process:
        moment, killed = time.monotonic() + seconds, 0.0
        while process.poll() is None:
            children = [lab.machines.children(name) for name in ("one", "two")]
            most = [max(pair) for pair in zip(most, map(len, children), strict=True)]
            if not killed and time.monotonic() > moment and (what != "child" or children[0]):
                killed = time.monotonic()
                if what == "child":
                    os.kill(children[0][0], signal.SIGKILL)
                else:
                    lab.machines.kill(what)
            time.sleep(0.01)
    print(f"{what} killed after {seconds:.1f} s, {load} load: ended {time.monotonic() - killed:.1f} s later")
    lines = shell.attempts() if shell.file.exists() else []
    return (lines[-1] if lines else None), most


NAMED = ("lost one", "lost two", "lost the scheduler", "one: ", "two: ", "can't reach the scheduler", "no workers")


def check_kills(shell: Shell, lab: Laboratory, kills: Sequence[tuple[str, float, str]]) -> None:
    ended = shell.dyno(*words(shell, lab, **KILLED))
    assert ended.status == 0, ended
    undisturbed = lab.gets()
    for what, seconds, load in kills:
        before = lab.gets()
        attempt, most = kill_at(shell, lab, what, seconds, load)
        described = (what, seconds, load, attempt)
        assert attempt is not None, described
        assert max(most) <= 1, described
        if attempt["outcome"] != "ok":
            assert any(name in attempt["why"] for name in NAMED), described
        assert wait_for(lambda: not lab.machines.children("two"), 15), described
        assert lab.gets() - before <= undisturbed, described
        if what == "scheduler":
            lab.machines.close()
            lab.machines.start_scheduler()
            for name in ("one", "two"):
                lab.machines.start(name)
        elif what == "one":
            lab.machines.start("one")
        assert shell.left() == [], described


KINDS = ("one", "child", "scheduler")


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_killed_remote_process_is_named_at_any_moment(shell: Shell, laboratory: Start) -> None:
    lab = laboratory(("one", "two"))
    draws = random.Random(41)
    kills = [(draws.choice(KINDS), draws.uniform(0.8, 7), draws.choice(["library", "native"])) for _ in range(100)]
    check_kills(shell, lab, kills)
