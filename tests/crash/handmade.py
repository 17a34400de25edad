"""Builds records by hand, and lists all contents that files may have after a cut at their end."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from dyno.crash.images import FileContents
from dyno.crash.model import State, draws
from dyno.crash.record import (
    CrashRecord,
    Create,
    Event,
    Flush,
    Hint,
    Link,
    Mark,
    Node,
    Rename,
    Resize,
    Unlink,
    Write,
)

PAGE = 4096
Found = dict[str, bytes]


class Tape:
    """A sequence of calls in a directory. `files` exist from the start."""

    def __init__(self, **files: bytes) -> None:
        self.events: list[Event] = []
        self.now = 0
        self.numbers = {".": 0}
        self.contents: dict[int, bytes] = {}
        self.nodes = [Node(0, -1, "", "directory", 0o755, 0, 0)]
        for name, data in files.items():
            number = self._number(name)
            self.contents[number] = data
            self.nodes.append(Node(number, 0, name, "file", 0o644, 0, 0, len(data)))

    def _number(self, name: str) -> int:
        self.numbers[name] = len(self.numbers)
        return self.numbers[name]

    def _moments(self) -> tuple[int, int, int]:
        self.now += 2
        return self.now - 1, self.now, 7

    def _place(self, path: str) -> tuple[int, str]:
        above, _, name = path.rpartition("/")
        return self.numbers[above or "."], name

    def add(self, event: Event) -> Tape:
        self.events.append(event)
        return self

    def write(self, name: str, offset: int, data: bytes, durable: bool = False) -> Tape:
        return self.add(Write(*self._moments(), self.numbers[name], offset, data, "pwrite64", durable))

    def resize(self, name: str, size: int) -> Tape:
        return self.add(Resize(*self._moments(), self.numbers[name], size, "ftruncate"))

    def create(self, path: str, kind: Literal["file", "directory", "symlink"] = "file", target: str = "") -> Tape:
        parent, name = self._place(path)
        number = self._number(path)
        return self.add(Create(*self._moments(), number, parent, name, kind, 0o750, 0, 0, target))

    def link(self, old: str, new: str) -> Tape:
        return self.add(Link(*self._moments(), self.numbers[old], *self._place(new)))

    def rename(self, old: str, new: str) -> Tape:
        number = self.numbers[old]
        self.numbers[new] = number
        return self.add(Rename(*self._moments(), number, *self._place(old), *self._place(new)))

    def unlink(self, path: str) -> Tape:
        return self.add(Unlink(*self._moments(), self.numbers[path], *self._place(path), "unlink"))

    def flush(self, call: str, name: str | None = None, start: int = 0, stop: int | None = None) -> Tape:
        return self.add(Flush(*self._moments(), call, None if name is None else self.numbers[name], start, stop))

    def hint(self, call: str, name: str) -> Tape:
        return self.add(Hint(*self._moments(), call, self.numbers[name]))

    def mark(self, number: int, which: Literal["begin", "end"]) -> Tape:
        self.now += 1
        return self.add(Mark(self.now, self.now, 7, number, which))

    def record(self) -> CrashRecord:
        events = sorted(self.events, key=lambda event: event.end)
        return CrashRecord(Path("/nowhere"), self.nodes, events, contents=self.contents)


def states(tape: Tape, model: str, birth: bool = True, seed: int = 1, count: int = 100) -> list[State]:
    return list(draws(tape.record(), model, seed, count, birth))


def held(state: State) -> Found:
    """The contents of each file."""
    return {path: whole(file) for path, (_, file) in state.files.items() if file is not None}


def whole(file: FileContents) -> bytes:
    contents = bytearray(file.size)
    for offset, part in file.runs():
        contents[offset : offset + len(part)] = part
    return bytes(contents)


def ends(tape: Tape, model: str, birth: bool = True) -> list[Found]:
    """Returns the distinct contents that are possible after a cut at the end."""
    tape.mark(0, "begin")
    found: list[Found] = []
    for seed in range(3):
        for state in states(tape, model, birth, seed):
            if state.point == tape.now and held(state) not in found:
                found.append(held(state))
    return found
