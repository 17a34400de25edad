"""The lines on the pipe of the results, by which a worker tells the run's process how a trial goes.

The engine is in the worker's process and has its descriptors: what it writes by mistake, a line that a worker could
have written among it, must not be taken for a result. So each line is sealed with a key that the run's process gives
to this one trial, and with its number. Who looks for the key in the worker's memory finds it: this is no wall against
an engine that cheats on purpose.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from secrets import token_bytes
from typing import Any

MOST_BYTES = 64 << 20
"""Of a line. Of what is longer nothing is kept."""
_KEY_BYTES, _SEAL_BYTES = 32, 16


def new_key() -> bytes:
    return token_bytes(_KEY_BYTES)


class SealedLines:
    """One end of the pipe: it writes lines, or reads them, one after the other.

    A line has its seal, what the worker's clocks showed when it was written (in ns), and an event as JSON.
    """

    def __init__(self, key: bytes) -> None:
        self._key, self._number = key, 0

    def write(self, event: Mapping[str, Any], clocks: Callable[[], Iterable[int]]) -> tuple[bytes, bytes]:
        """The next line, in two parts. The clocks are looked at last, when all that takes long is done. Raises
        ValueError, RecursionError or TypeError for an event that is no plain JSON, or too long."""
        body = json.dumps(event, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        if len(body) > MOST_BYTES:
            raise ValueError(f"it is {len(body):,} bytes long, and {MOST_BYTES:,} is the most")
        seal = self._seal(body)
        shown = ",".join(map(str, clocks())).encode()
        seal.update(shown)
        return b"%s %s " % (seal.hexdigest().encode(), shown), body

    def read(self, line: bytes) -> tuple[dict[str, Any], list[int]]:
        """The event of the next line and what the clocks showed. Raises ValueError for a line that the other end has
        not written, or not at this place."""
        told, shown, body = (*line.split(b" ", 2), b"", b"")[:3]
        seal = self._seal(body)
        seal.update(shown)
        if not hmac.compare_digest(told, seal.hexdigest().encode()):
            raise ValueError("a line without its seal")
        event: dict[str, Any] = json.loads(body)
        return event, [int(each) for each in shown.split(b",")]

    def _seal(self, body: bytes) -> blake2b:
        number = self._number.to_bytes(8, "big")
        self._number += 1
        seal = blake2b(number, key=self._key, digest_size=_SEAL_BYTES)
        seal.update(body)
        return seal
