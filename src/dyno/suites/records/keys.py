"""A record's key, and an indexed value, as one value whose order is that of the tuple: bytes, or a string for engines
that know strings and look a record up by one column. No engine may be put here.

`pack` is the native one where it was built (rust/measure), and else `packed`, which says what is right: the same
bytes, and the same kinds of errors.
"""

from __future__ import annotations

from collections.abc import Callable

from dyno.native import loaded


def packed(prefix: bytes, parts: tuple[str, ...]) -> bytes:
    """The prefix, and each of the strings in UTF-8 with a NUL behind it; a NUL inside of one is NUL 0xff.

    Raises UnicodeEncodeError where one has half a surrogate pair, and TypeError for what is no string.
    """
    text = "\0".join((*parts, "")).encode()
    if text.count(b"\0") != len(parts):
        text = b"".join([part.encode().replace(b"\0", b"\0\xff") + b"\0" for part in parts])
    return prefix + text


_native = loaded()

# One that was built before it had this has the loop alone.
pack: Callable[[bytes, tuple[str, ...]], bytes] = getattr(_native, "pack", packed)
NATIVE = pack is not packed


def identity(name: str, location: str) -> str:
    """The key as one string: NUL parts the two, and in the name NUL and what follows it are told apart from that."""
    if "\0" in name or "\1" in name:
        name = name.replace("\1", "\1\2").replace("\0", "\1\1")
    return f"{name}\0{location}"
