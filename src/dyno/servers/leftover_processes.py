"""Which processes serve from a directory, written there, so that what a killed run leaves behind is found and ended.

A server asks the kernel to end with its parent (`process`); this is for what survives that.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

from dyno.host import filesystem, trust
from dyno.host.process import running

RECORD = "dyno-server.json"
PATIENCE = 10
BIRTHS_APART = 1.0
"""Seconds by which two readings of one process's birth may differ: the clock of the machine may be set."""
_IPC_RMID = 0


def record(home: Path, pid: int) -> None:
    """Writes that the process serves from `home`. Its time of birth tells it from a later one of that number."""
    with suppress(psutil.NoSuchProcess):
        trust.write(home / RECORD, json.dumps({"pid": pid, "born": psutil.Process(pid).create_time()}))


def forget(home: Path) -> None:
    (home / RECORD).unlink(missing_ok=True)


def recorded(root: Path) -> list[psutil.Process]:
    """The servers that are recorded in `root` or below, and still there."""
    return [process for file in _records(root) if (process := _of(file)[1])]


def clear(root: Path) -> None:
    """Ends every server that is recorded in `root` or below."""
    for file in _records(root):
        pid, process = _of(file)
        if process is not None:
            kill(family(process.pid))
        elif pid is not None:
            _remove_segments({pid})
        file.unlink(missing_ok=True)


def _records(root: Path) -> list[Path]:
    return [file for file in filesystem.files(root) if file.name == RECORD]


def _of(file: Path) -> tuple[int | None, psutil.Process | None]:
    """The number of the recorded process, and that process unless it is gone or another bears its number now. A
    record that another user could have written counts for nothing."""
    try:
        told = json.loads(trust.read(file) or "")
        pid, born = int(told["pid"]), float(told["born"])
    except (ValueError, KeyError, TypeError):
        return None, None
    try:
        process = psutil.Process(pid)
        return pid, process if abs(process.create_time() - born) < BIRTHS_APART else None
    except psutil.Error:
        return pid, None


def family(pid: int) -> list[psutil.Process]:
    """A process and its descendants; nothing for one that is gone."""
    try:
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def kill(found: list[psutil.Process]) -> None:
    """SIGKILL to these; returns when they are gone, and their shared memory with them."""
    for process in found:
        # Which does nothing where another process bears its number by now.
        with suppress(psutil.NoSuchProcess):
            process.kill()
    deadline = time.monotonic() + PATIENCE
    while any(running(process.pid) for process in found if process.is_running()) and time.monotonic() < deadline:
        time.sleep(0.002)
    _remove_segments({process.pid for process in found})


def _remove_segments(makers: set[int]) -> None:
    """System V shared memory that these processes made, and that nobody uses: it outlives SIGKILL."""
    if sys.platform != "linux":
        return
    try:
        head, *lines = Path("/proc/sysvipc/shm").read_text().splitlines()
    except (OSError, ValueError):
        return
    names = head.split()
    for line in lines:
        row = dict(zip(names, line.split(), strict=False))
        with suppress(KeyError, ValueError):
            if int(row["cpid"]) in makers and int(row["nattch"]) == 0:
                ctypes.CDLL(None).shmctl(int(row["shmid"]), _IPC_RMID, None)
