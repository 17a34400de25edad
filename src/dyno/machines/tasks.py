"""Functions that Dyno calls in Dask's workers on other machines.

A worker has an event loop and heartbeats, so nothing is measured in its process. Each function starts a child process
or talks to one. A phase has one child on each machine: `prepare` starts it, and `run` tells it when to begin. A child
begins at most once, and ends when its worker ends.

Hardly more than the standard library is imported here: a worker that does nothing for Dyno pays little.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO

from dyno.host.process import die_with_parent

CHILD = "dyno.measure.remote"
PREFIX = "dyno-remote-"
POLL_SECONDS = 0.2
ERROR_BYTES = 2_000


class ChildDied(Exception):
    """A child process ended without an answer."""


def write_frame(descriptor: int, payload: bytes) -> None:
    """Writes the payload after its length, as 8 bytes."""
    left = memoryview(len(payload).to_bytes(8, "big") + payload)
    while left:
        left = left[os.write(descriptor, left) :]


def read_frame(descriptor: int) -> bytes:
    """Reads a payload that `write_frame` wrote. Raises EOFError if the other side has closed."""
    return _read(descriptor, int.from_bytes(_read(descriptor, 8), "big"))


def _read(descriptor: int, count: int) -> bytes:
    pieces, left = list[bytes](), count
    while left:
        piece = os.read(descriptor, min(left, 1 << 20))
        if not piece:
            raise EOFError("closed in the middle of a message")
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


class _Child:
    """A process with the module CHILD, and its directory."""

    def __init__(self) -> None:
        self.begun = False
        self.home = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", CHILD, str(self.home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            # A Ctrl-C in the worker's terminal must not reach it: the worker's end does.
            start_new_session=True,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()

    def ask(self, question: bytes, unwanted: Callable[[], bool]) -> bytes:
        """Returns the answer to a question. Raises ChildDied if the child ends, or if the answer is `unwanted`
        meanwhile."""
        try:
            write_frame(self._to, question)
            while not select.select([self._from], [], [], POLL_SECONDS)[0]:
                if unwanted():
                    raise ChildDied("nobody waits for its answer any more")
            return read_frame(self._from)
        except (EOFError, OSError):
            status = self._process.wait()
            self._errors.seek(max(self._errors.seek(0, os.SEEK_END) - ERROR_BYTES, 0))
            lines = self._errors.read().decode(errors="replace").strip().splitlines()
            last = ""
            if lines:
                last = f": {lines[-1]}"
            raise ChildDied(f"the process of its clients ended with status {status}{last}") from None

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def end(self) -> None:
        with suppress(OSError):
            os.killpg(self._process.pid, 9)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        shutil.rmtree(self.home, ignore_errors=True)


_children: dict[str, _Child] = {}
"""The children by their phase's token."""


def prepare(token: str, job: bytes) -> bytes:
    """Starts the child of a phase. Returns its answer when its clients are about to start. Raises ChildDied."""
    _remove_abandoned()
    child = _children[token] = _Child()
    try:
        return child.ask(job, _make_abort_check())
    except BaseException:
        end(token)
        raise


def run(token: str, moment_ns: int) -> bytes:
    """Starts the prepared clients at a moment on this machine's monotonic clock; returns the answer of their child.
    Raises LookupError if nothing is prepared or it has begun before, TimeoutError if the moment has passed, and
    ChildDied."""
    child = _children.get(token)
    if child is None or child.begun:
        raise LookupError("its clients were not prepared, or have begun before")
    child.begun = True
    try:
        if time.monotonic_ns() > moment_ns:
            raise TimeoutError("the start arrived too late")
        return child.ask(moment_ns.to_bytes(16, "big", signed=True), _make_abort_check())
    finally:
        end(token)


def end(token: str) -> None:
    """Ends the child of a phase, if there is one."""
    if (child := _children.pop(token, None)) is not None:
        child.end()


def describe() -> bytes:
    """Returns the description of this machine by a child. Raises ChildDied."""
    child = _Child()
    try:
        return child.ask(b"", _make_abort_check())
    finally:
        child.end()


def clock_ns() -> int:
    """Returns this machine's monotonic clock."""
    return time.monotonic_ns()


def _make_abort_check() -> Callable[[], bool]:
    """Returns a function that tells whether the current task's result is not wanted any more: Dyno's process has
    ended, or has lost another machine."""
    from distributed import get_worker

    try:
        worker = get_worker()
        key = worker.get_current_task()
    except (ValueError, AttributeError):
        # Not called by a worker.
        return lambda: False

    def is_unwanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state != "executing"

    return is_unwanted


def _remove_abandoned() -> None:
    """Ends children that gave up waiting for their start, and removes the directories of killed workers' children."""
    for token in [token for token, child in _children.items() if child.ended]:
        end(token)
    for home in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        process = home.name.removeprefix(PREFIX).partition("-")[0]
        if process.isdecimal() and not Path(f"/proc/{process}").exists():
            shutil.rmtree(home, ignore_errors=True)


# -- a whole plan -------------------------------------------------------------------------------------------------

RUN, PLAN = "run.json", "plan.toml"
INTERRUPTED_SECONDS = 30
PIECE_BYTES = 4 << 20
_plans: list[Path] = []
"""The directory of the plan that this worker executes."""


def run_plan(plan: str, so_far: bytes) -> tuple[int, str, bytes]:
    """Executes a plan file's text by `dyno run`, which continues a run file with these contents. Returns the exit
    status, the last line of its messages, and the run file."""
    unwanted = _make_abort_check()
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-") as place, tempfile.TemporaryFile() as messages:
        home = Path(place)
        _plans[:] = [home]
        (home / PLAN).write_text(plan)
        if so_far:
            (home / RUN).write_bytes(so_far)
        words = [PLAN, "-o", RUN, *(["--resume"] if so_far else [])]
        process = subprocess.Popen(
            [sys.executable, "-m", "dyno", "run", *words],
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=messages,
            start_new_session=True,
            # The thread of this task lives as long as the process.
            preexec_fn=partial(die_with_parent, os.getpid(), signal.SIGINT),
        )
        try:
            while process.poll() is None:
                time.sleep(POLL_SECONDS)
                if unwanted():
                    process.send_signal(signal.SIGINT)
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(INTERRUPTED_SECONDS)
                    break
        finally:
            process.kill()
            status = process.wait()
        messages.seek(max(messages.seek(0, os.SEEK_END) - ERROR_BYTES, 0))
        lines = messages.read().decode(errors="replace").strip().splitlines()
        run = home / RUN
        content = b""
        if run.exists():
            content = run.read_bytes()
    return status, lines[-1] if lines else "", content


def read_run(offset: int) -> bytes:
    """Returns the next piece of the run file of the plan that this worker executes; empty at its end."""
    if not _plans or not (path := _plans[0] / RUN).exists():
        return b""
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(PIECE_BYTES)
