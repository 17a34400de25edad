"""Other people's tools, which do the getting: run to their end, and ended with what they have started."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

Words = Sequence[str | Path]
GRACE_SECONDS = 30.0


class NotHad(Exception):
    """Something can't be got here: why, in one line."""


def run(
    words: Words, cwd: Path | None = None, environment: Mapping[str, str] | None = None, name: str | None = None
) -> str:
    """What the tool printed. Raises NotHad, with its last word, where it fails; `name`: what it is called then.

    It has a session of its own: whatever interrupts this ends it and all that it started.
    """
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
    )
    try:
        out, err = process.communicate()
    except BaseException:
        _end(process)
        raise
    if process.returncode:
        raise NotHad(f"{name or Path(words[0]).name} failed: {last_word(err) or last_word(out) or 'it said nothing'}")
    return out


def _end(process: subprocess.Popen[str]) -> None:
    """Asks all of its session to end, which those may need who change the system, and kills what is left then."""
    # Another user's can't be sent anything, and is waited for.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_SECONDS)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def last_word(text: str) -> str:
    """The last line that tells of an error, or else the last of all."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or [""])[-1]


@contextmanager
def made(home: Path) -> Iterator[Path]:
    """A new directory, which becomes `home` at the end of the block; where that fails nothing is left of it."""
    home.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{home.name}-", dir=home.parent))
    try:
        yield new
        new.chmod(0o755)
        shutil.rmtree(home, ignore_errors=True)
        new.rename(home)
    finally:
        shutil.rmtree(new, ignore_errors=True)
