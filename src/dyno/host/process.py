"""Lifetimes of child processes: they die with their parent, and none is left behind."""

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


def die_with_parent(parent: int, by: signal.Signals = signal.SIGKILL) -> None:
    """Makes the kernel end this process when the process `parent` dies, so that no engine outlives a killed run.

    Linux only. On other systems the trial of a killed run ends by itself.
    """
    if sys.platform == "linux":
        from ctypes import CDLL

        CDLL(None).prctl(_PR_SET_PDEATHSIG, by)
        # The parent may have died before the call.
        if os.getppid() != parent:
            os._exit(1)


def adopt_orphans() -> None:
    """Makes this process the parent of orphans among its descendants. Linux only."""
    if sys.platform == "linux":
        from ctypes import CDLL

        CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def environment() -> dict[str, str]:
    """Returns the environment variables for an interpreter that starts in another directory.

    PYTHONPATH has absolute paths, and Python uses UTF-8 in every locale.
    """
    paths = [str(Path(p).absolute()) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUTF8": "1"}


def running(pid: int) -> bool:
    """Returns whether a process is running. Zombies don't count."""
    import psutil

    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


@contextmanager
def nothing_left() -> Iterator[None]:
    """Kills all processes that were started in the block and are still running at its end.

    Orphans are adopted first, so that processes in other sessions are found too. Children of a process from before
    the block, perhaps a server, are left alone.
    """
    import psutil

    adopt_orphans()
    here = psutil.Process()
    before = set(here.children(recursive=True))
    try:
        yield
    finally:
        after = here.children(recursive=True)
        left = [process for process in after if process not in before and not _has_ancestor(process, before)]
        for process in left:
            # This process may lack the right to kill a process that changed its user.
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=5)


def _has_ancestor(process: psutil.Process, candidates: set[psutil.Process]) -> bool:
    import psutil

    with suppress(psutil.NoSuchProcess):
        return any(parent in candidates for parent in process.parents())
    return False
