"""Names and sizes of the files below the roots, by path, as strace tells them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from dyno.crash.record import Node

Place = tuple[int, str]
"""The number of a directory, and a name in it."""
_LINKS = 16
"""How many symbolic links are followed at most."""


class Paths:
    """What was there is changed by whoever follows the calls: `names`, `sizes`."""

    def __init__(self, roots: Sequence[Path], nodes: Sequence[Node]) -> None:
        self._roots = {str(root): number for number, root in enumerate(roots)}
        self.names: dict[Place, int] = {}
        self.sizes: dict[int, int] = {}
        self._kinds: dict[int, tuple[str, str]] = {}
        for node in nodes:
            if node.kind != "link":
                self._kinds[node.number] = node.kind, node.target
                self.sizes[node.number] = node.size
            if node.parent >= 0:
                self.names[node.parent, node.name] = node.number
        self._next = max((node.number for node in nodes), default=-1) + 1

    def add(self, place: Place, kind: str, target: str = "") -> int:
        """The number of something new."""
        number, self._next = self._next, self._next + 1
        self.names[place] = number
        self.sizes[number] = 0
        self._kinds[number] = kind, target
        return number

    def number(self, path: str, follow: bool = True) -> int | None:
        """That of a file, a directory or a root; None of what is not ours."""
        path = os.path.normpath(path)
        if path in self._roots:
            return self._roots[path]
        place = self.place(path, follow)
        return self.names.get(place) if place is not None else None

    def place(self, path: str, follow: bool = False, links: int = _LINKS) -> Place | None:
        """The directory of ours that a path names something in. `follow`: a symbolic link at its end."""
        above, name = os.path.split(os.path.normpath(path))
        if not above or above == path or not links:
            return None
        parent = self._directory(above, links)
        if parent is None:
            return None
        number = self.names.get((parent, name))
        kind, target = self._kinds.get(number, ("", "")) if number is not None else ("", "")
        if follow and kind == "symlink":
            return self.place(os.path.join(above, target), True, links - 1)  # noqa: PTH118
        return parent, name

    def _directory(self, path: str, links: int) -> int | None:
        if path in self._roots:
            return self._roots[path]
        place = self.place(path, True, links - 1)
        if place is not None:
            number = self.names.get(place)
            return number if number is not None and self._kinds[number][0] == "directory" else None
        # Outside of them a link may lead here.
        real = os.path.realpath(path)
        return self._directory(real, links - 1) if real != path and links else None
