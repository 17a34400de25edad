"""A local Dask cluster: a scheduler and workers, each in its own process."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from dyno.host.process import running
from dyno.servers.process import Process

HOST = "127.0.0.1"
QUIET = ("--no-dashboard", "--host", HOST)


class Cluster:
    """See `dyno.contracts.engine.Server`. The port calls `launch`, because starting the cluster is part of what is
    measured. A dead worker is not replaced: its data is lost, and the trial fails."""

    own = True

    def __init__(self, home: Path, workers: int, threads: int) -> None:
        self._home, self.workers, self._threads = home, workers, threads
        self._scheduler_file = home / "scheduler.json"
        self._processes: list[Process] = []

    def start(self) -> None:
        self._home.mkdir(parents=True, exist_ok=True)

    def launch(self) -> str:
        """Starts the cluster unless it runs; returns the scheduler's address."""
        scheduler = ("--scheduler-file", str(self._scheduler_file))
        if not self._processes:
            self._scheduler_file.unlink(missing_ok=True)
            self._start("scheduler", ("scheduler", "--port", "0", *scheduler, *QUIET), lambda: bool(self._address()))
            for number in range(self.workers):
                own = ("--no-nanny", "--nthreads", str(self._threads), "--memory-limit", "0", "--name", str(number))
                directory = ("--local-directory", str(self._home / f"worker-{number}"), "--death-timeout", "20")
                # Don't wait here: the scheduler knows when the worker has arrived.
                self._start(f"worker-{number}", ("worker", *scheduler, *own, *directory, *QUIET), lambda: True)
        return self._address()

    def _address(self) -> str:
        try:
            return str(json.loads(self._scheduler_file.read_text())["address"])
        except (OSError, ValueError, KeyError):
            # The file is not written yet, or only in part.
            return ""

    def _start(self, name: str, arguments: Sequence[str], ready: Callable[[], bool]) -> None:
        home = self._home / name
        home.mkdir(exist_ok=True)
        process = Process([sys.executable, "-m", "dask", *arguments], home, ready)
        process.start()
        self._processes.append(process)

    def whole(self) -> bool:
        """Returns whether all processes still run."""
        return all(map(running, self.pids()))

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.stop()
        self._processes.clear()

    def kill(self) -> None:
        for process in reversed(self._processes):
            process.kill()
        self._processes.clear()

    close = kill

    def pids(self) -> Iterable[int]:
        return [pid for process in self._processes for pid in process.pids()]
