"""The digest by which bodies are compared. It finds accidents, not forgeries."""

from __future__ import annotations

import hashlib
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Protocol

from dyno.contracts.native import load_native

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Digest(Protocol):
    """A digest of 16 bytes, with the methods of hashlib's."""

    def update(self, data: ReadableBuffer, /) -> None: ...

    def digest(self) -> bytes: ...


def new_digest(data: ReadableBuffer = b"") -> Digest:
    """Returns the digest of the data so far: XXH3, or BLAKE2b if the native module was not built."""
    digest: Digest = _digest_type()(data)
    return digest


@cache
def _digest_type() -> Any:
    """Loads the native module only when a body is hashed."""
    return getattr(load_native(), "BodyDigest", partial(hashlib.blake2b, digest_size=16))
