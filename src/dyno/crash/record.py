"""What a command did to the files below some directories, in one order: changes with their bytes, flushes, marks.

A record is a directory: `record.json` (a `Header`), `events` (each a 32-bit length, little-endian, and so many bytes
of MessagePack, one of `Event`) and `base/N`, the bytes that the file of number N held before the command was begun.

Files, directories and symbolic links are told by a number, as names come and go: roots are 0, 1, ... in the order in
which they were given. `begin` and `end` are moments in one order of all calls of all threads: a call that began after
another had ended has the higher numbers. A call that never ended has `end` NEVER.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

VERSION = 1
NEVER = (1 << 62) - 1
"""The end of a call during which the record ended."""
BEGIN, END = "begin", "end"
_PREFIX = 4
_ENCODER = msgspec.msgpack.Encoder()


class _Event(msgspec.Struct, frozen=True, array_like=True, tag=True):
    begin: int
    end: int
    task: int
    """The thread's id."""


class Write(_Event, frozen=True, array_like=True, tag="write"):
    """Bytes of a file were written, by whatever call, or by a store through a mapping of it."""

    file: int
    offset: int
    data: bytes
    call: str
    """Its name: 'pwrite64', 'sendfile'; 'mapping'."""
    durable: bool = False
    """It returned after its own bytes had been flushed: O_DSYNC, O_SYNC, RWF_DSYNC, RWF_SYNC."""


class Resize(_Event, frozen=True, array_like=True, tag="resize"):
    """A file was cut, or made longer by zeros."""

    file: int
    size: int
    call: str


class Create(_Event, frozen=True, array_like=True, tag="create"):
    """A file, a directory or a symbolic link that was not there before. Without a name (`parent` -1): O_TMPFILE."""

    file: int
    parent: int
    name: str
    kind: Literal["file", "directory", "symlink"]
    mode: int
    uid: int
    gid: int
    target: str = ""


class Link(_Event, frozen=True, array_like=True, tag="link"):
    """Another name for a file."""

    file: int
    parent: int
    name: str


class Rename(_Event, frozen=True, array_like=True, tag="rename"):
    """What had the new name before has lost it."""

    file: int
    parent: int
    name: str
    new_parent: int
    new_name: str


class Unlink(_Event, frozen=True, array_like=True, tag="unlink"):
    """A file's name was taken away, or a directory: `call` is 'rmdir'. Also what was moved out of the roots."""

    file: int
    parent: int
    name: str
    call: str


class Flush(_Event, frozen=True, array_like=True, tag="flush"):
    """What had ended before it began is on the device when it has ended."""

    call: str
    """'fsync', 'fdatasync', 'msync', 'sync', 'syncfs'."""
    file: int | None
    """None: every file and every name."""
    start: int = 0
    stop: int | None = None
    """Bytes of the file: all but for msync."""


class Hint(_Event, frozen=True, array_like=True, tag="hint"):
    """A call that looks like a flush, and promises nothing: sync_file_range, msync(MS_ASYNC)."""

    call: str
    file: int


class Mark(_Event, frozen=True, array_like=True, tag="mark"):
    """The workload says: transaction `number` is about to begin ('begin'), or was acknowledged ('end')."""

    number: int
    which: Literal["begin", "end"]


class Refused(_Event, frozen=True, array_like=True, tag="refused"):
    """A way of writing that can't be recorded, and that the recorder answered with an error: 'io_uring_setup'."""

    call: str


class Unseen(_Event, frozen=True, array_like=True, tag="unseen"):
    """Something was done to a file that the record does not hold: its states can't be trusted."""

    call: str
    why: str


Event: TypeAlias = Write | Resize | Create | Link | Rename | Unlink | Flush | Hint | Mark | Refused | Unseen


class Node(msgspec.Struct, frozen=True):
    """What was there before the command was begun. A file's second name is a 'link' of the same `number`."""

    number: int
    parent: int
    """-1 of a root."""
    name: str
    kind: Literal["file", "directory", "symlink", "link"]
    mode: int
    uid: int
    gid: int
    size: int = 0
    target: str = ""


