"""Text outside ASCII for libcurl: hosts in IDNA form, the rest of a URL percent-encoded, other text as UTF-8.

libcurl itself can't convert hosts here: the one in pycurl's wheels is built without libidn2.
"""

from __future__ import annotations

import os
import re
import string
from pathlib import Path
from typing import Any
from urllib.parse import quote

AMBIGUOUS = "ßẞς\u200c\u200d"
"""IDNA 2003, which is in Python's library, maps these to other hosts than IDNA 2008, which curl follows."""
_PARTS = re.compile(r"([\w+.-]*://)?(?:([^/?#]*)@)?([^/?#]*)(.*)", re.DOTALL)


def ascii_url(url: str) -> str:
    """The URL in ASCII. Raises ValueError if its host is no internationalized domain name."""
    if url.isascii():
        return url
    found = _PARTS.fullmatch(url)
    assert found is not None
    scheme, user, place, rest = found.groups(default="")
    host, colon, port = (place, "", "") if place.isascii() else place.partition(":")
    encoded = "".join(
        (
            scheme,
            f"{percent_encoded(user)}@" if found[2] is not None else "",
            host if host.isascii() else _ascii_host(host),
            colon,
            port,
            percent_encoded(rest),
        )
    )
    if not encoded.isascii():
        raise ValueError("only its host, user, path and query may have letters outside ASCII")
    return encoded


def _ascii_host(host: str) -> str:
    if letters := [letter for letter in AMBIGUOUS if letter in host]:
        names = ", ".join(f"U+{ord(letter):04X}" for letter in letters)
        raise ValueError(f"standards disagree about {names} in a host name; give its form that begins with xn--")
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        raise ValueError("its host is no domain name") from None


def percent_encoded(text: str | bytes) -> str:
    """The text with each byte outside ASCII percent-encoded, and all else unchanged."""
    if isinstance(text, bytes):
        return quote(text, safe=string.printable)
    return quote(text, safe=string.printable, errors="surrogateescape")


def raw(value: Any) -> Any:
    """A value for libcurl: text as UTF-8 (or as the bytes of the command line), paths as the system has them, lists
    item by item, and all else unchanged."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, Path):
        return os.fsencode(value)
    return [raw(item) for item in value] if isinstance(value, list) else value


def text(received: bytes | None) -> str | None:
    """Text from a server. Bytes that are not UTF-8 are shown as escapes, such as \\xe9."""
    return None if received is None else received.decode("utf-8", "backslashreplace")
