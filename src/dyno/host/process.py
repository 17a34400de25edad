"""How Dyno's processes hang together."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def die_with_parent(parent: int) -> None:
    """Asks the kernel for SIGKILL when the process `parent` dies, so that no engine outlives a killed run.

    Only Linux has it; elsewhere a killed run leaves its trial to end by itself.
    """
    if sys.platform == "linux":
        from ctypes import CDLL

        CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # It may have died before the kernel was asked.
        if os.getppid() != parent:
            os._exit(1)


def adopt_orphans() -> None:
    """Has the kernel make what this process's descendants leave behind its own children. Only Linux can."""
    if sys.platform == "linux":
        from ctypes import CDLL

        CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def environment() -> dict[str, str]:
    """For an interpreter that is started in another directory: no path is relative to this one, and text is UTF-8
    whatever the locale."""
    paths = [str(Path(p).absolute()) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUTF8": "1"}


def running(pid: int) -> bool:
    """Whether there is such a process that has not ended: one that has stays until its parent waits for it."""
    import psutil

    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


@contextmanager
def nothing_left() -> Iterator[None]:
    """Kills whatever was started in the block and is still there at its end, however far it has gone.

    Orphans are adopted, so that one which took a session of its own is found too. What a process that was there
    before has started since, a server perhaps, is left alone.
    """
    import psutil

    adopt_orphans()
    here = psutil.Process()
    before = set(here.children(recursive=True))
    try:
        yield
    finally:
        now = here.children(recursive=True)
        left = [process for process in now if process not in before and not _belongs(process, before)]
        for process in left:
            # One that has become another user's is not ours to end.
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=5)


def _belongs(process: psutil.Process, owners: set[psutil.Process]) -> bool:
    """Whether one of `owners` is among the process's ancestors."""
    import psutil

    with suppress(psutil.NoSuchProcess):
        return any(parent in owners for parent in process.parents())
    return False
