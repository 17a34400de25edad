"""Responses of the protocols of native load, each with one value, as a scripted peer in a test sends them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any


def message(kind: bytes, body: bytes = b"") -> bytes:
    """A message of PostgreSQL's protocol."""
    return kind + struct.pack(">I", 4 + len(body)) + body


READY = message(b"Z", b"I")


def row(*values: str | bytes | None) -> bytes:
    """A row of PostgreSQL's protocol."""
    body = struct.pack(">H", len(values))
    for value in values:
        data = value.encode() if isinstance(value, str) else value
        body += struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data
    return message(b"D", body)


def packet(number: int, payload: bytes) -> bytes:
    """A packet of MySQL's protocol."""
    return struct.pack("<I", len(payload))[:3] + bytes([number]) + payload


def column(kind: int, charset: int = 45, flags: int = 0) -> bytes:
    """A column definition of MySQL's protocol."""
    return b"\x03def\0\0\0\x01c\0\x0c" + struct.pack("<HIBHB", charset, 100, kind, flags, 0) + b"\0\0"


def document(*fields: bytes) -> bytes:
    """A document of BSON, whose fields are encoded."""
    body = b"".join(fields)
    return struct.pack("<i", len(body) + 5) + body + b"\0"


def text_field(name: bytes, value: bytes) -> bytes:
    return b"\x02" + name + b"\0" + struct.pack("<i", len(value) + 1) + value + b"\0"


def op_msg(content: bytes) -> bytes:
    """A message of MongoDB's protocol with one document."""
    return struct.pack("<iiiiIB", 21 + len(content), 9, 1, 2013, 0, 0) + content


OK = b"\x01ok\0" + struct.pack("<d", 1)
NOT_OK = b"\x01ok\0" + struct.pack("<d", 0)


def _postgresql(value: bytes) -> bytes:
    return message(b"2") + row(value) + message(b"C", b"SELECT 1\0") + READY


def _mysql(value: bytes) -> bytes:
    length = bytes([len(value)]) if len(value) < 251 else b"\xfd" + struct.pack("<I", len(value))[:3]
    payloads = [b"\x01", column(253), b"\0\0" + length + value, b"\xfe\0\0\x02\0\0\0"]
    return b"".join(packet(number + 1, payload) for number, payload in enumerate(payloads))


RESPONSES: dict[str, Callable[[bytes], bytes]] = {
    "redis": lambda value: b"$%d\r\n%s\r\n" % (len(value), value),
    "postgresql": _postgresql,
    "mysql": _mysql,
    "mongodb": lambda value: op_msg(document(text_field(b"v", value), OK)),
}
"""For each protocol, the response with a value."""


def value_of(protocol: str, answer: Any) -> bytes:
    """Returns the value of a decoded response."""
    if protocol == "redis":
        return bytes(answer)
    if protocol == "mongodb":
        return bytes(answer[11 : 11 + struct.unpack_from("<i", answer, 7)[0] - 1])
    ((value,),) = answer
    return str(value).encode()
