"""Record of a command's effects on the files below a directory, the root: changes with their bytes, flushes, marks.

A recorder writes a file `events` (for each `Event` its length as 32 bits, little-endian, and its MessagePack) and
`base/N`, the contents of file number N before the command started.

Files, directories and symbolic links have numbers, since their names change. The root is 0. `begin` and `end` are
moments in one order of all calls of all threads: a call that began after another had ended has higher numbers. The
`end` of a call that never ended is NEVER.
"""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

NEVER = (1 << 62) - 1
"""End of a call that was still running when the record ended."""
_PREFIX = 4
_ENCODER = msgspec.msgpack.Encoder()


class _Event(msgspec.Struct, frozen=True, array_like=True, tag=True):
    begin: int
    end: int
    task: int
    """Id of the thread that made the call."""


class Write(_Event, frozen=True, array_like=True, tag="write"):
    """Bytes written to a file, by a system call or by a store into a mapping of the file."""

    file: int
    offset: int
    data: bytes
    call: str
    """Name of the call: 'pwrite64', 'sendfile'; 'mapping' for a store."""
    durable: bool = False
    """True if the call returned only after its bytes had been flushed: O_DSYNC, O_SYNC, RWF_DSYNC, RWF_SYNC."""


class Resize(_Event, frozen=True, array_like=True, tag="resize"):
    """Change of a file's size: it was truncated, or extended with zeros."""

    file: int
    size: int
    call: str


class Create(_Event, frozen=True, array_like=True, tag="create"):
    """New file, directory or symbolic link. A file of O_TMPFILE has no name, and its `parent` is -1."""

    file: int
    parent: int
    name: str
    kind: Literal["file", "directory", "symlink"]
    mode: int
    uid: int
    gid: int
    target: str = ""


class Link(_Event, frozen=True, array_like=True, tag="link"):
    """Additional name of a file."""

    file: int
    parent: int
    name: str


class Rename(_Event, frozen=True, array_like=True, tag="rename"):
    """New name of a file or directory. If another file had that name, it loses it."""

    file: int
    parent: int
    name: str
    new_parent: int
    new_name: str


class Unlink(_Event, frozen=True, array_like=True, tag="unlink"):
    """Removed name: by unlink, by rmdir, or by a move out of the root."""

    file: int
    parent: int
    name: str
    call: str


class Flush(_Event, frozen=True, array_like=True, tag="flush"):
    """Flush: changes that ended before it began are on the device when it ends."""

    call: str
    """Name of the call: 'fsync', 'fdatasync', 'msync', 'sync', 'syncfs'."""
    file: int | None
    """Number of the flushed file; None for a flush of all files and names."""
    start: int = 0
    stop: int | None = None
    """Range of bytes. Only msync flushes less than the whole file."""


class Hint(_Event, frozen=True, array_like=True, tag="hint"):
    """Call that looks like a flush but guarantees nothing: sync_file_range, msync(MS_ASYNC)."""

    call: str
    file: int


class Mark(_Event, frozen=True, array_like=True, tag="mark"):
    """Mark of the workload: transaction `number` is about to begin ('begin') or was acknowledged ('end')."""

    number: int
    which: Literal["begin", "end"]


class RefusedCall(_Event, frozen=True, array_like=True, tag="refused"):
    """System call that the recorder can't follow, so it made the call fail: 'io_uring_setup'."""

    call: str


class UnseenChange(_Event, frozen=True, array_like=True, tag="unseen"):
    """Change that is missing from the record. States drawn from the record can't be trusted."""

    call: str
    why: str


Event: TypeAlias = Write | Resize | Create | Link | Rename | Unlink | Flush | Hint | Mark | RefusedCall | UnseenChange


class Node(msgspec.Struct, frozen=True):
    """File, directory or symbolic link that existed before the command started. Further names of a file are nodes of
    kind 'link' with the same number.
    """

    number: int
    parent: int
    """Number of the parent directory; -1 for the root."""
    name: str
    kind: Literal["file", "directory", "symlink", "link"]
    mode: int
    uid: int
    gid: int
    size: int = 0
    target: str = ""


@dataclass(frozen=True)
class Record:
    """A record in memory."""

    root: Path
    """Absolute path without symbolic links."""
    nodes: list[Node]
    """The root and the files below before the command. Directories come before their entries."""
    events: list[Event]
    """Events sorted by their ends. Events that never ended come last."""
    status: int | None = 0
    """Exit status of the command, or the negative number of a signal; None if the recorder killed it."""
    acknowledged: int = 0
    """In the record of a recovery: number of transactions acknowledged before the command started."""
    begun: int = 0
    """In the record of a recovery: number of transactions begun before the command started."""
    base: Path | None = None
    """Directory with the files' contents before the command, by number."""
    contents: dict[int, bytes] = field(default_factory=dict)
    """Contents of files before the command, by number, for records built in memory (by tests)."""

    @property
    def refused(self) -> list[str]:
        """Names of the calls that the recorder made fail."""
        return sorted({event.call for event in self.events if isinstance(event, RefusedCall)})

    @property
    def unseen(self) -> list[str]:
        """Descriptions of the changes that the record misses."""
        return sorted({f"{event.call}: {event.why}" for event in self.events if isinstance(event, UnseenChange)})

    @cached_property
    def marks(self) -> list[Mark]:
        return [event for event in self.events if isinstance(event, Mark)]

    def first(self, number: int) -> bytes:
        """Returns the contents of a file before the command started; empty for a new file."""
        if number in self.contents:
            return self.contents[number]
        path = self.base / str(number) if self.base else None
        return path.read_bytes() if path and path.exists() else b""


def framed(event: Event) -> bytes:
    """Encodes an event for the file `events`."""
    frame = _ENCODER.encode(event)
    return len(frame).to_bytes(_PREFIX, "little") + frame


def read(path: Path) -> list[Event]:
    """Reads the file `events` of a recorder. Raises OSError, msgspec.MsgspecError."""
    decoder: msgspec.msgpack.Decoder[Event] = msgspec.msgpack.Decoder(Event)
    view, at, events = memoryview(path.read_bytes()), 0, list[Event]()
    while at < len(view):
        end = at + _PREFIX + int.from_bytes(view[at : at + _PREFIX], "little")
        if end > len(view):
            raise msgspec.DecodeError("the last event is cut off")
        events.append(decoder.decode(view[at + _PREFIX : end]))
        at = end
    return events
