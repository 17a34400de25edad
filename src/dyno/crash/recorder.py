"""Records the effects of a command on the files below a directory.

The recorder is a separate process (this module, run as a program). When it dies, all processes that it records die
too.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from dyno.crash.record import CrashRecord, Known, find_unseen_changes, read, scan
from dyno.host import interpreters
from dyno.host.process import nothing_left, own_session

GRACE_NS = 10_000_000_000
"""Time that processes may outlive the command that started them."""


class RecordingJob(msgspec.Struct):
    """Job of the recorder process. All paths are absolute."""

    command: list[str]
    known: list[Known]
    events: str
    """File that receives the events."""


def explain_unavailability() -> str | None:
    """Returns why this installation can't record file changes, or None if it can."""
    try:
        from dyno._native import trace  # noqa: F401
    except ImportError:
        return "file changes need the native recorder, which is built on Linux on x86-64 with glibc only"
    return None


def record_command(command: Sequence[str], root: Path, out: Path, timeout_seconds: float = 600) -> CrashRecord:
    """Runs a command until it ends, and records the effects of all its processes and threads (servers too) below the
    existing directory `root`.

    Creates the directory `out`. Processes that outlive the command by 10 s are killed. Raises FileExistsError if
    `out` exists, RuntimeError if recording fails, TimeoutError.
    """
    root = root.resolve(strict=True)
    out.mkdir(parents=True)
    nodes, known = scan(root, out / "base")
    program = shutil.which(command[0])
    if program is None:
        raise RuntimeError(f"there is no program {command[0]}")
    words = [str(Path(program).absolute()), *command[1:]]
    job = RecordingJob(words, known, str((out / "events").resolve()))
    request, answer = out / "job", out / "answer"
    request.write_bytes(msgspec.json.encode(job))
    with nothing_left():
        try:
            done = subprocess.run(
                [*interpreters.Python().words("dyno.crash.recorder"), str(request), str(answer)],
                timeout=timeout_seconds,
                **own_session(),
            )
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{Path(job.command[0]).name} was not done after {timeout_seconds:g} s") from None
    if not answer.exists():
        raise RuntimeError(f"the recorder ended with status {done.returncode}")
    status = msgspec.json.decode(answer.read_bytes(), type=int | str | None)
    request.unlink()
    answer.unlink()
    if isinstance(status, str):
        raise RuntimeError(status)
    events = sorted(read(out / "events"), key=lambda event: event.end)
    recording = CrashRecord(root, nodes, events, status, base=out / "base")
    return replace(recording, events=[*events, *find_unseen_changes(recording)])


def main(request: str, answer: str) -> None:
    """Runs the job in the file `request`. Writes the command's status, or an error, to the file `answer`."""
    from dyno import _native

    job = msgspec.json.decode(Path(request).read_bytes(), type=RecordingJob)
    variables = [os.fsencode(f"{name}={value}") for name, value in os.environ.items()]
    words = [os.fsencode(word) for word in job.command]
    status: int | str | None
    try:
        status = _native.trace(words, variables, job.known, job.events, GRACE_NS)
    except RuntimeError as error:
        status = str(error)
    Path(answer).write_bytes(msgspec.json.encode(status))


if __name__ == "__main__":
    main(*sys.argv[1:])
