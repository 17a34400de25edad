"""Starts workers. Each worker is forked for its trial from a fork server, a clean process that has imported the
modules that workers need.

There is a fork server for each interpreter that engines run in, and for each version of a library:
`python -m dyno.runner.worker_pool FD PARENT SUITE`. It never imports an engine and never starts a thread.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGKILL
from time import sleep

import psutil

from dyno.host.interpreters import Python
from dyno.host.process import adopt_orphans, die_with_parent, for_worker
from dyno.measure.messages import TrialRequest, encode

REQUEST_BYTES = 1 << 16
DESCRIPTORS = 3
REPLY_BYTES = 64
PATIENCE_SECONDS = 60.0
"""Maximum time for a fork server to start and to fork a worker."""


PADDING_STEP, MOST_PADDING = 1_009, 4_096
"""Bytes from one block to the next, and their maximum. The step is prime, so that all alignments occur."""
MOST_SUFFIX = 8
"""Number of lengths of the path of a trial's directory."""


def name_trial(block: int, cell: int, attempt: int) -> str:
    """Returns the name of a trial's directory. Its length differs from block to block."""
    return f"trial-{block}-{cell}-{attempt}" + "-" * (block % MOST_SUFFIX)


class WorkerProcess(psutil.Process):
    """A child of this process that was forked by the fork server."""

    def poll(self) -> int | None:
        """Returns the exit status, or minus the signal that killed the process; None while it runs."""
        try:
            return self.wait(0)
        except psutil.TimeoutExpired:
            return None


