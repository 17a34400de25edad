"""Names of stores on servers. A store is a schema, a database or a prefix of keys.

A name contains the machine and process that created it, so that stores of killed runs can be found.
"""

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
    """Returns the name of the store in `home`, which never changes: at most 40 characters of a-z, 0-9 and _."""
    file = home / FILE
    if not file.exists():
        file.write_text(f"dyno_{_machine()}_{os.getpid()}_{os.urandom(4).hex()}")
    return file.read_text()


def stores(folder: Path) -> dict[str, Path]:
    """Returns the homes, by name, of the stores in a directory and below. Ignores truncated files."""
    homes = {path.read_text(): path.parent for path in filesystem.files(folder) if path.name == FILE}
    return {name: home for name, home in homes.items() if _NAME.fullmatch(name)}


def abandoned(names: Iterable[str]) -> list[str]:
    """Returns the names that were created by a process of this machine that is gone."""
    matches = [(name, _NAME.fullmatch(name)) for name in names]
    return [name for name, match in matches if match and match[1] == _machine() and not running(int(match[2]))]


def _machine() -> str:
    from hashlib import blake2s

    return blake2s(node().encode(), digest_size=4).hexdigest()
