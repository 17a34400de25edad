"""Native load on real servers: every supported phase, wrong answers, and a server that dies."""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from needed import require
from shell import Shell, wait_for

from dyno import registry
from dyno.contracts.model import Tier

pytestmark = pytest.mark.usefixtures("processes")

PHASES = "insert-blind-indices,rand-key,rand-index,update,mixed,delete"
SMALL = ("-p", "txn=1", "--samples", 1, "--duration", 0.2)


# FerretDB reads its whole collection to find a record.
@pytest.mark.parametrize(
    ("engines", "clients", "records"),
    [("redis", 1, 1_000), ("redis,valkey,postgresql,mariadb", 17, 1_000), ("ferretdb", 17, 100)],
)
def test_native_load_runs_every_single_operation_phase(
    engines: str, clients: int, records: int, shell: Shell
) -> None:
    for engine in engines.split(","):
        require(registry.engine(engine))
    words = ("run", "records", "-e", engines, "--load", "native", "--clients", clients, "--phases", PHASES)
    ended = shell.dyno(*words, *SMALL, "-p", f"records={records}", "-p", "mix=f", "-o", shell.file)
    assert ended.status == 0, ended
    for engine in engines.split(","):
        assert f"{engine}:client=native" in ended.out
        (attempt,) = shell.attempts(engine)
        assert len(attempt["samples"]) == 6
        for sample in attempt["samples"]:
            assert sample["void"] is None and sample["errors"] == 0 and sample["operations"] > 0, sample
            assert sample["checked"] >= sample["operations"] or "insert" in sample["phase"], sample
            assert sample["load_processes"] == min(clients, 2, len(os.sched_getaffinity(0))), sample
    assert not shell.alive() and not shell.left()


def test_updates_written_during_warmup_are_expected(shell: Shell) -> None:
    """A warm-up ends in the middle of a round, and what it updated last may stay until the end."""
    require(registry.engine("redis"))
    words = ("run", "records", "-e", "redis", "--load", "native", "--clients", 3, "--phases", "update", "-p", "txn=1")
    ended = shell.dyno(
        *words, "-p", "records=2000", "--samples", 1, "--warmup", 0.4, "--duration", 0.1, "-o", shell.file
    )
    assert ended.status == 0, ended
    assert [sample["void"] for attempt in shell.attempts("redis") for sample in attempt["samples"]] == [None]


def test_suite_without_native_load_is_refused(shell: Shell) -> None:
    require(registry.engine("postgresql"))
    ended = shell.run_here("run", "series", "-e", "postgresql", "--load", "native", "-o", shell.file)
    assert ended.status == 2 and "postgresql has no native load in suite series" in ended.err
    assert not shell.file.exists()


class Address(NamedTuple):
    """Where a server listens, and the URL under which a run finds it at another socket."""

    listens: Path
    connects: Path
    url: str


def _address(engine: str, server: Any, place: Path) -> Address:
    """`place` gets the other socket."""
    if engine == "postgresql":
        name, user, database = f".s.PGSQL.{server.address['port']}", server.address["user"], server.address["dbname"]
        url = f"postgresql://{user}@/{database}?host={quote(str(place), safe='')}&port={server.address['port']}"
        return Address(Path(server.address["host"]) / name, place / name, url)
    path = place / "s.sock"
    quoted = quote(str(path), safe="")
    if engine == "mariadb":
        url = f"mariadb://{server.address['user']}@localhost/?unix_socket={quoted}"
        return Address(Path(server.address["unix_socket"]), path, url)
    if engine == "ferretdb":
        return Address(server.path, path, f"mongodb://{quoted}/?directConnection=true")
    return Address(Path(server.path), path, f"unix://{path}")


