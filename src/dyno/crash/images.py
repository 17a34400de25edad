"""Contents of files after a cut: builds the version of each page, sizes and names, and writes the files to disk."""

import os
import shutil
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import groupby
from pathlib import Path

from dyno.crash.changes import PAGE, SECTOR, FileChange, FileChanges
from dyno.crash.record import CrashRecord, Node, Resize, Tree

Torn = tuple[int, int, tuple[int, ...]]
"""Number of a file, number of one of its pages, and the version of each sector of that page. Version -1 is the page
before the record."""
MOST_PATHS, MOST_VERSIONS = 64, 8
"""Number of cached sets of names, and of cached versions of each page."""


class PageVersions:
    """Versions of one page, each built from the previous one. Caches the most recently requested versions."""

    def __init__(self, first: bytes, changes: list[FileChange], page: int) -> None:
        self._first = first
        self._changes = changes
        self._page = page
        self._cached: dict[int, bytes] = {}
        durable = [change.durable_at for change in changes]
        for at in range(len(durable) - 2, -1, -1):
            durable[at] = min(durable[at], durable[at + 1])
        self._durable = durable

    def durable(self, point: int) -> int:
        """Returns the latest version that no cut at the moment `point` can lose."""
        return bisect_right(self._durable, point) - 1

    def image(self, version: int) -> bytes:
        """Returns the PAGE bytes of a version."""
        if version < 0:
            return self._first
        if version not in self._cached:
            at = version - 1
            while at >= 0 and at not in self._cached:
                at -= 1
            image = bytearray(self._cached.get(at, self._first))
            for change in self._changes[at + 1 : version + 1]:
                if isinstance(change.event, Resize):
                    start = max(change.event.size - self._page * PAGE, 0)
                    image[start:] = bytes(PAGE - start)
                else:
                    image[change.start : change.start + len(change.data)] = change.data
            while len(self._cached) >= MOST_VERSIONS:
                del self._cached[next(iter(self._cached))]
            self._cached[version] = bytes(image)
        return self._cached[version]


