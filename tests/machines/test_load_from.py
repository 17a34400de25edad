"""Loads servers from other machines, which are workers of Dask at other addresses of this one: what is measured there
comes home, what is lost has a name, and nothing is left behind.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from base64 import b64decode
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority
from dask_machines import Machines
from needed import require, unavailable
from shell import Shell, small, wait_for

from dyno import registry
from dyno.contracts.histogram import percentiles

pytestmark = pytest.mark.usefixtures("processes")

SERVERS = ("redis", "postgresql", "mariadb")
HERE = "127.0.0.1"


@pytest.fixture(scope="module")
def shared_machines(shared_shell: Shell) -> Iterator[Machines]:
    if find_spec("distributed") is None:
        unavailable("Dask is not installed")
    running = Machines(shared_shell.home, ["one", "two"], shared_shell.environment())
    try:
        yield running
    finally:
        running.close()


@pytest.fixture
def machines(shared_machines: Machines) -> Iterator[Machines]:
    yield shared_machines
    shared_machines.restart_ended()


def command(shell: Shell, machines: Machines, *engines: str, **plan: object) -> list[object]:
    chosen = {"samples": 1, "retries": 0, "param_records": 500, "phases": "mixed", "clients": 4, **plan}
    words = small(**chosen)
    if "duration" in chosen:
        at = words.index("--budget")
        del words[at : at + 2]
    return [
        *("run", "records", "-e", ",".join(f"{engine}:listen={HERE}" for engine in engines), *words),
        *("--load-from", machines.address, "--plain-tcp", "-o", shell.file),
    ]


def left_behind(machines: Machines) -> list[str]:
    """Directories that the machines' workers have not removed."""
    places = (f"dyno-remote-{process.pid}-*" for process in machines.processes.values())
    return [path.name for place in places for path in Path(tempfile.gettempdir()).glob(place)]


@pytest.mark.claim("Clients on other machines are counted, checked and verified like those here")
@pytest.mark.parametrize("load", ["library", "native"])
def test_clients_on_two_machines_form_one_sample(shell: Shell, machines: Machines, load: str) -> None:
    for engine in SERVERS:
        require(registry.engine(engine))
    pace = {"rate": 400} if load == "native" else {"phases": "rand-key,mixed"}
    ended = shell.dyno(*command(shell, machines, *SERVERS, load=load, duration=1, **pace))
    assert ended.status == 0, ended
    for engine in SERVERS:
        (attempt,) = shell.attempts(engine)
        *reads, sample = attempt["samples"]
        # In a closed loop, the clock stops for inputs and checks between batches. Reads run in a single one.
        assert all(read["elapsed_ns"] > 0.9 * read["wall_ns"] for read in reads)
        assert sample["void"] is None and sample["load"] == load
        told: dict[str, Any] = sample["machines"]
        assert sorted(told) == ["one", "two"]
        assert [each["clients"] for each in told.values()] == [2, 2]
        assert sum(each["operations"] for each in told.values()) == sample["operations"] > 0
        assert sample["checked"] >= sample["operations"] - sample["errors"]
        by_machine = [b64decode(histogram) for histogram in sample["by_machine"].values()]
        assert percentiles(by_machine) == percentiles([b64decode(sample["histogram"])])
        assert all(percentiles([histogram])["p50"] for histogram in by_machine)
        assert attempt["settings"]["transport"] == "tcp"
        assert attempt["settings"]["tls"] is (load == "library")
        for each in told.values():
            # One clock for all machines of the test.
            assert abs(each["offset_ns"]) <= each["uncertainty_ns"] + 1_000_000
            assert each["round_trip_ns"] > 0 and each["cpu_ns"] > 0
    assert shell.left() == []
    assert left_behind(machines) == []


KILLED = {"one": "lost one", "child": "the process of its clients ended", "scheduler": "lost"}


@pytest.mark.claim("A lost machine ends the trial with its name, and loads nothing twice")
@pytest.mark.parametrize("what", KILLED)
def test_killed_remote_process_is_named_in_failed_trial(shell: Shell, machines: Machines, what: str) -> None:
    require(registry.engine("redis"))
    words = command(shell, machines, "redis", duration=200, rate=100)
    with shell.started(*words) as process:
        assert wait_for(lambda: machines.children("one") and machines.children("two"))
        time.sleep(random.uniform(0.1, 1))
        if what == "child":
            (child,) = machines.children("one")
            os.kill(child, signal.SIGKILL)
        else:
            machines.kill(what)
        # The phase would go on for longer.
        status = process.wait(60)
    assert status == 3
    (attempt,) = shell.attempts()
    assert attempt["outcome"] == "error"
    assert KILLED[what] in attempt["why"], attempt["why"]
    assert wait_for(lambda: not machines.children("two"), 15), "the other machine's clients end too"
    assert shell.left() == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-e", f"redis:listen={HERE}", "--load-from", "tcp://127.0.0.1:1"], "has no TLS"),
        (["-e", f"redis:listen={HERE}", "--load-from", "127.0.0.1:1"], "such as tls://"),
        (["-e", "lmdb", "--load-from", "tls://127.0.0.1:1"], "lmdb has no server"),
        (["-e", "redis", "--load-from", "tls://127.0.0.1:1"], "listen=ADDRESS"),
        (["-e", "redis:listen=0.0.0.0", "--load-from", "tls://127.0.0.1:1"], "one address"),
        (["-e", f"postgresql:listen={HERE}+replicas=1"], "leave replicas out"),
        (["-e", f"redis:listen={HERE}+url=redis://127.0.0.1:1"], "leave one of them out"),
    ],
)
def test_invalid_load_from_is_a_one_line_error(shell: Shell, words: list[str], says: str) -> None:
    ended = shell.dyno("run", "records", *words, "-o", shell.file)
    assert ended.status == 2
    assert says in ended.err and len(ended.err.strip().splitlines()) == 1
    assert not shell.file.exists()


