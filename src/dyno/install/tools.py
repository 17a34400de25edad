"""Runs installers, and kills them together with the processes that they started."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

Words = Sequence[str | Path]
GRACE_SECONDS = 30.0
MOST_FILES = 1 << 20
"""Maximum number of open files that Linux allows a process by default: fs.nr_open."""


class InstallError(Exception):
    """Something can't be installed. The message says why, in one line; `output` is all output of the tool that
    failed."""

    def __init__(self, why: str, output: str = "") -> None:
        super().__init__(why)
        self.output = output


def run(
    words: Words, cwd: Path | None = None, environment: Mapping[str, str] | None = None, name: str | None = None
) -> str:
    """Runs a tool; returns its output. If the tool fails, raises InstallError with its last line of output, in which
    the tool is called `name`.

    The tool has its own session. If this process is interrupted or gets SIGKILL, the tool and all processes that it
    started are killed.
    """
    with _lifeline() as guard:
        process = subprocess.Popen(
            words,
            cwd=cwd,
            env=None if environment is None else {**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=guard,
        )
        try:
            out, err = process.communicate()
        except BaseException:
            # Send SIGTERM first, so that an installer can clean up. Processes of another user can't be signalled.
            for number, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, None)):
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, number)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(seconds)
            raise
    if process.returncode:
        why = last_error(err) or last_error(out) or "it said nothing"
        raise InstallError(f"{name or Path(words[0]).name} failed: {why}", f"{out}\n{err}")
    return out


@contextmanager
def _lifeline() -> Iterator[Callable[[], None]]:
    """Yields a function that a new process must call before its `exec`. The new process group is killed at the end of
    the block, or when this process dies for any reason.

    The group has a guard: a process that waits for the end of a pipe whose other end only this process has. The
    kernel's PR_SET_PDEATHSIG would kill only the tool, but not the processes that it started.
    """
    ours, theirs = os.pipe()

    def guard() -> None:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            return
        # Fork twice, so that the guard isn't a child of the tool.
        if os.fork():
            os._exit(0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        # The guard must not keep the tool's output or the other end of the pipe open.
        os.closerange(0, ours)
        os.closerange(ours + 1, MOST_FILES)
        os.read(ours, 1)
        os.killpg(0, signal.SIGKILL)

    try:
        yield guard
    finally:
        os.close(theirs)
        os.close(ours)


def last_error(text: str) -> str:
    """Returns the last line that contains 'error'; if there is none, the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or [""])[-1]


@contextmanager
def new_directory(home: Path) -> Iterator[Path]:
    """Yields a new directory, which becomes `home` at the end of the block and is deleted if the block fails."""
    home.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{home.name}-", dir=home.parent))
    try:
        yield new
        new.chmod(0o755)
        shutil.rmtree(home, ignore_errors=True)
        new.rename(home)
    finally:
        shutil.rmtree(new, ignore_errors=True)
