"""Record of what a command did to the files below some directories: changes with their bytes, flushes and marks.

A record is a directory with `record.json` (a `Header`), `events` (for each `Event` its length as 32 bits,
little-endian, and its MessagePack) and `base/N`, the contents of file number N before the command was started.

Files, directories and symbolic links have numbers, since names come and go. The roots are 0, 1, ... in the order
given. `begin` and `end` are moments in one order of all calls of all threads: a call that began after another had
ended has higher numbers. The `end` of a call that never ended is NEVER.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

VERSION = 1
NEVER = (1 << 62) - 1
"""End of a call that was still running when the record ended."""
_PREFIX = 4
_ENCODER = msgspec.msgpack.Encoder()


class _Event(msgspec.Struct, frozen=True, array_like=True, tag=True):
    begin: int
    end: int
    task: int
    """Thread id."""


class Write(_Event, frozen=True, array_like=True, tag="write"):
    """Bytes written to a file, by any call or by a store into a mapping of it."""

    file: int
    offset: int
    data: bytes
    call: str
    """Name of the call: 'pwrite64', 'sendfile'; 'mapping' for a store."""
    durable: bool = False
    """The call returned after its bytes had been flushed: O_DSYNC, O_SYNC, RWF_DSYNC, RWF_SYNC."""


class Resize(_Event, frozen=True, array_like=True, tag="resize"):
    """A file truncated, or extended with zeros."""

    file: int
    size: int
    call: str


class Create(_Event, frozen=True, array_like=True, tag="create"):
    """New file, directory or symbolic link. An O_TMPFILE has no name, and `parent` -1."""

    file: int
    parent: int
    name: str
    kind: Literal["file", "directory", "symlink"]
    mode: int
    uid: int
    gid: int
    target: str = ""


class Link(_Event, frozen=True, array_like=True, tag="link"):
    """Another name of a file."""

    file: int
    parent: int
    name: str


class Rename(_Event, frozen=True, array_like=True, tag="rename"):
    """Renamed file or directory. A file that had the new name loses it."""

    file: int
    parent: int
    name: str
    new_parent: int
    new_name: str


class Unlink(_Event, frozen=True, array_like=True, tag="unlink"):
    """Name removed, by unlink or rmdir, or by a move out of the roots."""

    file: int
    parent: int
    name: str
    call: str


class Flush(_Event, frozen=True, array_like=True, tag="flush"):
    """Flush: changes that ended before it began are on the device when it ends."""

    call: str
    """'fsync', 'fdatasync', 'msync', 'sync', 'syncfs'."""
    file: int | None
    """None for a flush of all files and names."""
    start: int = 0
    stop: int | None = None
    """Range of bytes; the whole file except for msync."""


class Hint(_Event, frozen=True, array_like=True, tag="hint"):
    """Call that looks like a flush but promises nothing: sync_file_range, msync(MS_ASYNC)."""

    call: str
    file: int


class Mark(_Event, frozen=True, array_like=True, tag="mark"):
    """Mark of the workload: transaction `number` is about to begin ('begin') or was acknowledged ('end')."""

    number: int
    which: Literal["begin", "end"]


class RefusedCall(_Event, frozen=True, array_like=True, tag="refused"):
    """Call that the recorder can't follow and made fail, such as 'io_uring_setup'."""

    call: str


class UnseenChange(_Event, frozen=True, array_like=True, tag="unseen"):
    """Change that is missing from the record. States drawn from the record can't be trusted."""

    call: str
    why: str


Event: TypeAlias = Write | Resize | Create | Link | Rename | Unlink | Flush | Hint | Mark | RefusedCall | UnseenChange


class Node(msgspec.Struct, frozen=True):
    """File that existed before the command was started. Its second name is a 'link' with the same number."""

    number: int
    parent: int
    """-1 for a root."""
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
    """Directories come before what is in them."""
    recorder: str
    """'native', 'strace', or 'fuse' for a disk."""
    command: list[str]
    status: int | None
    """Exit status, or minus the signal's number; None if the recorder killed the command."""
    acknowledged: int = 0
    """Transactions acknowledged before the command was started, in the record of a recovery."""
    begun: int = 0
    """Transactions that had begun then."""


@dataclass(frozen=True)
class Record:
    """A record in memory."""

    header: Header
    events: list[Event]
    """Sorted by end; events that never ended come last."""
    base: Path | None = None
    """Directory of the files' contents before the command, by number."""
    contents: dict[int, bytes] = field(default_factory=dict)
    """The same for records built in memory (by tests)."""

    @property
    def roots(self) -> list[Path]:
        return [Path(root) for root in self.header.roots]

    @property
    def refused(self) -> list[str]:
        """Names of the calls that the recorder refused."""
        return sorted({event.call for event in self.events if isinstance(event, RefusedCall)})

    @property
    def unseen(self) -> list[str]:
        """Descriptions of the changes that are missing from the record."""
        return sorted({f"{event.call}: {event.why}" for event in self.events if isinstance(event, UnseenChange)})

    @cached_property
    def marks(self) -> list[Mark]:
        return [event for event in self.events if isinstance(event, Mark)]

    def first(self, number: int) -> bytes:
        """Returns the contents of a file before the command was started; empty for a new file."""
        if number in self.contents:
            return self.contents[number]
        path = self.base / str(number) if self.base else None
        return path.read_bytes() if path and path.exists() else b""

    @classmethod
    def load(cls, path: Path) -> Record:
        """Reads a record. Raises ValueError if there is none, or one of another version."""
        try:
            header = msgspec.json.decode((path / "record.json").read_bytes(), type=Header)
            events = read(path / "events")
        except (OSError, msgspec.MsgspecError) as error:
            raise ValueError(f"{path} has no record: {error}") from None
        if header.version != VERSION:
            raise ValueError(f"{path} is a record of version {header.version}; this Dyno reads {VERSION}")
        return cls(header, sorted(events, key=lambda event: event.end), path / "base")


def write(path: Path, events: Iterable[Event]) -> None:
    """Writes the file `events` of a record."""
    with path.open("wb") as file:
        file.writelines(map(framed, events))


def framed(event: Event) -> bytes:
    """Encodes an event for the file `events`."""
    frame = _ENCODER.encode(event)
    return len(frame).to_bytes(_PREFIX, "little") + frame


def read(path: Path) -> list[Event]:
    """Reads a file `events`. Raises OSError, msgspec.MsgspecError."""
    decoder: msgspec.msgpack.Decoder[Event] = msgspec.msgpack.Decoder(Event)
    view, at, events = memoryview(path.read_bytes()), 0, list[Event]()
    while at < len(view):
        end = at + _PREFIX + int.from_bytes(view[at : at + _PREFIX], "little")
        if end > len(view):
            raise msgspec.DecodeError("the last event is cut off")
        events.append(decoder.decode(view[at + _PREFIX : end]))
        at = end
    return events
