"""The directory of a site: nothing else is ever replaced, and an interrupted build leaves what was there before."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dyno.model import UsageError

MARKER = ".dyno-site"
FRESH = ".dyno-site-new-"
"""Of a build that is going on: not yet in its place."""


def write(directory: Path, files: Iterable[tuple[str, str | bytes]]) -> None:
    """Puts files, each a path below the directory and what it holds, in the place of those of the build before;
    what else is there stays. Raises UsageError for a directory that is not empty and not a site's."""
    old, before = _made(directory), directory.exists()
    with _writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
        # What a build left that was killed.
        for left in directory.glob(f"{FRESH}*"):
            shutil.rmtree(left)
        fresh = Path(tempfile.mkdtemp(dir=directory, prefix=FRESH))
    try:
        new = []
        for name, content in files:
            with _writing(directory):
                (fresh / name).parent.mkdir(exist_ok=True)
                (fresh / name).write_bytes(content.encode() if isinstance(content, str) else content)
            new.append(name)
        with _undisturbed(), _writing(directory):
            _exchange(directory, fresh, old, new)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        if not before and not any(directory.iterdir()):
            directory.rmdir()


@contextmanager
def _writing(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"can't write {directory}: {error.strerror}") from None


def check(directory: Path) -> None:
    """Raises UsageError where `write` would."""
    _made(directory)


def _made(directory: Path) -> list[str]:
    """The files that the build before made."""
    if not os.path.lexists(directory):
        return []
    if not directory.is_dir():
        raise UsageError(f"{directory} is there and no directory; -o names one")
    try:
        names = json.loads((directory / MARKER).read_text(encoding="utf-8"))["files"]
        if all(
            isinstance(name, str) and ".." not in Path(name).parts and not Path(name).is_absolute() for name in names
        ):
            return list(names)
    except FileNotFoundError:
        if all(path.name.startswith(FRESH) for path in directory.iterdir()):
            return []
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise UsageError(f"{directory} is not empty and was not made by dyno site: -o names another directory")


def _exchange(directory: Path, fresh: Path, old: list[str], new: list[str]) -> None:
    # Whatever stops this, every file of ours is known to the next build.
    _mark(directory, [*old, *(name for name in new if name not in old)])
    for name in new:
        path = directory / name
        path.parent.mkdir(exist_ok=True)
        (fresh / name).replace(path)
    for name in set(old) - set(new):
        (directory / name).unlink(missing_ok=True)
    _mark(directory, new)


def _mark(directory: Path, names: list[str]) -> None:
    text = json.dumps({"files": names}, indent=0)
    (directory / MARKER).write_text(text, encoding="utf-8")


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Puts off what would interrupt."""
    caught: list[int] = []

    def put_off(number: int, frame: Any) -> None:
        caught.append(number)

    before = {number: signal.signal(number, put_off) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if caught:
        raise KeyboardInterrupt