class Proxy:
    """Passes bytes between clients and a server, and counts what the server sends. After `healthy` intact responses
    with the text of a record, it flips one bit in the text of the next. If `swallows` is set, it passes no more
    requests of the connection that has the next one.
    """

    def __init__(self, address: Address) -> None:
        self._path = address.listens
        self.healthy: int | None = None
        """Number of responses with the text of a record before the one that is damaged; None: all of them."""
        self.records = 0
        """Responses with the text of a record."""
        self.seen: Counter[bytes] = Counter()
        """How often each of `texts` was in what the server sent."""
        self.texts: tuple[bytes, ...] = ()
        self.swallows = False
        self._swallower = 0
        self._lock = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(address.connects))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                try:
                    server.connect(str(self._path))
                except OSError:
                    client.close()
                    continue
                for source, target, responses in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._pass, args=(source, target, responses), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, responses: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if self._swallowed(responses):
                    continue
                target.sendall(self._changed(data) if responses else data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _swallowed(self, responses: bool) -> bool:
        here = threading.get_ident()
        with self._lock:
            if self.swallows and not responses:
                self.swallows, self._swallower = False, here
            return self._swallower == here

    def _changed(self, data: bytes) -> bytes:
        self.seen.update({text: data.count(text) for text in self.texts})
        # Only the stub of a record is such a long text.
        text = re.search(rb"[ -~]{100,}", data)
        if text is None:
            return data
        with self._lock:
            self.records += 1
            if self.records - 1 != self.healthy:
                return data
        at = text.end() - 20
        return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

    def close(self) -> None:
        self._listener.close()


@contextmanager
def served(engine: str, place: Path) -> Iterator[tuple[Any, Proxy, str]]:
    """Yields a server that the test starts itself, a proxy before it, and the proxy's URL."""
    spec = registry.engine(engine)
    require(spec)
    assert spec.server is not None
    server: Any = spec.create_server(place / "server", Tier.PROCESS, spec.resolve({}), 8)
    sockets = place / "sockets"
    sockets.mkdir()
    with closing(server):
        server.start()
        address = _address(engine, server, sockets)
        proxy = Proxy(address)
        with closing(proxy):
            yield server, proxy, address.url


def _words(engine: str, url: str, seconds: float, records: int) -> tuple[object, ...]:
    return (
        *("run", "records", "-e", f"{engine}:url={url}", "--load", "native", "--clients", 4, "--tier", "process"),
        *("--phases", "rand-key", "-p", f"records={records}", "-p", "txn=1", "--samples", 1, "--retries", 0),
        *("--duration", seconds),
    )


Served = tuple[str, Any, Proxy, str]


@pytest.fixture(scope="module", params=["redis", "postgresql", "mariadb", "ferretdb"])
def shared_server(request: pytest.FixtureRequest, shared_shell: Shell) -> Iterator[Served]:
    """An engine, its server, a proxy before it, and the proxy's URL."""
    engine = request.param
    place = shared_shell.work.parent / engine
    place.mkdir()
    with served(engine, place) as parts:
        yield engine, *parts


def test_single_flipped_bit_voids_the_row(shared_server: Served, shell: Shell) -> None:
    engine, _, proxy, url = shared_server
    # Loading and its checks read fewer records. FerretDB reads its whole collection to find a record.
    proxy.healthy = proxy.records + (300 if engine == "ferretdb" else 1_000)
    ended = shell.dyno(*_words(engine, url, 40, 100), "-o", shell.file)
    assert ended.status in (1, 3) and proxy.records > proxy.healthy, ended
    (attempt,) = shell.attempts(engine)
    (sample,) = attempt["samples"]
    assert "record" in sample["void"]


def test_server_death_is_a_one_line_error(shared_server: Served, shell: Shell) -> None:
    """The last test of a server."""
    engine, server, proxy, url = shared_server
    earlier = proxy.records
    with shell.started(*_words(engine, url, 60, 100), "-o", shell.file) as run:
        # Loading and its checks read fewer records.
        assert wait_for(lambda: proxy.records > earlier + 1_000)
        server.kill()
        out, err = run.communicate(timeout=60)
    assert run.returncode in (1, 3), (out, err)
    (attempt,) = shell.attempts(engine)
    assert attempt["outcome"] != "ok" and "\n" not in attempt["why"] and "connection" in attempt["why"].lower()


def test_timeout_names_the_client_without_an_answer(shell: Shell, place: Path) -> None:
    with served("redis", place) as (_, proxy, url):
        words = ["library" if word == "native" else word for word in _words("redis", url, 60, 100)]
        with shell.started(*words, "--timeout", 8, "-o", shell.file) as run:
            assert wait_for(lambda: proxy.records > 1_000)
            proxy.swallows = True
            out, err = run.communicate(timeout=60)
    assert run.returncode in (1, 3), (out, err)
    (attempt,) = shell.attempts("redis")
    waited = r"client [0-3] waited [1-8]\.\d s for the engine( \(\w+\))?"
    assert re.fullmatch(f"not done after 8 s: {waited}", attempt["why"])


def test_postgresql_notices_and_parameter_changes_are_ignored(shell: Shell, place: Path) -> None:
    """With these settings, PostgreSQL sends a notice for every statement. With a new time zone, it sends a parameter
    that nobody asked for."""
    import psycopg

    with served("postgresql", place) as (server, proxy, url):
        notices = quote("-c client_min_messages=log -c log_duration=on")
        proxy.texts = (b"duration: ", b"TimeZone\0Asia/Tokyo", b"TimeZone\0Asia/Seoul")
        words = _words("postgresql", f"{url}&options={notices}", 2, 1000)
        with (
            psycopg.connect(**server.address, autocommit=True) as admin,
            shell.started(*words, "-o", shell.file) as run,
        ):
            while run.poll() is None:
                for zone in ("Tokyo", "Seoul"):
                    admin.execute(f"ALTER SYSTEM SET timezone = 'Asia/{zone}'")
                    admin.execute("SELECT pg_reload_conf()")
                    time.sleep(0.05)
            out, err = run.communicate()
    assert run.returncode == 0, (out, err)
    (attempt,) = shell.attempts("postgresql")
    (sample,) = attempt["samples"]
    assert sample["void"] is None and sample["errors"] == 0 and sample["checked"] == sample["operations"] > 0
    assert proxy.seen[proxy.texts[0]] >= sample["operations"] and min(proxy.seen.values()) > 4


@pytest.mark.parametrize("engine", ["postgresql", "redis"])
def test_open_loop_runs_with_512_connections(engine: str, shell: Shell) -> None:
    """PostgreSQL's default is 100 connections, and the limit of open files is often 1,024. The run has no null
    engine: 512 processes of it would need more memory than machines have."""
    require(registry.engine(engine))
    script = shell.home / "run.py"
    script.write_text(OPEN_LOOP)
    ended = shell.sh(sys.executable, script, engine, shell.file, shell.work)
    (attempt,) = shell.attempts(engine)
    assert attempt["outcome"] == "ok", (attempt["why"], ended)
    (sample,) = attempt["samples"]
    assert sample["void"] is None and sample["errors"] == 0 and sample["response"] is not None
    assert sample["checked"] == sample["operations"] >= 0.99 * sample["due"]
    assert 900 < sample["due"] < 1_100
    assert not shell.alive() and not shell.left()


OPEN_LOOP = """
import resource
import sys
from dataclasses import replace
from pathlib import Path
from dyno.options import RunRequest
from dyno.runner import parent, plan

if __name__ == "__main__":
    engine, file, work = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    params = {"records": [2000], "txn": [1], "rate": [1000]}
    engines = [{"name": engine, "client": "native"}]
    request = RunRequest("records", engines=engines, params=params, phases=["rand-key"], clients=[512], samples=1,
                         duration=1, retries=0)
    whole = plan.make(request)
    cells = [cell for cell in whole.cells if cell.engine == engine]
    parent.execute(replace(whole, cells=cells), Path(file), Path(work))
"""
