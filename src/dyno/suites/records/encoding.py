"""Records as bytes: packed keys, which have the order of their tuples, and encoders for whole records.

`pack` is native if the native module has it (rust/measure/src/keys.rs). `python_pack` is its reference
implementation, with the same bytes and the same kinds of errors.
"""

import json
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from dyno.contracts.native import loaded
from dyno.suites.records.port import Record


def python_pack(prefix: bytes, parts: tuple[str, ...]) -> bytes:
    """Returns the prefix, then each string in UTF-8 followed by NUL. A NUL inside a string becomes NUL 0xff. Raises
    UnicodeEncodeError for half a surrogate pair, and TypeError for a part that is not a string."""
    text = "\0".join((*parts, "")).encode()
    if text.count(b"\0") != len(parts):
        text = b"".join([part.encode().replace(b"\0", b"\0\xff") + b"\0" for part in parts])
    return prefix + text


# The native module may be older than this function.
pack: Callable[[bytes, tuple[str, ...]], bytes] = getattr(loaded(), "pack", python_pack)
NATIVE = pack is not python_pack


def identity(name: str, location: str) -> str:
    """Returns the key as one string, for engines that look a record up by a single column. NUL separates the two
    parts, so NUL and 0x01 in the name are escaped."""
    if "\0" in name or "\1" in name:
        name = name.replace("\1", "\1\2").replace("\0", "\1\1")
    return f"{name}\0{location}"


class Encoder(NamedTuple):
    """Encoder of records: `decode(encode(record)) == record` for records of three strings without NUL."""

    encode: Callable[[Record], bytes]
    decode: Callable[[bytes], Record]


def _join(record: Record) -> bytes:
    return f"{record['name']}\0{record['location']}\0{record['stub']}".encode()


def _split(value: bytes) -> Record:
    name, location, stub = value.decode().split("\0")
    return {"name": name, "location": location, "stub": stub}


_json = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode

ENCODERS = {
    "msgpack": Encoder(msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode),
    "json": Encoder(lambda record: _json(record).encode(), json.loads),
    "raw": Encoder(_join, _split),
}
