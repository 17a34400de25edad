"""The name under which a store lives on a server: a schema, a database, a prefix of keys.

It tells which machine and which process made it, so that on a user's own server what a killed run left is found.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from platform import node

from dyno.host import filesystem
from dyno.host.process import running

FILE = "namespace"
_NAME = re.compile(r"dyno_([0-9a-f]{8})_([0-9]+)_[0-9a-f]{8}")


def of(home: Path) -> str:
    """The name of the store in `home`: its own for good, at most 40 characters of a-z, 0-9 and _."""
    file = home / FILE
    if not file.exists():
        file.write_text(f"dyno_{_machine()}_{os.getpid()}_{os.urandom(4).hex()}")
    return file.read_text()


def stores(folder: Path) -> dict[str, Path]:
    """The homes of the stores in a directory and below, by their names. A file that was cut short names none."""
    found = {path.read_text(): path.parent for path in filesystem.files(folder) if path.name == FILE}
    return {name: home for name, home in found.items() if _NAME.fullmatch(name)}


def abandoned(names: Iterable[str]) -> list[str]:
    """Those that a process on this machine made which is no more."""
    found = [(name, _NAME.fullmatch(name)) for name in names]
    return [name for name, match in found if match and match[1] == _machine() and not running(int(match[2]))]


def _machine() -> str:
    from hashlib import blake2s

    return blake2s(node().encode(), digest_size=4).hexdigest()
