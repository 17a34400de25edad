"""Lifetimes of child processes: they die with their parent, and none is left behind."""

import json
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypedDict


class SessionArguments(TypedDict):
    """Arguments of `subprocess`, as `own_session` returns them."""

    env: dict[str, str]
    start_new_session: bool
    preexec_fn: Callable[[], object]


USERS = "DYNO_USERS_ENVIRONMENT"
"""Name of the variable with the user's values of the variables that Dyno sets."""
DIRECTORY = "DYNO_USERS_DIRECTORY"
"""Name of the variable with the current directory of the run's process."""
BIRTH_TOLERANCE_SECONDS = 2.0
"""Allowed difference between two readings of a process's time of birth, since the clock may be adjusted."""
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def die_with_parent(parent: int, by: signal.Signals = signal.SIGKILL) -> None:
    """Makes the kernel end this process when the process `parent` dies, so that no engine outlives a killed run."""
    _prctl(_PR_SET_PDEATHSIG, by)
    # The parent may have died before the call.
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Makes this process the parent of orphans among its descendants."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    from ctypes import CDLL

    CDLL(None).prctl(option, value)


def allow_open_files(count: int) -> None:
    """Raises this process's limit of open files to `count`, or as far as its hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        most = count
    else:
        most = min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def environment() -> dict[str, str]:
    """Returns the environment variables for an interpreter that starts in another directory.

    PYTHONPATH has absolute paths, and Python uses UTF-8 in every locale.
    """
    paths = [str(Path(p).absolute()) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUTF8": "1"}


def users_environment() -> dict[str, str]:
    """Returns the environment variables as the user has them, in a process that was started with `for_worker`."""
    changed = json.loads(os.environ.get(USERS, "{}"))
    known = {name: value for name, value in os.environ.items() if name != USERS and name not in changed}
    return {**known, **{name: value for name, value in changed.items() if value is not None}}


def users_directory() -> Path:
    """Returns the current directory of the run's process, in a process that was started with `for_worker`."""
    return Path(os.environ.get(DIRECTORY, "."))


PADDING = "DYNO_PADDING"
"""Environment variable whose length differs from block to block."""


def for_worker(padding: int = 0) -> dict[str, str]:
    """Returns the environment variables of a process that forks workers. A fixed hash seed gives sets the same order
    in each trial. `padding`: bytes by which the environment grows."""
    changed = {**environment(), "PYTHONHASHSEED": "0", PADDING: "x" * padding}
    # The directory may have been removed.
    with suppress(OSError):
        changed[DIRECTORY] = str(Path.cwd())
    users = {name: os.environ.get(name) for name, value in changed.items() if os.environ.get(name) != value}
    return {**changed, USERS: json.dumps(users)}


def own_session() -> SessionArguments:
    """Returns the arguments with which `subprocess` starts an interpreter in its own session.

    The kernel kills it when this process dies.
    """
    parent = os.getpid()
    return {"env": environment(), "start_new_session": True, "preexec_fn": lambda: die_with_parent(parent)}


def is_running(pid: int, birth: float | None = None) -> bool:
    """Returns whether a process is running. Zombies don't count. `birth`, its time of birth in s since 1970,
    distinguishes it from others that have had its ID."""
    import psutil

    try:
        process = psutil.Process(pid)
        if birth is not None and abs(process.create_time() - birth) > BIRTH_TOLERANCE_SECONDS:
            return False
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


@contextmanager
def deferred_signals() -> Iterator[list[int]]:
    """Collects SIGINT and SIGTERM until the end of the block, for code that may neither end nor raise."""
    received: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = [signal.signal(number, lambda number, _: received.append(number)) for number in numbers]
    try:
        yield received
    finally:
        for number, handler in zip(numbers, handlers, strict=True):
            signal.signal(number, handler)


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
        left = []
        for process in here.children(recursive=True):
            # This process may lack the right to kill a process that changed its user.
            with suppress(psutil.Error):
                if not before & {process, *process.parents()}:
                    left.append(process)
                    process.kill()
        psutil.wait_procs(left, timeout=5)
