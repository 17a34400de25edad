"""Records what a command does to the files below some directories.

The recorder is a process of its own (this module, run as a program): when it dies, so does all that it records.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

import msgspec

from dyno.crash import base, strace_recorder
from dyno.crash.record import VERSION, Header, Record, write
from dyno.host import interpreters
from dyno.host.process import die_with_parent, environment, nothing_left

GRACE_NS = 10_000_000_000
"""How long what the command has started may outlive it."""


class Job(msgspec.Struct):
    """What the recorder is told. Paths and words are absolute or found already."""

    command: list[str]
    environment: dict[str, str]
    identity: tuple[int, int, list[int]] | None
    known: list[base.Known]
    events: str
    grace_ns: int


def native() -> bool:
    """Whether the native recorder was built, which it is for Linux on x86-64."""
    try:
        from dyno import _native
    except ImportError:
        return False
    return hasattr(_native, "trace")


def unavailable() -> str | None:
    """Why nothing can be recorded here; None where it can."""
    if sys.platform != "linux":
        return "file changes can only be recorded on Linux"
    return None if native() else strace_recorder.unavailable()


def record(
    command: Sequence[str],
    roots: Sequence[Path],
    out: Path,
    env: Mapping[str, str] | None = None,
    user: str | None = None,
    timeout_seconds: float = 600,
    natively: bool | None = None,
    acknowledged: int = 0,
    begun: int = 0,
    stdout: int | IO[bytes] | None = None,
    stderr: int | IO[bytes] | None = None,
) -> Record:
    """Runs a command until it ends, with all processes and threads that it starts (a server too), and records what
    they do below `roots`, which exist. `out` is made. What outlives the command by 10 s is killed.

    `user`: as whom it runs, where this process is root's. `natively`: False for strace; None: natively where that can
    be had. `acknowledged`, `begun`: transactions before the command, of the record of a recovery.
    Raises FileExistsError for an `out` that is there, RuntimeError where it can't be recorded, TimeoutError.
    """
    places = [root.resolve(strict=True) for root in roots]
    out.mkdir(parents=True)
    nodes, known = base.scan(places)
    base.copy(places, nodes, out / "base")
    wanted = native() if natively is None else natively
    words = [_program(command[0]), *command[1:]]
    job = Job(words, dict(environment() if env is None else env), _identity(user), known, "", GRACE_NS)
    if wanted:
        job.events = str((out / "events").resolve())
        status = _run(job, out, timeout_seconds, stdout, stderr)
    else:
        job.events = str((out / "strace").resolve())
        status = _run(job, out, timeout_seconds, stdout, stderr, traced=True)
        with (out / "strace").open(errors="replace") as lines:
            write(
                out / "events", sorted(strace_recorder.events(lines, places, nodes, Path.cwd()), key=lambda e: e.end)
            )
        (out / "strace").unlink()
    header = Header(
        VERSION,
        [str(place) for place in places],
        nodes,
        "native" if wanted else "strace",
        list(command),
        status,
        acknowledged,
        begun,
    )
    (out / "record.json").write_bytes(msgspec.json.encode(header))
    return _checked(out)


def _checked(out: Path) -> Record:
    """With what it has not seen."""
    made = Record.load(out)
    if missed := base.unseen(made):
        made = replace(made, events=[*made.events, *missed])
        write(out / "events", made.events)
    return made


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise RuntimeError(f"there is no program {name}")
    return str(Path(found).absolute())


def _identity(user: str | None) -> tuple[int, int, list[int]] | None:
    if user is None:
        return None
    entry = pwd.getpwnam(user)
    return entry.pw_uid, entry.pw_gid, os.getgrouplist(user, entry.pw_gid)


def _run(
    job: Job,
    out: Path,
    timeout_seconds: float,
    stdout: int | IO[bytes] | None,
    stderr: int | IO[bytes] | None,
    traced: bool = False,
) -> int | None:
    """Has the recorder do it; returns the command's status, or its signal's number below 0."""
    told, answer = out / "job", out / "answer"
    told.write_bytes(msgspec.json.encode(job))
    told.chmod(0o600)
    words = [*interpreters.words(sys.executable, "dyno.crash.recorder"), str(told), str(answer)]
    parent = os.getpid()
    with nothing_left():
        try:
            done = subprocess.run(
                [*words, *(["strace"] if traced else [])],
                timeout=timeout_seconds,
                env=environment(),
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                preexec_fn=lambda: die_with_parent(parent),
            )
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{Path(job.command[0]).name} was not done after {timeout_seconds:g} s") from None
    if not answer.exists():
        raise RuntimeError(f"the recorder ended with status {done.returncode}")
    said = msgspec.json.decode(answer.read_bytes(), type=int | str | None)
    told.unlink()
    answer.unlink()
    if isinstance(said, str):
        raise RuntimeError(said)
    return said


def _main(told: str, answer: str, *how: str) -> None:
    job = msgspec.json.decode(Path(told).read_bytes(), type=Job)
    said: int | str | None
    try:
        said = strace_recorder.run(job.command, job.environment, job.identity, job.events) if how else _trace(job)
    except (OSError, RuntimeError) as error:
        said = str(error)
    Path(answer).write_bytes(msgspec.json.encode(said))


def _trace(job: Job) -> int | None:
    from dyno import _native

    variables = [os.fsencode(f"{name}={value}") for name, value in job.environment.items()]
    words = [os.fsencode(word) for word in job.command]
    return _native.trace(words, variables, job.identity, job.known, job.events, job.grace_ns)


if __name__ == "__main__":
    _main(*sys.argv[1:])
