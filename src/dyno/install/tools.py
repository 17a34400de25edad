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


class NotHad(Exception):
    """Something can't be got here: why, in one line."""


def run(words: Words, cwd: Path | None = None, environment: Mapping[str, str] | None = None, given: str = "") -> str:
    """What the tool printed. Raises NotHad, with its last word, where it fails.

    It has a session of its own: whatever interrupts this ends it and all that it started.
    """
    process = subprocess.Popen(
        words,
        cwd=cwd,
        env=None if environment is None else {**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        out, err = process.communicate(given)
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    if process.returncode:
        raise NotHad(f"{Path(words[0]).name} failed: {last_word(err) or last_word(out) or 'it said nothing'}")
    return out


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
