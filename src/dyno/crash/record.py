"""Record of a command's effects on the files below a directory, the root: changes with their bytes, flushes, marks.

A recorder writes a file `events` (for each `Event` its length as 32 bits, little-endian, and its MessagePack) and
`base/N`, the contents of file number N before the command started.

Files, directories and symbolic links have numbers, since their names change. The root is 0. `begin` and `end` are
moments in one order of all calls of all threads: a call that began after another had ended has higher numbers. The
`end` of a call that never ended is NEVER.
"""

import os
import shutil
import stat
from collections.abc import Iterable
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
    kind 'link' with the same number."""

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
class CrashRecord:
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
        if path and path.exists():
            return path.read_bytes()
        return b""


def encode_frame(event: Event) -> bytes:
    frame = _ENCODER.encode(event)
    return len(frame).to_bytes(_PREFIX, "little") + frame


def read(path: Path) -> list[Event]:
    """Reads the file `events` of a recorder. Raises OSError, msgspec.MsgspecError."""
    decoder: msgspec.msgpack.Decoder[Event] = msgspec.msgpack.Decoder(Event)
    view = memoryview(path.read_bytes())
    at = 0
    events = list[Event]()
    while at < len(view):
        end = at + _PREFIX + int.from_bytes(view[at : at + _PREFIX], "little")
        if end > len(view):
            raise msgspec.DecodeError("the last event is cut off")
        events.append(decoder.decode(view[at + _PREFIX : end]))
        at = end
    return events


# -- files and names below the root: on disk, and as replayed from a record ---------------------------------

Known = tuple[int, int, int, int, bytes]
"""An existing name, for the native recorder: device, inode, number, directory's number (-1 for the root), name."""


def scan(root: Path, base: Path) -> tuple[list[Node], list[Known]]:
    """Lists the files and names below `root`, directories before their entries. Skips sockets, pipes and devices.

    Copies the contents of each file to a file in the new directory `base` that is named by its number.
    """
    nodes = list[Node]()
    known = list[Known]()
    numbers = dict[tuple[int, int], int]()
    base.mkdir(parents=True)

    def add(path: Path, number: int, parent: int) -> None:
        status = path.lstat()
        kind, inode = _kind(status.st_mode), (status.st_dev, status.st_ino)
        if kind is None:
            return
        name = path.name if parent >= 0 else ""
        is_link = kind == "file" and inode in numbers
        number = numbers.setdefault(inode, number)
        size = status.st_size if kind == "file" else 0
        target = ""
        if kind == "symlink":
            target = str(path.readlink())
        mode = stat.S_IMODE(status.st_mode)
        nodes.append(
            Node(number, parent, name, "link" if is_link else kind, mode, status.st_uid, status.st_gid, size, target)
        )
        known.append((*inode, number, parent, os.fsencode(name)))
        if kind == "directory":
            for entry in sorted(path.iterdir()):
                add(entry, 1 + len(nodes), number)
        elif kind == "file" and not is_link:
            shutil.copyfile(path, base / str(number))

    add(root, 0, -1)
    return nodes, known


def _kind(mode: int) -> Literal["file", "directory", "symlink"] | None:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    if stat.S_ISLNK(mode):
        return "symlink"
    return None


class Tree:
    """Names below the root, updated by events."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes: dict[int, Node] = {}
        self.names: dict[tuple[int, str], int] = {}
        for node in nodes:
            if node.kind != "link":
                self.nodes[node.number] = node
            if node.parent >= 0:
                self.names[node.parent, node.name] = node.number

    def apply(self, event: Event) -> None:
        if isinstance(event, Create):
            self.nodes[event.file] = Node(
                event.file, event.parent, event.name, event.kind, event.mode, event.uid, event.gid, 0, event.target
            )
            if event.parent >= 0:
                self.names[event.parent, event.name] = event.file
        elif isinstance(event, Link):
            self.names[event.parent, event.name] = event.file
        elif isinstance(event, Rename):
            self.names.pop((event.parent, event.name), None)
            self.names[event.new_parent, event.new_name] = event.file
        elif isinstance(event, Unlink):
            self.names.pop((event.parent, event.name), None)

    def paths(self) -> dict[str, Node]:
        """Returns nodes by path below the root. Directories come before their entries."""
        children: dict[int, list[tuple[str, int]]] = {}
        for (parent, name), number in self.names.items():
            children.setdefault(parent, []).append((name, number))
        paths, pending = dict[str, Node](), [("", 0)]
        while pending:
            prefix, parent = pending.pop()
            for name, number in children.get(parent, ()):
                node = paths[prefix + name] = self.nodes[number]
                if node.kind == "directory":
                    pending.append((f"{prefix}{name}/", number))
        return paths


def replay_record(record: CrashRecord) -> tuple[dict[str, Node], dict[int, bytearray]]:
    """Returns all names, and the contents of changed files, after all calls that ended."""
    tree, contents = Tree(record.nodes), dict[int, bytearray]()
    for event in record.events:
        if event.end == NEVER:
            continue
        tree.apply(event)
        if isinstance(event, Write | Resize):
            if event.file not in contents:
                contents[event.file] = bytearray(record.first(event.file))
            data = contents[event.file]
            if isinstance(event, Resize):
                end = event.size
            else:
                end = event.offset + len(event.data)
            data.extend(bytes(max(0, end - len(data))))
            if isinstance(event, Resize):
                del data[event.size :]
            else:
                data[event.offset : end] = event.data
    return tree.paths(), contents


def find_unseen_changes(record: CrashRecord) -> list[UnseenChange]:
    """Returns the differences between the files on disk and the replayed record: changes that the recorder didn't
    see."""
    names, contents = replay_record(record)
    unfinished = {event.file for event in record.events if isinstance(event, Write) and event.end == NEVER}
    below = (path for path in record.root.rglob("*") if _kind(path.lstat().st_mode))
    actual = {path.relative_to(record.root).as_posix(): path for path in below}
    different = names.keys() ^ actual.keys()
    for name in names.keys() & actual.keys():
        node, path = names[name], actual[name]
        if _kind(path.lstat().st_mode) != node.kind:
            different.add(name)
        elif node.kind == "file" and node.number not in unfinished:
            expected = contents[node.number] if node.number in contents else record.first(node.number)
            if path.read_bytes() != expected:
                different.add(name)
    why = "what is in {} at the end is not what was recorded"
    return [UnseenChange(NEVER, NEVER, 0, "unknown", why.format(name)) for name in sorted(different)]