def end(process: WorkerProcess | subprocess.Popen[bytes]) -> None:
    """Kills a worker or fork server with all processes of its session, and waits for it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, SIGKILL)
    if process.poll() is None:
        # Between fork and setsid the worker has no session of its own.
        os.kill(process.pid, SIGKILL)
    process.wait()


class WorkerStartError(Exception):
    """No worker could be started."""


class WorkerPool:
    """The fork server of one interpreter, as a child of the run's process."""

    def __init__(self, python: Python, suite: str, output: Path) -> None:
        self._python = python
        self._suite = suite
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def start_if_stopped(self, padding: int) -> None:
        """Starts the fork server if it is not running. `padding`: bytes added to its environment."""
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        adopt_orphans()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(PATIENCE_SECONDS)
        with theirs, self._output.open("wb") as printed:
            words = self._python.words(__name__, "-X", "faulthandler")
            self._process = subprocess.Popen(
                [*words, str(theirs.fileno()), str(os.getpid()), self._suite],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                cwd=self._output.parent,
                env=for_worker(padding),
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def fork(self, home: Path, stdin: int, stdout: int, results: int) -> WorkerProcess:
        """Forks a worker in `home` with these descriptors. Raises WorkerStartError."""
        assert self._control is not None
        pid = 0
        with suppress(OSError):
            socket.send_fds(self._control, [os.fsencode(home)], [stdin, stdout, results])
            pid = int(self._control.recv(REPLY_BYTES) or 0)
        if pid:
            return WorkerProcess(pid)
        self.close()
        lines = list[str]()
        with suppress(OSError):
            lines = self._output.read_text(errors="replace").strip().splitlines()
        reason = f": {lines[-1]}" if lines else ""
        raise WorkerStartError(f"{self._python.executable} could start no worker{reason}")

    def close(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            end(self._process)
            self._process = None


class WorkerPools:
    """The worker pools of a run, one for each interpreter and each version of a library. `home` is the run's work
    directory."""

    def __init__(self, suite: str, home: Path) -> None:
        self._suite, self._home = suite, home
        self._padding = 0
        self._by_python: dict[Python, WorkerPool] = {}

    def __enter__(self) -> WorkerPools:
        return self

    def __exit__(self, *error: object) -> None:
        self.renew()

    def renew(self, block: int = 0) -> None:
        """Ends the fork servers, so that the next worker comes from a new one, with an environment of another size
        for each block.

        Workers of one fork server share its memory layout, which can make code some percent faster or slower, and
        depends on the size of the environment (Mytkowicz et al., Producing Wrong Data Without Doing Anything
        Obviously Wrong, 2009). With a new fork server for each block, the layout is a part of the spread.
        """
        self._padding = block * PADDING_STEP % MOST_PADDING
        for pool in self._by_python.values():
            pool.close()

    def start_pool(self, python: Python) -> None:
        """Starts the fork server of an interpreter. Must be called before the watch for leftover processes, which
        would count the fork server."""
        if python not in self._by_python:
            output = self._home / f"worker-pool-{len(self._by_python)}.output"
            self._by_python[python] = WorkerPool(python, self._suite, output)
        self._by_python[python].start_if_stopped(self._padding)

    @contextmanager
    def worker(
        self,
        python: Python,
        home: Path,
        output: Path,
        request: TrialRequest,
        on_start: Callable[[int], object] = lambda pid: None,
    ) -> Iterator[tuple[WorkerProcess, int]]:
        """Yields a worker in a session of its own, and the reading end of its pipe. Kills the worker's processes at
        the end. `on_start` receives the process id before the request is sent. Raises WorkerStartError."""
        reading, writing = os.pipe()
        stdin, sending = os.pipe()
        try:
            with output.open("wb") as printed:
                process = self._by_python[python].fork(home, stdin, printed.fileno(), writing)
        except BaseException:
            os.close(reading)
            os.close(sending)
            raise
        finally:
            os.close(writing)
            os.close(stdin)
        try:
            with suppress(BrokenPipeError), os.fdopen(sending, "wb") as requests:
                on_start(process.pid)
                requests.write(encode(request))
            yield process, reading
        finally:
            os.close(reading)
            end(process)


# -- the fork server ----------------------------------------------------------------------------------------------


def serve(descriptor: int, parent: int, suite: str) -> None:
    """Forks workers until the socket `descriptor` is closed.

    A request has the directory of a trial and three descriptors: standard input, standard output, and the pipe for
    results. The reply is the worker's process id, or 0 if it could not be forked.
    """
    import gc

    from dyno import registry
    from dyno.measure import worker  # noqa: F401

    die_with_parent(parent)
    control = socket.socket(fileno=descriptor)
    control.set_inheritable(False)
    registry.prepare(suite)
    gc.collect()
    # Frozen because a collection in a worker would write to all shared pages, and so copy them.
    gc.freeze()
    while True:
        home, descriptors, _, _ = socket.recv_fds(control, REQUEST_BYTES, DESCRIPTORS)
        if not home:
            return
        _fork(control, home.decode(), descriptors, parent)


def _fork(control: socket.socket, home: str, descriptors: list[int], parent: int) -> None:
    """Forks twice. When the process in between ends, its orphan, the worker, becomes the run's own child."""
    reading, writing = os.pipe()
    between = os.fork()
    if between == 0:
        try:
            between = os.getpid()
            if pid := os.fork():
                os.write(writing, b"%d" % pid)
                os._exit(0)
            control.close()
            for descriptor in (reading, writing):
                os.close(descriptor)
            _become_worker(home, descriptors, between, parent)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    for descriptor in (*descriptors, writing):
        os.close(descriptor)
    # The worker is not the run's child until the process in between has ended.
    status = os.waitpid(between, 0)[1]
    with os.fdopen(reading, "rb") as pids:
        # Only one read: reading to the end would wait until the worker has closed its copy of the other end.
        control.send(b"0" if status else os.read(pids.fileno(), REPLY_BYTES))


def _become_worker(home: str, descriptors: list[int], between: int, parent: int) -> None:
    """Makes this process look to an engine as if it had been started for this trial alone."""
    import numpy.random

    from dyno.measure import worker

    os.setsid()
    stdin, stdout, results = descriptors
    for descriptor, standard in ((stdin, 0), (stdout, 1), (stdout, 2)):
        os.dup2(descriptor, standard)
    os.close(stdin)
    os.close(stdout)
    os.chdir(home)
    sys.path[0] = home
    # The module `random` seeds itself after a fork, NumPy doesn't.
    numpy.random.seed()
    while os.getppid() == between:
        sleep(0.000_1)
    worker.work(results, parent)


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
