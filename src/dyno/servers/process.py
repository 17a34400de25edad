"""The process of a server: started in a directory of its own, ended with the process that started it.

What is particular to one server (its program, its settings, how it tells that it is ready) may not be put here.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from pwd import getpwnam, struct_passwd
from typing import IO, Any

from dyno.contracts.model import Refused

READY_SECONDS, STOP_SECONDS = 60.0, 60.0
LOOK_SECONDS = 0.005
LONGEST_SOCKET = 107
"""Bytes in the path of a Unix socket: sun_path of unix(7), less the NUL."""
OUTPUT = "server.log"
_PR_SET_PDEATHSIG = 1


class Process:
    """One program that serves, as `user` where one is given: a `dyno.contracts.engine.Server` where that is all
    there is to it.

    `ready` tells whether it answers. At the signal `ending` it closes its files. It is sent `orphaned` when the
    process that started it dies. `environment`: variables of its own, beside those that are here. `patience`: seconds
    that it may take until it answers.
    """

    own = True

    def __init__(
        self,
        command: Sequence[str],
        home: Path,
        ready: Callable[[], bool],
        user: struct_passwd | None = None,
        ending: signal.Signals = signal.SIGTERM,
        orphaned: signal.Signals = signal.SIGKILL,
        environment: Mapping[str, str] | None = None,
        patience: float = READY_SECONDS,
    ) -> None:
        self.command, self.home = list(command), home
        self._environment = {**os.environ, **environment} if environment else None
        self._ready, self._user, self._ending, self._orphaned = ready, user, ending, orphaned
        self._patience = patience
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return Path(self.command[0]).name

    def start(self) -> None:
        """Returns when it answers. Raises Refused, with what it said last, where it does not come up."""
        # Its output is ours: what it may write to as another user is already open.
        with (self.home / OUTPUT).open("ab") as output:
            try:
                self._process = self._started(output)
            except OSError as error:
                raise Refused(f"{self.name} can't be started: {error}") from None
        from dyno.servers import leftover_processes

        leftover_processes.record(self.home, self._process.pid)
        deadline = time.monotonic() + self._patience
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                how = "ended" if self._process.poll() is not None else f"did not answer in {self._patience:g} s"
                self.kill()
                raise Refused(f"{self.name} {how}: {self._last_words()}")
            time.sleep(LOOK_SECONDS)

    def _started(self, output: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command,
            cwd=self.home,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_dying_with(os.getpid(), self._orphaned),
            **as_user(self._user),
        )

    def stop(self, by: signal.Signals | None = None) -> None:
        """Sends it `by`, or the signal that it ends by, and waits; kills it where that takes too long."""
        if self._process is None:
            return
        from dyno.servers import leftover_processes

        # Now, as those that outlive it will be nobody's children.
        family = leftover_processes.family(self._process.pid)
        self._process.send_signal(by or self._ending)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        leftover_processes.kill(family)
        self.kill()

    def kill(self) -> None:
        """SIGKILL to it and all its descendants; returns when they are gone."""
        # Imports psutil, which lists of engines do without.
        from dyno.servers import leftover_processes

        if self._process is not None:
            leftover_processes.kill(leftover_processes.family(self._process.pid))
            self._process.wait()
            leftover_processes.forget(self.home)
            self._process = None

    def close(self) -> None:
        self.kill()

    def pids(self) -> Iterable[int]:
        return () if self._process is None else (self._process.pid,)

    def _last_words(self) -> str:
        """The last line that tells of an error, or else the last of all."""
        lines = [line.strip() for line in (self.home / OUTPUT).read_text(errors="replace").splitlines()]
        said = [line for line in lines if line]
        errors = [at for at, line in enumerate(said) if re.search(r"\b(FATAL|PANIC|ERROR)\b", line, re.IGNORECASE)]
        if not errors:
            return (said or ["it said nothing"])[-1]
        # A server in Java says on the next line what it was.
        line, *after = said[errors[-1] : errors[-1] + 2]
        return " ".join([line, *(why for why in after if re.match(r"[\w.$]+(Exception|Error)\b", why))])


class Served:
    """What a server does by its only process: the rest of a `dyno.contracts.engine.Server`."""

    own = True
    _process: Process

    def stop(self) -> None:
        self._process.stop()

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._process.close()

    def pids(self) -> Iterable[int]:
        return self._process.pids()


def _dying_with(parent: int, orphaned: signal.Signals) -> Callable[[], None]:
    """What the new process does before it becomes the server: asks the kernel to be ended with its parent.

    Linux only, where it outlasts the change of user, which comes before it.
    """
    from ctypes import CDLL

    library = CDLL(None) if sys.platform == "linux" else None

    def ask() -> None:
        if library is not None:
            library.prctl(_PR_SET_PDEATHSIG, orphaned)
            if os.getppid() != parent:
                os._exit(1)

    return ask


def unprivileged(*names: str) -> struct_passwd | None:
    """The first of these users that there is, or nobody, where this process is root's; None where it is not."""
    if os.geteuid() != 0:
        return None
    for name in (*names, "nobody"):
        with suppress(KeyError):
            return getpwnam(name)
    raise Refused(f"root may not run it, and there is no user {names[0]} or nobody to run it as")


def as_user(user: struct_passwd | None) -> dict[str, Any]:
    """The arguments with which `subprocess` starts something as that user."""
    return {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def directory(home: Path, user: struct_passwd | None) -> Path:
    """`home`, made, and the user's own. Raises Refused where the user can't enter a directory above it."""
    home.mkdir(parents=True, exist_ok=True)
    if user is not None:
        shutil.chown(home, user.pw_uid, user.pw_gid)
        for above in home.resolve().parents:
            if not _may_enter(above.stat(), user):
                raise Refused(
                    f"it runs as user {user.pw_name}, who may not enter {above}; name another work directory,"
                    " such as --work /var/tmp/dyno"
                )
    home.chmod(0o700)
    return home


def shut(path: Path, user: struct_passwd) -> Path | None:
    """The directory above it, or above what it is a link to, that the user may not enter; None for none."""
    above = dict.fromkeys([*path.absolute().parents, *path.resolve().parents])
    return next((place for place in above if not _may_enter(place.stat(), user)), None)


def _may_enter(found: os.stat_result, user: struct_passwd) -> bool:
    if found.st_uid == user.pw_uid:
        return bool(found.st_mode & stat.S_IXUSR)
    return bool(found.st_mode & (stat.S_IXGRP if found.st_gid == user.pw_gid else stat.S_IXOTH))


def socket(path: Path) -> Path:
    """The path of a Unix socket, which is no longer than the kernel takes. Raises Refused."""
    if len(os.fsencode(path)) > LONGEST_SOCKET:
        raise Refused(
            f"the path of its socket is {len(os.fsencode(path))} bytes long, and {LONGEST_SOCKET} is the most: name a"
            " shorter work directory with --work"
        )
    return path


def program(*names: str, places: Iterable[Path] = ()) -> str | None:
    """Where the first of these programs is: on the PATH, in /usr/sbin, or in `places`."""
    # Administrators' programs are not on every user's path.
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin", *map(str, places)])
    return next((found for name in names if (found := shutil.which(name, path=path))), None)