@dataclass(frozen=True)
class FileContents:
    """Contents of a file in one state. Pages missing from `changed` are as before the record, or zeros."""

    number: int
    size: int
    changed: dict[int, bytes]
    first: bytes
    """Contents before the record."""

    def changed_pages(self) -> Iterator[tuple[int, bytes]]:
        """Yields the number and the bytes of each changed page. The last page ends at the file's size."""
        for page, image in self.changed.items():
            if page * PAGE < self.size:
                yield page, image if (page + 1) * PAGE <= self.size else image[: self.size - page * PAGE]

    def runs(self) -> Iterator[tuple[int, bytes]]:
        """Yields the offset and the bytes of each run of pages that aren't all zeros."""
        pages = dict(self.changed_pages())
        for page in range(-(-min(self.size, len(self.first)) // PAGE)):
            if page not in self.changed:
                pages[page] = _page(self.first, page)[: self.size - page * PAGE]
        filled = [page for page, image in sorted(pages.items()) if image != bytes(len(image))]
        # Pages of one run have the same difference between their number and their rank.
        for _, ranked in groupby(enumerate(filled), key=lambda pair: pair[1] - pair[0]):
            run = [page for _, page in ranked]
            yield run[0] * PAGE, b"".join(pages[page] for page in run)


def _page(contents: bytes, number: int) -> bytes:
    """Returns the PAGE bytes of a page, padded with zeros."""
    return contents[number * PAGE : (number + 1) * PAGE].ljust(PAGE, b"\0")


Files = dict[str, tuple[Node, FileContents | None]]
"""Files by path below the root. Directories come before their entries. Directories and symbolic links have no
contents."""


def build(files: Files, root: Path) -> None:
    """Replaces the contents of a directory by these files."""
    root.mkdir(parents=True, exist_ok=True)
    for entry in root.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    links: dict[int, Path] = {}
    for name, (node, file) in files.items():
        path = root / name
        if node.kind == "directory":
            path.mkdir()
        elif node.kind == "symlink":
            path.symlink_to(node.target)
            continue
        elif file is None:
            continue
        elif file.number in links:
            os.link(links[file.number], path)
            continue
        else:
            links[file.number] = path
            with path.open("xb", buffering=0) as out:
                for offset, data in file.runs():
                    os.pwrite(out.fileno(), data, offset)
                out.truncate(file.size)
        if os.geteuid() == 0:
            os.chown(path, node.uid, node.gid)
        path.chmod(node.mode)


class Images:
    """Files of a record in any of its states, under the rules of `changes`."""

    def __init__(self, record: CrashRecord, changes: FileChanges) -> None:
        self._record, self._changes = record, changes
        self._sizes = {node.number: node.size for node in record.nodes if node.kind == "file"}
        self._first = cache(record.first)
        self._pages: dict[tuple[int, int], PageVersions] = {}
        self._paths: dict[tuple[int, ...], dict[str, Node]] = {}
        self._contents: dict[bytes, int] = {}

    def page(self, file: int, page: int) -> PageVersions:
        """Returns the versions of a page. At least one event of the record must change the page."""
        if (file, page) not in self._pages:
            first = _page(self._first(file), page)
            self._pages[file, page] = PageVersions(first, self._changes.pages[file][page], page)
        return self._pages[file, page]

    def files(self, point: int, kept: Iterable[FileChange], torn: Torn | None) -> Files:
        """Returns the files after a cut at the moment `point` that kept the changes `kept`."""
        versions: dict[tuple[int, int], int] = {}
        sizes: dict[int, FileChange] = {}
        names: list[FileChange] = []
        for change in sorted(kept, key=lambda change: change.number):
            versions.update({(change.file, page): version for page, version in change.versions.items()})
            if change.size is not None:
                sizes[change.file] = change
            if change.is_name:
                names.append(change)
        files: Files = {}
        by_number: dict[int, FileContents] = {}
        for path, node in self._names(point, names).items():
            number = node.number
            if node.kind == "file" and number not in by_number:
                by_number[number] = self._file(number, point, versions, sizes.get(number), torn)
            files[path] = node, by_number[number] if node.kind == "file" else None
        return files

    def _file(
        self,
        number: int,
        point: int,
        versions: dict[tuple[int, int], int],
        size: FileChange | None,
        torn: Torn | None,
    ) -> FileContents:
        changed: dict[int, bytes] = {}
        for page in self._changes.pages.get(number, ()):
            history = self.page(number, page)
            if torn is not None and torn[:2] == (number, page):
                sectors = ((at * SECTOR, history.image(version)) for at, version in enumerate(torn[2]))
                changed[page] = b"".join(image[at : at + SECTOR] for at, image in sectors)
            else:
                version = max(history.durable(point), versions.get((number, page), -1))
                if version >= 0:
                    changed[page] = history.image(version)
        if size is None:
            sizes = self._changes.sizes.get(number, [])
            at = bisect_right(sizes, point, key=lambda change: change.durable_at) - 1
            size = sizes[at] if at >= 0 else None
        length = self._sizes.get(number, 0) if size is None else size.size
        assert length is not None
        return FileContents(number, length, changed, self._first(number))

    def _names(self, point: int, kept: list[FileChange]) -> dict[str, Node]:
        """Returns the paths after all durable and all kept changes of names."""
        durable = [change.number for change in self._changes.names if change.durable_at <= point]
        key = tuple(sorted([*durable, *(change.number for change in kept)]))
        if key not in self._paths:
            if len(self._paths) > MOST_PATHS:
                self._paths.clear()
            tree = Tree(self._record.nodes)
            for number in key:
                tree.apply(self._changes.all[number].event)
            # Add files that were created without a name (O_TMPFILE) and linked later.
            tree.nodes.update(self._unnamed)
            self._paths[key] = tree.paths()
        return self._paths[key]

    @cached_property
    def _unnamed(self) -> dict[int, Node]:
        tree = Tree(self._record.nodes)
        before = set(tree.nodes)
        for event in self._record.events:
            tree.apply(event)
        return {number: node for number, node in tree.nodes.items() if number not in before}

    def key(self, files: Files) -> tuple[object, ...]:
        """Returns equal keys for states with equal contents."""
        parts: list[tuple[object, ...]] = []
        for path, (node, file) in files.items():
            if file is None:
                parts.append((path, node.kind, node.target))
            else:
                pages = [
                    (at, self._contents.setdefault(page, len(self._contents))) for at, page in file.changed_pages()
                ]
                parts.append((path, "file", str(file.size), *pages))
        return tuple(sorted(parts))
