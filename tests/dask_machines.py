"""A scheduler of Dask with workers at different addresses of this machine, which Dyno takes for different ones."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from certificates import Authority

PATIENCE = 60.0


def free_port(host: str) -> int:
    with socket.socket() as free:
        free.bind((host, 0))
        return int(free.getsockname()[1])


class Machines:
    """The scheduler, and a worker for each name. With an authority, everything uses TLS. `prefixes`: commands that
    start a worker elsewhere, such as in a network namespace, by name."""

    def __init__(
        self,
        home: Path,
        names: Sequence[str],
        environment: Mapping[str, str],
        authority: Authority | None = None,
        host: str = "127.0.0.1",
        hosts: Mapping[str, str] | None = None,
        prefixes: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._home, self._environment, self._authority = home, dict(environment), authority
        self._hosts = hosts or {name: f"127.0.0.{2 + at}" for at, name in enumerate(names)}
        self._prefixes = prefixes or {}
        kind = "tcp" if authority is None else "tls"
        self._port, self._host = free_port(host), host
        self.address = f"{kind}://{host}:{self._port}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._names = names
        self._start_all()

    def _start_all(self) -> None:
        self.start_scheduler()
        for name in self._names:
            self.start(name)

    def restart_ended(self) -> None:
        """Starts the workers that a test killed; all of them, if it killed the scheduler."""
        if self.processes["scheduler"].poll() is not None:
            self.close()
            self._start_all()
        for name in self._names:
            if self.processes[name].poll() is not None:
                self.start(name)

    def _tls(self) -> list[str]:
        if self._authority is None:
            return []
        files = {
            "ca-file": self._authority.authority,
            "cert": self._authority.certificate,
            "key": self._authority.key,
        }
        return [word for name, path in files.items() for word in (f"--tls-{name}", str(path))]

    @property
    def client(self) -> dict[str, str]:
        """Environment variables with which Dask's client finds its certificate."""
        if self._authority is None:
            return {}
        stem = "DASK_DISTRIBUTED__COMM__TLS__"
        return {
            f"{stem}CA_FILE": str(self._authority.authority),
            f"{stem}CLIENT__CERT": str(self._authority.certificate),
            f"{stem}CLIENT__KEY": str(self._authority.key),
        }

    def start_scheduler(self) -> None:
        words = ["distributed.cli.dask_scheduler", "--host", self._host, "--port", str(self._port)]
        kind = [] if self._authority is None else ["--protocol", "tls"]
        self._start("scheduler", [*words, *kind, "--no-dashboard", "--no-show", *self._tls()])
        deadline = time.monotonic() + PATIENCE
        while socket.socket().connect_ex((self._host, self._port)):
            assert time.monotonic() < deadline, self.printed("scheduler")
            time.sleep(0.05)

    def start(self, name: str) -> None:
        """Starts a worker, and returns when the scheduler knows it."""
        words = ["distributed.cli.dask_worker", self.address, "--host", self._hosts[name], "--name", name]
        self._start(name, [*words, "--no-nanny", "--nthreads", "2", "--no-dashboard", *self._tls()])
        deadline = time.monotonic() + PATIENCE
        while "Registered to" not in self.printed(name):
            assert time.monotonic() < deadline, self.printed(name)
            time.sleep(0.05)

    def _start(self, name: str, words: Sequence[str]) -> None:
        with (self._home / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [*self._prefixes.get(name, ()), sys.executable, "-m", *words],
                cwd=self._home,
                env={**self._environment, **self.client},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def printed(self, name: str) -> str:
        return (self._home / f"{name}.log").read_text(errors="replace")

    def kill(self, name: str) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.processes[name].pid, signal.SIGKILL)
        self.processes[name].wait()

    def children(self, name: str) -> list[int]:
        """Processes that run a phase's clients for this worker."""
        return [
            pid
            for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
            if b"dyno.measure.remote" in _read(pid, "cmdline") and _parent(pid) == self.processes[name].pid
        ]

    def close(self) -> None:
        # A worker says goodbye to its scheduler, and waits for one that has gone.
        for process in reversed(self.processes.values()):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _read(pid: int, name: str) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_bytes()
    return b""


def _parent(pid: int) -> int:
    fields = _read(pid, "stat").rpartition(b") ")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0
