"""Tests the time series servers, each started alone: they pass the port's checks, require the password, keep
acknowledged data as their tier promises, and leave nothing behind; a user's own server is left unchanged.

They listen on a port, unlike other servers. Tests with PostgreSQL cover the behaviour that all servers share.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import psutil
import pytest
from documentation import caveat_codes, documented_caveats
from held import CHECKS, assert_only_gaps
from needed import require
from portchecks import run_checks
from serving import job, served
from shell import Shell, kill_at_moments, wait_for

from dyno import registry
from dyno.contracts.model import Refused, Tier
from dyno.contracts.suite import Job
from dyno.engines import cassandra, clickhouse, hbase, influxdb, questdb, victoriametrics
from dyno.servers import loopback, namespace
from dyno.servers.loopback import SECRET, Address
from dyno.suites.series.dataset import Facility, SyntheticDataset
from dyno.suites.series.port import SampleBatch
from dyno.suites.series.samples import Digest

pytestmark = pytest.mark.usefixtures("processes")

ENGINES = ("influxdb", "victoriametrics", "questdb", "clickhouse", "cassandra")
SERVERS = (*ENGINES, "hbase")
SOAKED = ("cassandra", "hbase")
"""Java servers that start slowly, because they have several processes or much data."""
DATASET = SyntheticDataset(Facility(7, 20, 60), 1, 100, 500, 500, 0)
SMALL = {"variables": 20, "per_half_hour": 60, "batch": 100}


def need(engine: str) -> None:
    require(registry.engine(engine).reduce_to_port("series"))


@pytest.fixture(scope="module", params=[*ENGINES, pytest.param("hbase", marks=pytest.mark.soak)])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """A store with samples on a server that several tests share: they neither stop it nor change the store."""
    need(request.param)
    asked = of(tmp_path_factory.mktemp("running"), request.param)
    with served(asked):
        fill(asked)
        # Makes sure that reads return all samples.
        assert held(asked) == WHOLE
        yield asked


def of(place: Path, engine: str, name: str = "store") -> Job:
    """A store and its server."""
    spec = registry.engine(engine)
    # A server whose default tier promises nothing is tested at another tier.
    tier = Tier.POWER if engine == "cassandra" else spec.default_tier
    assert tier is not None
    return job(place / name, engine, tier)


@contextmanager
def archive(asked: Job) -> Iterator[Any]:
    """The port on the job's store, while its server runs."""
    with (
        closing(asked.open(asked.home)) as engine,
        closing(asked.spec.ports["series"].open(engine, DATASET.names)) as port,
    ):
        yield port


def fill(asked: Job) -> None:
    """Inserts all samples."""
    with archive(asked) as port:
        for arrival in DATASET.arrivals():
            port.insert(arrival.batch)


WHOLE = Digest()
for _variable in range(len(DATASET.names)):
    _one = DATASET.one(_variable)
    WHOLE.add(SampleBatch(np.full(len(_one.ts), _variable, "i4"), *_one))


def held(asked: Job) -> Digest:
    found = Digest()
    with archive(asked) as port:
        port.settle()
        for piece in port.all():
            found.add(piece)
    return found


def listening(pids: Iterable[int]) -> set[tuple[str, int]]:
    every = [each for pid in pids for each in psutil.Process(pid).net_connections("inet")]
    return {(each.laddr.ip, each.laddr.port) for each in every if each.status == psutil.CONN_LISTEN}


def test_an_engine_passes_every_check_but_its_gaps(running: Job, place: Path) -> None:
    asked = replace(running, spec=running.spec.reduce_to_port("series"), home=place)
    assert asked.tier is not None
    assert_only_gaps(asked.spec, asked.tier, run_checks(asked, CHECKS.format("series"), "extracts-3"))


def test_caveats_are_on_the_engine_page(running: Job) -> None:
    with closing(running.open(running.home)) as engine:
        assert caveat_codes(running.spec, engine) <= documented_caveats(running.spec.name)


def url(running: Job, password: str | None = None) -> str:
    """The URL of the job's server, as for a user's own server."""
    server: Any = running.server
    at: Address = server.address
    engine = running.spec.name
    query = f"/?pg={server.postgresql.port}" if engine == "questdb" else ""
    scheme = engine if engine in ("clickhouse", "cassandra", "hbase") else "http"
    return f"{scheme}://{at.user}:{password or at.password}@{at.host}:{at.port}{query}"


@pytest.mark.parametrize(
    "engine",
    [
        *(name for name in ENGINES if name not in SOAKED),
        *(pytest.param(name, marks=pytest.mark.soak) for name in SOAKED),
    ],
)
def test_acknowledged_samples_survive_a_stop_and_a_crash(engine: str, place: Path) -> None:
    need(engine)
    asked = of(place, engine)
    with served(asked) as server:
        fill(asked)
        server.stop()
        assert list(server.pids()) == []
        server.start()
        again = replace(asked, home=place / "other")
        again.home.mkdir()
        # `asked` survives the kill at every tier, since its data was there at the orderly stop. `again` is written
        # later and survives only if writes are logged.
        fill(again)
        server.kill()
        server.start()
        assert held(asked) == WHOLE
        if asked.tier is not Tier.VOLATILE:
            assert held(again) == WHOLE
        pids, addresses = list(server.pids()), listening(server.pids())
        assert pids and addresses
    assert not any(psutil.pid_exists(pid) for pid in pids)
    for address in addresses:
        with closing(socket.socket()) as client:
            assert client.connect_ex(address) != 0, "something listens still"