def test_tls_scheduler_needs_client_certificate(shell: Shell, tmp_path: Path) -> None:
    require(registry.engine("redis"))
    if not Path("/usr/bin/openssl").exists():
        unavailable("openssl is not installed")
    home = tmp_path / "dask"
    home.mkdir()
    running = Machines(home, ["one"], shell.environment(), Authority(tmp_path / "authority"))
    try:
        words = [word for word in command(shell, running, "redis") if word != "--plain-tcp"]
        without = shell.dyno(*words)
        assert without.status == 3 and "can't reach the scheduler" in shell.attempts()[0]["why"]
        shell.given.update(running.client)
        ended = shell.dyno(*words, "--overwrite")
        assert ended.status == 0, ended
        described = shell.dyno("doctor", "--load-from", running.address)
        assert described.status == 0 and "one" in described.out
    finally:
        running.close()


CLUSTER = """
import sys
from distributed import LocalCluster
from distributed.security import Security

if __name__ == "__main__":
    authority, certificate, key = sys.argv[1:]
    own = {f"tls_{who}_{what}": file for who in ("scheduler", "worker", "client")
           for what, file in (("cert", certificate), ("key", key))}
    with LocalCluster(
        n_workers=1,
        threads_per_worker=2,
        protocol="tls://",
        security=Security(require_encryption=True, tls_ca_file=authority, **own),
        host="127.0.0.1",
        dashboard_address=None,
    ) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


def test_local_tls_cluster_counts_as_one_machine(shell: Shell, tmp_path: Path) -> None:
    require(registry.engine("redis"))
    if find_spec("distributed") is None:
        unavailable("Dask is not installed")
    authority = Authority(tmp_path / "authority")
    files = {"CA_FILE": authority.authority, "CLIENT__CERT": authority.certificate, "CLIENT__KEY": authority.key}
    shell.given.update({f"DASK_DISTRIBUTED__COMM__TLS__{name}": str(file) for name, file in files.items()})
    script = tmp_path / "cluster.py"
    script.write_text(CLUSTER)
    with subprocess.Popen(
        [sys.executable, str(script), *map(str, files.values())],
        env=shell.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as cluster:
        assert cluster.stdout is not None
        address = cluster.stdout.readline().strip()
        assert address.startswith("tls://")
        plan = small(samples=1, retries=0, phases="mixed", clients=2, budget=0.5)
        ended = shell.dyno(
            "run", "records", "-e", f"redis:listen={HERE}", *plan, "--load-from", address, "-o", "r.json"
        )
        assert cluster.stdin is not None
        cluster.stdin.close()
    assert ended.status == 0, ended
    (sample,) = shell.attempts()[0]["samples"]
    assert list(sample["machines"]) == [HERE] and sample["void"] is None


def test_doctor_describes_each_machine(shell: Shell, machines: Machines) -> None:
    refused = shell.dyno("doctor", "--load-from", machines.address)
    assert refused.status == 2 and "--plain-tcp" in refused.err
    ended = shell.dyno("doctor", "--load-from", machines.address, "--plain-tcp")
    assert ended.status == 0, ended
    for words in ("one", "two", "ns by the", "ms"):
        assert words in ended.out


PLAN = """
suite = "records"
engine = ["sqlite"]
param = {records = [300]}
phases = ["rand-key"]
samples = 6
budget = 0.2
"""


@pytest.mark.claim("A fleet's machine that disappears leaves what it finished, and continues when it is back")
def test_fleet_completes_plan_after_lost_machine_returns(shell: Shell, machines: Machines) -> None:
    plan = shell.home / "plan.toml"
    plan.write_text(PLAN)
    words = ["run", plan, "--fleet", machines.address, "--plain-tcp", "-o", "fleet.json"]
    files = {name: shell.home / f"fleet.{name}.json" for name in ("one", "two")}
    with shell.started(*words) as process:
        assert process.stderr is not None
        assert wait_for(lambda: files["one"].exists() and files["one"].read_bytes().count(b"\n") > 1)
        machines.kill("one")
        kept = files["one"].read_bytes().count(b"\n")
        assert any("one: lost" in line for line in iter(process.stderr.readline, ""))
        machines.start("one")
        err = process.stderr.read()
        assert process.wait() == 0, err
    assert "one: continues" in err
    for file in files.values():
        lines = file.read_text().splitlines()
        assert len(lines) > kept
        shown = shell.dyno("show", file, "--json")
        assert shown.status == 0
    table = shell.dyno("report", *files.values(), "--by", "machine")
    assert table.status == 0 and "fleet.one" in table.out and "fleet.two" in table.out, table


def test_dry_run_with_fleet_is_refused(shell: Shell) -> None:
    words = ("run", "records", "--fleet", "tcp://127.0.0.1:1", "--plain-tcp", "--dry-run")
    ended = shell.dyno(*words, "-o", shell.file)
    assert ended.status == 2 and "--dry-run" in ended.err
    assert list(shell.home.iterdir()) == []
