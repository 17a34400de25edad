"""How a record becomes bytes on a key-value engine, and comes back. Engines with columns use none of these."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from dyno.suites.records.port import Record


class Encoder(NamedTuple):
    """`decode(encode(record)) == record`, for records of three strings without NUL."""

    name: str
    encode: Callable[[Record], bytes]
    decode: Callable[[bytes], Record]


def _join(record: Record) -> bytes:
    return f"{record['name']}\0{record['location']}\0{record['stub']}".encode()


def _split(value: bytes) -> Record:
    name, location, stub = value.decode().split("\0")
    return {"name": name, "location": location, "stub": stub}


_json = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode

ENCODERS = {
    encoder.name: encoder
    for encoder in (
        Encoder("msgpack", msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode),
        Encoder("json", lambda record: _json(record).encode(), json.loads),
        Encoder("raw", _join, _split),
    )
}
