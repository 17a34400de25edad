"""What a request is to be, by the long names of curl's own options. libcurl may not be named here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dyno.contracts.model import UsageError
from dyno.contracts.settings import format_value, unknown
from dyno.http.encoding import ascii_url

SCHEMES = ("http", "https")
VERSIONS = ("http1_0", "http1_1", "http2", "http2_prior_knowledge", "http3", "http3_only")
"""Those that exclude each other."""
REDIRECTS, MOST_REDIRECTS = 50, 1_000
"""curl's own default, and the most: each hop is kept."""
CONNECT_SECONDS = 300.0
"""libcurl's own default."""
MOST_SECONDS = 1e6
_HOST, _PORT = r"(?:\[[^\]]+\]|[^:\s]+)", r"\d{1,5}"
PLACES = (
    ("resolve", re.compile(rf"-{_HOST}:{_PORT}|\+?{_HOST}:{_PORT}:\S+"), "example.org:443:127.0.0.1"),
    ("connect_to", re.compile(rf"{_HOST}?:(?:{_PORT})?:{_HOST}?:(?:{_PORT})?"), "example.org:443:127.0.0.1:8443"),
)
"""Options that say where to go, what they want, and an example: of others libcurl would begin nothing."""


@dataclass(frozen=True)
class Options:
    """A request. Field by field curl's option of that name; times in seconds."""

    request: str | None = None
    """The method; None: GET, or what `data`, `head` and `upload_file` ask for."""
    header: Sequence[str] = ()
    data: bytes | str | None = None
    get: bool = False
    """`data` is put behind a question mark in the address."""
    head: bool = False
    upload_file: Path | None = None
    user: str | None = None
    insecure: bool = False
    cacert: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    ipv4: bool = False
    ipv6: bool = False
    http1_0: bool = False
    http1_1: bool = False
    http2: bool = False
    http2_prior_knowledge: bool = False
    http3: bool = False
    http3_only: bool = False
    tlsv1_2: bool = False
    tlsv1_3: bool = False
    compressed: bool = False
    location: bool = False
    max_redirs: int = REDIRECTS
    max_time: float | None = None
    connect_timeout: float | None = None
    max_filesize: int | None = None
    limit_rate: int | None = None
    """Bytes a second."""
    range: str | None = None
    user_agent: str | None = None
    referer: str | None = None
    cookie: str | None = None
    proxy: str | None = None
    noproxy: str | None = None
    interface: str | None = None
    resolve: Sequence[str] = ()
    connect_to: Sequence[str] = ()
    unix_socket: Path | None = None
    fail: bool = False
    """A status of 400 or more is an error."""
    output: Path | None = None
    """Where the body goes; None: nowhere."""

    @classmethod
    def of(cls, given: dict[str, Any]) -> Options:
        """Raises UsageError for a name that is none, and for what excludes each other."""
        names = [field.name for field in fields(cls)]
        for name in given:
            if name not in names:
                raise UsageError(unknown("option", name, names))
        found = cls(**given)
        found.check()
        return found

    def check(self) -> None:
        """Raises UsageError."""
        for names in (VERSIONS, ("ipv4", "ipv6"), ("head", "data"), ("head", "upload_file"), ("data", "upload_file")):
            both = [name for name in names if getattr(self, name) not in (False, None)]
            if len(both) > 1 and not self.get:
                raise UsageError(f"{_flag(both[0])} and {_flag(both[1])} exclude each other")
        for name in ("max_time", "connect_timeout"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= MOST_SECONDS:
                raise UsageError(f"{_flag(name)} wants seconds over 0 and up to {MOST_SECONDS:,.0f}")
        if not 0 <= self.max_redirs <= MOST_REDIRECTS:
            raise UsageError(f"--max-redirs wants a whole number from 0 to {MOST_REDIRECTS:,}")
        for name in ("cacert", "cert", "key", "upload_file"):
            path = getattr(self, name)
            if path is not None and not Path(path).is_file():
                raise UsageError(f"{_flag(name)}: there is no file {format_value(path)}")
        for name, wanted, like in PLACES:
            for text in getattr(self, name):
                if not wanted.fullmatch(text):
                    raise UsageError(f"{_flag(name)} {format_value(text)} wants to be like {like}")
        texts = (self.request, self.user_agent, self.referer, self.cookie, *self.header)
        if any(text is not None and ("\n" in text or "\r" in text or "\0" in text) for text in texts):
            raise UsageError("what goes into a request's head has no line ends and no zero bytes")

    @property
    def method(self) -> str:
        if self.request:
            return self.request
        if self.head:
            return "HEAD"
        if self.upload_file is not None:
            return "PUT"
        return "GET" if self.data is None or self.get else "POST"


def checked(url: str) -> str:
    """The URL in ASCII, with http:// before it if it names no scheme, as curl does. Raises UsageError."""
    whole = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(whole)
        parts.port  # noqa: B018
    except ValueError as error:
        raise UsageError(f"{format_value(url)} is no address: {error}") from None
    if parts.scheme.lower() not in SCHEMES:
        raise UsageError(f"{format_value(url)}: scheme {parts.scheme} is not HTTP's; there are: {', '.join(SCHEMES)}")
    if not parts.hostname or any(ord(letter) <= 32 for letter in whole):
        raise UsageError(f"{format_value(url)} is no address; it wants to be like https://example.org/path")
    try:
        return ascii_url(whole)
    except ValueError as error:
        raise UsageError(f"{format_value(url)} is no address: {error}") from None


def _flag(name: str) -> str:
    return "--" + {"http1_0": "http1.0", "http1_1": "http1.1"}.get(name, name).replace("_", "-")
