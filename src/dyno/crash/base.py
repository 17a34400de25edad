"""What is below the roots before the command is begun; and whether a record, replayed, ends in what is there then."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from dyno.crash.record import NEVER, Create, Event, Link, Node, Record, Rename, Resize, Unlink, Unseen, Write

Known = tuple[int, int, int, int, bytes]
"""Of a name: device, inode, number, that of its directory (-1 of a root), name."""
DIFFERING = "what is in {name} at the end is not what was recorded"


def scan(roots: Sequence[Path]) -> tuple[list[Node], list[Known]]:
    """Each after the directory that it is in. Sockets, pipes and devices are left out."""
    nodes: list[Node] = []
    known: list[Known] = []
    numbers: dict[tuple[int, int], int] = {}

    def found(path: Path, number: int, parent: int) -> None:
        facts = path.lstat()
        kind, inode = _kind(facts.st_mode), (facts.st_dev, facts.st_ino)
        if kind is None:
            return
        name = path.name if parent >= 0 else ""
        number = numbers.setdefault(inode, number)
        again = any(inode == (device, other) for device, other, *_ in known) if facts.st_nlink > 1 else False
        target = str(path.readlink()) if kind == "symlink" else ""
        size = facts.st_size if kind == "file" else 0
        nodes.append(
            Node(
                number,
                parent,
                name,
                "link" if again and kind == "file" else kind,
                stat.S_IMODE(facts.st_mode),
                facts.st_uid,
                facts.st_gid,
                size,
                target,
            )
        )
        known.append((*inode, number, parent, os.fsencode(name)))
        if kind == "directory":
            for entry in sorted(path.iterdir()):
                found(entry, len(roots) + len(nodes), number)

    for number, root in enumerate(roots):
        found(root, number, -1)
    return nodes, known


def _kind(mode: int) -> Literal["file", "directory", "symlink"] | None:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "symlink" if stat.S_ISLNK(mode) else None


def copy(roots: Sequence[Path], nodes: Iterable[Node], to: Path) -> None:
    """The bytes of every file among them, each by its number."""
    to.mkdir(parents=True)
    paths: dict[int, Path] = {}
    for node in nodes:
        path = roots[node.number] if node.parent < 0 else paths[node.parent] / node.name
        paths[node.number] = path
        if node.kind == "file":
            shutil.copyfile(path, to / str(node.number))


class Tree:
    """Names as events change them."""

    def __init__(self, record: Record) -> None:
        self.nodes: dict[int, Node] = {}
        self.names: dict[tuple[int, str], int] = {}
        for node in record.header.nodes:
            if node.kind != "link":
                self.nodes[node.number] = node
            if node.parent >= 0:
                self.names[node.parent, node.name] = node.number

    def apply(self, event: Event) -> None:
        if isinstance(event, Create):
            self.add(event)
        elif isinstance(event, Link):
            self.names[event.parent, event.name] = event.file
        elif isinstance(event, Rename):
            self.names.pop((event.parent, event.name), None)
            self.names[event.new_parent, event.new_name] = event.file
        elif isinstance(event, Unlink):
            self.names.pop((event.parent, event.name), None)

    def add(self, event: Create) -> None:
        self.nodes[event.file] = Node(
            event.file, event.parent, event.name, event.kind, event.mode, event.uid, event.gid, 0, event.target
        )
        if event.parent >= 0:
            self.names[event.parent, event.name] = event.file

    def paths(self, roots: int = 1) -> dict[str, Node]:
        """By the path below its root, or below the number of its root where there are several; directories first."""
        inside: dict[int, list[tuple[str, int]]] = {}
        for (parent, name), number in self.names.items():
            inside.setdefault(parent, []).append((name, number))
        found: dict[str, Node] = {}
        waiting = [("" if roots == 1 else f"{root}/", root) for root in range(roots)]
        if roots > 1:
            found.update({str(root): self.nodes[root] for root in range(roots)})
        while waiting:
            above, number = waiting.pop()
            for name, child in inside.get(number, ()):
                node = self.nodes[child]
                found[above + name] = node
                if node.kind == "directory":
                    waiting.append((f"{above}{name}/", child))
        return found


def replayed(record: Record) -> tuple[dict[str, Node], dict[int, bytearray]]:
    """Names, and bytes of files, when all that ended has happened."""
    tree, contents = Tree(record), {}
    for event in record.events:
        if event.end == NEVER:
            continue
        tree.apply(event)
        if isinstance(event, Write | Resize):
            if event.file not in contents:
                contents[event.file] = bytearray(record.first(event.file))
            put(contents[event.file], event)
    return tree.paths(len(record.roots)), contents


def put(data: bytearray, event: Write | Resize) -> None:
    """Changes a file's bytes as the event did."""
    stop = event.size if isinstance(event, Resize) else event.offset + len(event.data)
    if len(data) < stop:
        data.extend(bytes(stop - len(data)))
    if isinstance(event, Resize):
        del data[event.size :]
    else:
        data[event.offset : stop] = event.data


def unseen(record: Record) -> list[Unseen]:
    """Files that hold something else at the end than the record says: whatever it was, it was not seen."""
    names, contents = replayed(record)
    never = {event.file for event in record.events if isinstance(event, Write) and event.end == NEVER}
    places = record.roots
    there: dict[str, Path] = {}
    for number, root in enumerate(places):
        for path in root.rglob("*"):
            below = path.relative_to(root).as_posix()
            if _kind(path.lstat().st_mode):
                there[below if len(places) == 1 else f"{number}/{below}"] = path
    wrong = {name for name in names.keys() ^ there.keys() if not (len(places) > 1 and name.isdigit())}
    for name in names.keys() & there.keys():
        node = names[name]
        if node.kind == "file" and node.number not in never:
            expected = contents[node.number] if node.number in contents else record.first(node.number)
            if not _holds(there[name], expected, node.kind):
                wrong.add(name)
        elif _kind(there[name].lstat().st_mode) != node.kind:
            wrong.add(name)
    return [Unseen(NEVER, NEVER, 0, "unknown", DIFFERING.format(name=name)) for name in sorted(wrong)]


def _holds(path: Path, expected: bytes | bytearray, kind: str) -> bool:
    return _kind(path.lstat().st_mode) == kind and path.read_bytes() == expected
