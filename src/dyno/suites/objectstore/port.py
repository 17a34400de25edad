"""The port `bucket`: objects by key, and what asks for them. No engine and no measuring may be put here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from dyno.contracts.suite import InFlight

Body = bytes | memoryview


class StoreRequest(NamedTuple):
    """One request of a bucket."""

    verb: str
    """'put', 'get', 'head', 'list', 'copy' or 'delete'; 'open', 'part', 'join' and 'drop' of an upload in parts."""
    key: str
    """Of the object; of a list, the prefix."""
    body: Body = b""
    start: int | None = None
    """Of a get: the first byte of a range; None: the whole object."""
    end: int = 0
    """The first byte after it."""
    other: str = ""
    """Of a copy, the key of what is copied; of a list, the key after which it begins."""
    upload: str = ""
    """Of an upload in parts, its name, which 'open' answers."""
    number: int = 0
    """Of a part, from 1 on; of a list, how many names at most."""
    tags: tuple[str, ...] = ()
    """Of 'join': what each part was answered, in their order."""


class StoreResponse(NamedTuple):
    """What a request was answered."""

    size: int = 0
    """Bytes of the body that came; of 'head', those of the object."""
    digest: bytes | None = None
    """SHA-256 of the body that came, where it was not kept."""
    body: bytes | None = None
    first_ns: int = 0
    """From the start of the request to the first byte of the answer."""
    total_ns: int = 0
    """To the last one."""
    names: Callable[[], Sequence[str]] | None = None
    """Of a list: the keys, in the order in which they came."""
    tag: str = ""
    """Of 'open' the upload's name, of 'part' what 'join' wants of it."""


class Throttled(Exception):
    """The store has too much to do, and says so: 429, or 503 SlowDown."""


class NoObject(Exception):
    """There is no object of that name."""


class StoreError(Exception):
    """Any other status of 300 or more, with its code."""


class Requester(InFlight, Protocol):
    """Requests under way at once; an argument is an `StoreRequest`."""

    def close(self) -> None: ...


class Bucket(Protocol):
    """Engines implement it as a class called with `(engine, large, patience)`: whether bodies are too large to be
    kept until the clock stands still, and after how many seconds a request is an error. Of one store on a server it
    has the names of its own, and no others."""

    def asking(self, places: int, fresh: bool) -> Requester:
        """Of which so many are under way at once; each on a connection of its own where they are `fresh`, and where
        the client can."""

    def close(self) -> None: ...
