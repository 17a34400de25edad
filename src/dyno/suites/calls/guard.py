"""Notices what a user's function does to its process, which would end in wrong figures or harm Dyno's loop."""

from __future__ import annotations

import mmap
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from dyno.contracts.model import Caveat

DYNO = str(Path(__file__).parents[2])
FORKER = "multiprocessing/popen_fork.py"
"""File of the standard library whose children end by themselves."""
STANDARD = ("standard input", "standard output", "standard error")
CLOCKS = ("time", "monotonic", "perf_counter", "time_ns", "monotonic_ns", "perf_counter_ns", "process_time")
OUTPUT_BYTES = 1 << 20
PATIENCE_S = 0.05
"""How long a child that came back may take to report it."""


class Guard:
    """Compares the state of the process with that at the guard's creation. It must be created once in a process: its
    fork handlers stay registered, and hold for processes that are forked from it."""

    def __init__(self) -> None:
        self._children_came_back = mmap.mmap(-1, 1)
        self._forks = 0
        self._active = False
        self._clocks = {name: getattr(time, name) for name in CLOCKS}
        self._files = [_file(descriptor) for descriptor in range(len(STANDARD))]
        self._begin()
        os.register_at_fork(after_in_parent=self._forked, after_in_child=self._in_child)

    def _begin(self) -> None:
        self._directory, self._threads, self._output = Path.cwd(), threading.active_count(), _size()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watches the block, in which the user's code runs."""
        self._active = True
        self._begin()
        try:
            yield
        finally:
            self._active = False

    # -- forks ----------------------------------------------------------------------------------------------

    def _forked(self) -> None:
        self._forks += self._active

    def _in_child(self) -> None:
        """Traces the outermost frame of the user's, so that the child ends when it would return to Dyno."""
        if not self._active:
            return
        user: FrameType | None = None
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not frame.f_code.co_filename.startswith(DYNO):
            if frame.f_code.co_filename.endswith(FORKER):
                return
            user, frame = frame, frame.f_back
        if frame is None:
            # Another thread forked; its end is that of the child.
            return
        traced = user or frame
        traced.f_trace = self._end_child if user is None else self._end_at_return
        sys.settrace(_trace_nothing)

    def _end_at_return(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "return":
            self._end_child(frame, event, argument)
        return self._end_at_return

    def _end_child(self, frame: FrameType, event: str, argument: Any) -> Any:
        self._children_came_back[0] = 1
        os._exit(0)

    # -- findings -------------------------------------------------------------------------------------------

    def forked(self) -> str | None:
        """Returns what is wrong if a child of the function has returned from it."""
        if not self._children_came_back[0]:
            return None
        return "it forks, and the child returns from the function too: end a child with os._exit"

    def wrong(self) -> str | None:
        """Returns what the function did that makes its figures void; None if nothing."""
        if self._forks:
            time.sleep(PATIENCE_S)
        if why := self.forked():
            return why
        for descriptor, (name, before) in enumerate(zip(STANDARD, self._files, strict=True)):
            if (now := _file(descriptor)) != before:
                how = "closed" if now is None else "replaced"
                return f"it {how} descriptor {descriptor}, {name}"
        directory = None
        with suppress(OSError):
            directory = Path.cwd()
        if directory != self._directory:
            return f"it changed the current directory from {self._directory} to {directory or 'one that is gone'}"
        return None

    def caveats(self) -> Iterator[Caveat]:
        if (threads := threading.active_count() - self._threads) > 0:
            yield Caveat("threads", f"left {threads} thread{'s' * (threads > 1)} running, which may share its cores")
        if replaced := [name for name, clock in self._clocks.items() if getattr(time, name, None) is not clock]:
            yield Caveat("clock", f"replaced time.{replaced[0]}, which Dyno does not use")
        if (written := _size() - self._output) > OUTPUT_BYTES:
            yield Caveat("output", f"wrote {written >> 20} MiB to its output, which is a file here")


def _trace_nothing(frame: FrameType, event: str, argument: Any) -> None:
    return None


def _file(descriptor: int) -> tuple[int, int] | None:
    """Returns the file of a descriptor, by device and inode; None if it is closed."""
    try:
        about = os.fstat(descriptor)
    except OSError:
        return None
    return about.st_dev, about.st_ino


def _size() -> int:
    with suppress(OSError):
        return os.fstat(1).st_size
    return 0
