"""Native load on real servers: every supported phase, wrong answers, and a server that dies."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from needed import require, unavailable
from shell import Shell

from dyno import registry

PHASES = "insert-blind-indices,rand-key,rand-index,update,mixed,delete"
SMALL = ("-p", "txn=1", "--samples", 1, "--duration", 0.3)


@pytest.mark.parametrize("clients", [1, 5])
@pytest.mark.parametrize("engine", ["redis", "valkey", "postgresql", "mariadb", "ferretdb"])
def test_every_phase_of_single_operations(engine: str, clients: int, shell: Shell) -> None:
    require(registry.engine(engine))
    words = ("run", "records", "-e", engine, "--load", "native", "--clients", clients, "--phases", PHASES)
    # FerretDB reads its whole collection to find a record.
    records = 100 if engine == "ferretdb" else 2000
    ended = shell.dyno(*words, *SMALL, "-p", f"records={records}", "-p", "mix=f", "-o", shell.file)
    assert ended.status == 0, ended
    assert f"{engine}:client=native" in ended.out
    attempts = shell.attempts(engine)
    assert [len(attempt["samples"]) for attempt in attempts] == [6]
    for attempt in attempts:
        for sample in attempt["samples"]:
            assert sample["void"] is None and sample["errors"] == 0 and sample["operations"] > 0, sample
            assert sample["checked"] >= sample["operations"] or "insert" in sample["phase"], sample
    assert not shell.alive() and not shell.left()


def test_an_open_loop_reports_response_times(shell: Shell) -> None:
    require(registry.engine("redis"))
    words = (
        "run",
        "records",
        "-e",
        "redis",
        "--load",
        "native",
        "--clients",
        8,
        "--phases",
        "rand-key",
        "--rate",
        500,
    )
    ended = shell.dyno(*words, "-p", "records=2000", "-p", "txn=1", "--samples", 1, "--duration", 1, "-o", shell.file)
    assert ended.status == 0, ended
    (attempt,) = shell.attempts("redis")
    (sample,) = attempt["samples"]
    assert sample["response"] is not None and 400 < sample["operations"] <= sample["due"] < 600


def test_what_has_no_native_load_is_refused(shell: Shell) -> None:
    require(registry.engine("postgresql"))
    ended = shell.dyno("run", "series", "-e", "postgresql", "--load", "native", "-o", shell.file)
    assert ended.status == 2 and "postgresql has no native load in suite series" in ended.err
    assert not shell.file.exists()


@contextmanager
def redis_server(place: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A server that the test starts itself, and its socket."""
    program = shutil.which("redis-server")
    if program is None:
        unavailable("redis-server is not installed")
    path = place / "redis.sock"
    command = [program, "--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(place)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            while not path.exists():
                assert process.poll() is None
                time.sleep(0.05)
            yield process, path
        finally:
            process.kill()


class Proxy:
    """Passes bytes between clients and the server. After `healthy` intact responses to GET, it changes one byte of
    the record in the next response.
    """

    def __init__(self, path: Path, healthy: int) -> None:
        self._path, self._left = path, healthy
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(self._path))
                for source, target, changes in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._pass, args=(source, target, changes), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, changes: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(self._changed(data) if changes else data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _changed(self, data: bytes) -> bytes:
        # The suite encodes a record as a map of three texts.
        if not data.startswith(b"$") or b"\x83\xa4name" not in data:
            return data
        with self._lock:
            self._left -= 1
            return data[:-10] + bytes([data[-10] ^ 1]) + data[-9:] if self._left == 0 else data

    def close(self) -> None:
        self._listener.close()


def test_one_wrong_byte_in_many_answers_voids_the_row(shell: Shell, place: Path) -> None:
    require(registry.engine("redis"))
    with redis_server(place) as (_, path):
        proxy = Proxy(path, healthy=20_000)
        try:
            words = ("run", "records", "-e", f"redis:url={proxy.url}", "--load", "native", "--clients", 4)
            ended = shell.dyno(
                *(*words, "--phases", "rand-key", "-p", "records=5000", "-p", "txn=1", "--samples", 1),
                *("--duration", 30, "--retries", 0, "-o", shell.file),
            )
        finally:
            proxy.close()
    assert ended.status in (1, 3), ended
    (attempt,) = shell.attempts("redis")
    (sample,) = attempt["samples"]
    assert "record" in sample["void"]


def test_a_server_that_dies_is_an_error_in_one_line(shell: Shell, place: Path) -> None:
    require(registry.engine("redis"))
    with redis_server(place) as (server, path):
        words = ("run", "records", "-e", f"redis:url=unix://{path}", "--load", "native", "--clients", 4)
        options = ("--phases", "rand-key", "-p", "records=2000", "-p", "txn=1", "--samples", 1, "--duration", 60)
        with shell.started(*words, *options, "--retries", 0, "-o", shell.file) as run:
            deadline = time.monotonic() + 60
            while not _serves_get(path) and time.monotonic() < deadline:
                time.sleep(0.1)
            server.kill()
            out, err = run.communicate(timeout=60)
    assert run.returncode in (1, 3), (out, err)
    (attempt,) = shell.attempts("redis")
    assert attempt["outcome"] != "ok" and "\n" not in attempt["why"] and "connection" in attempt["why"].lower()


def _serves_get(path: Path) -> bool:
    """Whether the server has answered many reads, so that the phase has begun."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(b"INFO commandstats\r\n")
        text = client.recv(1 << 16).decode()
    calls = [line.split("calls=")[1].split(",")[0] for line in text.splitlines() if line.startswith("cmdstat_get:")]
    return bool(calls) and int(calls[0]) > 5_000
