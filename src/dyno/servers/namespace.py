"""Names of stores on servers. A store is a schema, a database or a prefix of keys.

A name is `dyno_MACHINE_PROCESS_BIRTH_RANDOM`: a digest of the machine, the ID of the process that created the store,
the time of that process's birth, and a random part. So the stores of killed runs are found on a server by their names
alone, and those of other running processes are left alone. Every name that differs from this form is the user's.
"""

import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from platform import node

from dyno.host import filesystem
from dyno.host.process import is_running

FILE = "namespace"
PREFIX = "dyno_"
# Names of version 0.1.0 have no birth.
_NAME = re.compile(PREFIX + r"([0-9a-f]{8})_([0-9]{1,9})_(?:([0-9a-f]{8})_)?[0-9a-f]{8}")
OTHERS_SECONDS = 30 * 86_400
"""Age from which a store of another machine counts as abandoned. No trial takes so long."""


def store_name(home: Path) -> str:
    """Returns the name of the store in `home`, which never changes: at most 40 characters of a-z, 0-9 and _."""
    file = home / FILE
    with suppress(FileNotFoundError):
        name = file.read_text()
        # A file that was cut short by a kill or a full disk named no store yet. Its text must not reach a server:
        # for some servers, an empty name means everything that has no name.
        if _NAME.fullmatch(name):
            return name
    name = f"{PREFIX}{_machine()}_{os.getpid()}_{_birth():08x}_{os.urandom(4).hex()}"
    new = file.with_suffix(".new")
    new.write_text(name)
    new.rename(file)
    return name


def stores(folder: Path) -> dict[str, Path]:
    """Returns the homes, by name, of the stores in a directory and below. Ignores truncated files."""
    homes = {path.read_text(): path.parent for path in filesystem.files(folder) if path.name == FILE}
    return {name: home for name, home in homes.items() if _NAME.fullmatch(name)}


def find_abandoned(names: Iterable[str]) -> list[str]:
    """Returns the names that were created by a process of this machine that is gone, and old ones of others."""
    matches = [(name, _NAME.fullmatch(name)) for name in names]
    return [name for name, match in matches if match and _is_abandoned(*match.groups())]


def _is_abandoned(machine: str, process: str, birth: str | None) -> bool:
    if birth is None:
        return machine in (_machine(), _digest(node())) and not is_running(int(process))
    if machine == _machine():
        return not is_running(int(process), int(birth, 16))
    return time.time() - int(birth, 16) > OTHERS_SECONDS


def _machine() -> str:
    """Returns a digest of the machine and its namespace of process IDs, which a container has of its own. Machines
    that were made from one image may have the same name."""
    parts = [node()]
    with suppress(OSError):
        parts.append(Path("/etc/machine-id").read_text().strip())
    with suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").stat().st_ino))
    return _digest("/".join(parts))


def _digest(text: str) -> str:
    from hashlib import blake2s

    return blake2s(text.encode(), digest_size=4).hexdigest()


def _birth() -> int:
    import psutil

    return round(psutil.Process().create_time())