class Header(msgspec.Struct, frozen=True):
    version: int
    roots: list[str]
    """Absolute paths, resolved."""
    nodes: list[Node]
    """Each after the directory that it is in."""
    recorder: str
    """'native' or 'strace'."""
    command: list[str]
    status: int | None
    """With which the command ended; minus the signal's number; None where it was ended by the recorder."""
    acknowledged: int = 0
    """Transactions acknowledged before it was begun: of the record of a recovery."""
    begun: int = 0


@dataclass(frozen=True)
class Record:
    """Raises ValueError from `load` where there is none, or one of another version."""

    header: Header
    events: list[Event]
    """By their ends; those that never ended come last."""
    base: Path | None = None
    """The directory of the files' first bytes, by number."""
    contents: dict[int, bytes] = field(default_factory=dict)
    """Those of a record that was made by hand."""

    @property
    def roots(self) -> list[Path]:
        """The directories of which it tells."""
        return [Path(root) for root in self.header.roots]

    @property
    def refused(self) -> list[str]:
        """Calls that the recorder refused, each once."""
        return sorted({event.call for event in self.events if isinstance(event, Refused)})

    @property
    def unseen(self) -> list[str]:
        """What it does not hold, each once, in words: where there is any, its states can't be trusted."""
        return sorted({f"{event.call}: {event.why}" for event in self.events if isinstance(event, Unseen)})

    @cached_property
    def marks(self) -> list[Mark]:
        """In their order."""
        return [event for event in self.events if isinstance(event, Mark)]

    def first(self, number: int) -> bytes:
        """What the file of that number held before the command was begun; nothing, where it was not there."""
        if number in self.contents:
            return self.contents[number]
        path = self.base / str(number) if self.base else None
        return path.read_bytes() if path and path.exists() else b""

    @classmethod
    def load(cls, path: Path) -> Record:
        """That of a directory that `recorder.record` made."""
        try:
            header = msgspec.json.decode((path / "record.json").read_bytes(), type=Header)
            events = read(path / "events")
        except (OSError, msgspec.MsgspecError) as error:
            raise ValueError(f"{path} holds no record: {error}") from None
        if header.version != VERSION:
            raise ValueError(f"{path} is a record of version {header.version}; this Dyno reads {VERSION}")
        return cls(header, sorted(events, key=lambda event: event.end), path / "base")

    def save(self, path: Path) -> None:
        """So that `load` reads it."""
        (path / "base").mkdir(parents=True, exist_ok=True)
        for number, data in self.contents.items():
            (path / "base" / str(number)).write_bytes(data)
        write(path / "events", self.events)
        (path / "record.json").write_bytes(msgspec.json.encode(self.header))


def write(path: Path, events: Iterable[Event]) -> None:
    """The file `events` of a record."""
    with path.open("wb") as file:
        for event in events:
            file.write(framed(event))


def framed(event: Event) -> bytes:
    """One, as that file has it."""
    frame = _ENCODER.encode(event)
    return len(frame).to_bytes(_PREFIX, "little") + frame


def read(path: Path) -> list[Event]:
    """Those of that file. Raises OSError, msgspec.MsgspecError."""
    return list(_read(path.read_bytes()))


def _read(data: bytes) -> Iterator[Event]:
    decoder: msgspec.msgpack.Decoder[Event] = msgspec.msgpack.Decoder(Event)
    view, at = memoryview(data), 0
    while at < len(data):
        stop = at + _PREFIX + int.from_bytes(view[at : at + _PREFIX], "little")
        if stop > len(data):
            raise msgspec.DecodeError("its last event is cut")
        yield decoder.decode(view[at + _PREFIX : stop])
        at = stop


def mark(number: int, which: str) -> None:
    """A call that does nothing, and that the recorder sees: transaction `number` is about to begin, or was
    acknowledged."""
    os.access(f"/dyno-mark/{number}/{which}", os.F_OK)
