"""Records which servers run in a directory, so that servers of a killed run can be found and killed.

The kernel kills a server when its parent dies (see `process`). The records are for processes that survive this.
"""

import ctypes
import json
import time
from contextlib import suppress
from pathlib import Path

import psutil

from dyno.host import filesystem, trust
from dyno.host.process import is_running

RECORD = "dyno-server.json"
TIMEOUT_SECONDS = 10
_IPC_RMID = 0


def record_process(home: Path, pid: int) -> None:
    """Records that the process serves from `home`, with its time of birth, because process IDs are reused."""
    with suppress(psutil.NoSuchProcess):
        trust.write(home / RECORD, json.dumps({"pid": pid, "born": psutil.Process(pid).create_time()}))


def forget(home: Path) -> None:
    (home / RECORD).unlink(missing_ok=True)


def find_recorded(root: Path) -> list[psutil.Process]:
    """Returns the running servers that are recorded in `root` or below."""
    files = (file for file in filesystem.files(root) if file.name == RECORD)
    return [process for file in files if (process := _read(file)[1])]


def clear(root: Path) -> None:
    """Kills all servers that are recorded in `root` or below."""
    for file in (file for file in filesystem.files(root) if file.name == RECORD):
        pid, process = _read(file)
        if process is not None:
            kill(family(process.pid))
        elif pid is not None:
            _remove_segments({pid})
        file.unlink(missing_ok=True)


def _read(file: Path) -> tuple[int | None, psutil.Process | None]:
    """Returns the recorded process ID, and the process. The process is None if it is gone, or if another one has the
    ID now. Ignores a record that another user could have written."""
    try:
        record = json.loads(trust.read(file) or "")
        pid, born = int(record["pid"]), float(record["born"])
    except (ValueError, KeyError, TypeError):
        return None, None
    try:
        return pid, psutil.Process(pid) if is_running(pid, born) else None
    except psutil.Error:
        return pid, None


def family(pid: int) -> list[psutil.Process]:
    """Returns a process and its descendants; an empty list if the process is gone."""
    try:
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def kill(processes: list[psutil.Process]) -> None:
    """Sends SIGKILL to the processes; returns when they are gone, and removes their shared memory."""
    for process in processes:
        # psutil sends no signal if another process has the ID now.
        with suppress(psutil.NoSuchProcess):
            process.kill()
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while (
        any(is_running(process.pid) for process in processes if process.is_running()) and time.monotonic() < deadline
    ):
        time.sleep(0.002)
    _remove_segments({process.pid for process in processes})


def _remove_segments(creators: set[int]) -> None:
    """Removes unused System V shared memory that these processes created, because it outlives SIGKILL."""
    try:
        head, *lines = Path("/proc/sysvipc/shm").read_text().splitlines()
    except (OSError, ValueError):
        return
    names = head.split()
    for line in lines:
        row = dict(zip(names, line.split(), strict=False))
        with suppress(KeyError, ValueError):
            if int(row["cpid"]) in creators and int(row["nattch"]) == 0:
                ctypes.CDLL(None).shmctl(int(row["shmid"]), _IPC_RMID, None)
