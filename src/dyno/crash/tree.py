"""Files and names below the root: on disk, as replayed from a record, and the differences between the two."""

import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from dyno.crash.record import NEVER, Create, Event, Link, Node, Record, Rename, Resize, Unlink, UnseenChange, Write

Known = tuple[int, int, int, int, bytes]
"""An existing name, for the native recorder: device, inode, number, directory's number (-1 for the root), name."""


def scan(root: Path, base: Path) -> tuple[list[Node], list[Known]]:
    """Lists the files and names below `root`, directories before their entries. Skips sockets, pipes and devices.

    Copies the contents of each file to a file in the new directory `base` that is named by its number.
    """
    nodes, known, numbers = list[Node](), list[Known](), dict[tuple[int, int], int]()
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
        target = str(path.readlink()) if kind == "symlink" else ""
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
    return "symlink" if stat.S_ISLNK(mode) else None


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


def replayed(record: Record) -> tuple[dict[str, Node], dict[int, bytearray]]:
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
            end = event.size if isinstance(event, Resize) else event.offset + len(event.data)
            data.extend(bytes(max(0, end - len(data))))
            if isinstance(event, Resize):
                del data[event.size :]
            else:
                data[event.offset : end] = event.data
    return tree.paths(), contents


def unseen(record: Record) -> list[UnseenChange]:
    """Returns the differences between the files on disk and the replayed record: changes that the recorder didn't
    see.
    """
    names, contents = replayed(record)
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