def test_server_stays_local_and_in_its_directory(running: Job) -> None:
    server: Any = running.server
    home = running.home.with_name("store-server")
    pids = list(server.pids())
    assert {host for host, _ in listening(pids)} == {loopback.HOST}
    assert (home / SECRET).stat().st_mode & 0o777 == 0o600
    assert home.stat().st_mode & 0o777 == 0o700
    words = " ".join(word for pid in pids for word in psutil.Process(pid).cmdline())
    assert (home / SECRET).read_text() not in words
    files = [file for pid in pids for file in psutil.Process(pid).open_files() if file.mode != "r"]
    assert files and [file.path for file in files if not file.path.startswith(str(home))] == []


def test_a_wrong_password_is_refused(running: Job) -> None:
    if running.spec.name == "hbase":
        pytest.skip("HBase knows its users by Kerberos alone")
    wrong = "s3cret-and-wrong"
    asked = replace(running, server=users_server(running, url(running, wrong)))
    with pytest.raises(Refused) as refused, archive(asked):
        pass
    assert "can't connect" in str(refused.value)
    assert wrong not in str(refused.value)


def test_users_server_is_left_unchanged_by_a_run(running: Job, shell: Shell) -> None:
    engine, server = running.spec.name, running.server
    left = stores(engine, server)
    words = [word for name, value in SMALL.items() for word in ("-p", f"{name}={value}")]
    phases = "insert,extract-one-cold,extract-all-hot,latest-hot"
    one_node = "+replication=1" if engine == "cassandra" else ""
    row = f"{engine}:url={url(running)}{one_node}"
    ended = shell.dyno("run", "series", "-e", row, *words, "--phases", phases, "--samples", 1, "-o", shell.file)
    assert ended.status in (0, 1), ended.out + ended.err
    cells = {cell["phase"]: cell for cell in shell.shown()["cells"] if cell["engine"].startswith(engine)}
    for phase in ("insert", "extract-all-hot", "latest-hot"):
        assert cells[phase]["valid"], cells[phase]["why"]
    said = ended.out + ended.err
    assert "your own" in said
    assert running.server.address.password not in said + shell.file.read_text()  # type: ignore[union-attr]
    assert held(running) == WHOLE
    assert stores(engine, server) == left


@pytest.mark.claim("A user's server is left as it was and is not stopped")
def test_next_store_removes_leftovers_of_killed_processes(running: Job, place: Path) -> None:
    """Processes are killed while they open, fill and remove stores on a user's own server."""
    engine, server = running.spec.name, running.server
    before = stores(engine, server)
    given = {"url": url(running)} | ({"replication": "1"} if engine == "cassandra" else {})
    asked = replace(
        running, home=place / "next", options=running.spec.resolve(given), server=users_server(running, url(running))
    )

    def churn(removes: bool) -> None:
        one = replace(asked, home=Path(mkdtemp(dir=place)))
        fill(one)
        if removes:
            one.remove(one.home)

    # A schema change takes Cassandra seconds.
    kill_at_moments(partial(churn, True), 0 if engine in SOAKED else 3)
    kill_at_moments(partial(churn, False), 1)
    # The server may still be at work on what it was sent.
    assert wait_for(lambda: stores(engine, server) - before)
    asked.home.mkdir()
    with archive(asked):
        pass
    asked.remove(asked.home)
    assert stores(engine, server) == before
    assert held(running) == WHOLE


def test_truncated_store_name_deletes_no_user_data(running: Job, place: Path) -> None:
    """VictoriaMetrics takes an empty name for all series without a store, which are the user's."""
    (place / namespace.FILE).touch()
    server: Any = running.server
    if running.spec.name == "victoriametrics":
        line = {"metric": {"__name__": "mine"}, "values": [1], "timestamps": [DATASET.start // 10**6]}
        with closing(victoriametrics.Api(server)) as api:
            api.post("/api/v1/import", json.dumps(line).encode())
            assert wait_for(lambda: api.post("/api/v1/export", {"match[]": "mine"}))
    replace(running, server=users_server(running, url(running))).remove(place)
    if running.spec.name == "victoriametrics":
        with closing(victoriametrics.Api(server)) as api:
            assert b"mine" in api.post("/api/v1/export", {"match[]": "mine"})
    assert held(running) == WHOLE


def users_server(running: Job, address: str) -> Any:
    """Returns the user's server at that address."""
    assert running.spec.server is not None
    return running.spec.create_server(running.home, running.tier, running.spec.resolve({"url": address}), 1)


def stores(engine: str, server: Any) -> set[str]:
    """Names of the stores on the server that hold samples."""
    if engine == "hbase":
        with closing(hbase.connect_to_gateway(server.address)) as connection:
            found = [name.decode() for name in connection.tables()]
    elif engine == "cassandra":
        with closing(cassandra.Session(server.addresses)) as session:
            found = [name for (name,) in session.execute("SELECT keyspace_name FROM system_schema.keyspaces")]
    elif engine == "clickhouse":
        with closing(clickhouse.Click.open_client(server, {})) as client:
            found = [name for (name,) in client.execute("SHOW DATABASES")]
    elif engine == "influxdb":
        with closing(influxdb.Influx.open_client(server, {})) as client:
            found = [each["name"] for each in client.get_list_database()]
    elif engine == "questdb":
        with closing(questdb.Quest.open_client(server, {})) as client:
            found = [name for (name,) in client.execute("SELECT table_name FROM tables()").fetchall()]
    else:
        with closing(victoriametrics.Api(server)) as api:
            lines = api.post("/api/v1/export", {"match[]": '{__name__="ns"}'}).splitlines()
        found = [json.loads(line)["metric"]["store"] for line in lines]
    return {name for name in found if name.startswith("dyno_")}
