"""Requests by native load: the loop in rust/wire sends them. This module encodes and decodes them, while the clock
stands still. It speaks HTTP/1.1, plain or by TLS; versions 2 and 3, redirects and proxies need libcurl.

No name is resolved while the clock runs. A body is hashed as it arrives, which takes about 0.05 ns a byte, and is
kept only where a request says so.
"""

from __future__ import annotations

import os
import socket
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import starmap
from pathlib import Path
from time import perf_counter_ns as now
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit
from urllib.request import getproxies, proxy_bypass

import numpy as np

from dyno.contracts.model import Refused, UsageError
from dyno.contracts.native import load_native
from dyno.contracts.suite import NativeInFlight, RanInFlight
from dyno.suites.http import curl, stages
from dyno.suites.http.multi import ERROR_FROM, RequestFailed, Response, StatusError
from dyno.suites.http.options import PORTS, Options

AGENT = "dyno"
VERSIONS = ("1.0", "1.1")
FOREVER_NS = 1 << 60
CONNECT_SECONDS = 5
MOST_BYTES = 1 << 29
FAILURE = 2
"""Fields of a failure, as the native module returns it: libcurl's error number, and the text."""


class Received(NamedTuple):
    """A response, as the native module returns it."""

    status: int
    minor: int
    """The x of HTTP/1.x."""
    size: int
    digest: bytes
    kept: bytes
    """Beginning of the body, as far as the request keeps it."""
    length: int | None
    """Size of the body as the head states it."""
    connects: int


class Moments(NamedTuple):
    """Moments of a request in ns, 0 for what did not happen."""

    start: int
    connected: int
    secured: int
    sent: int
    first: int
    end: int
    freed: int


class Prepared(NamedTuple):
    argument: Any
    request: Any
    """An `HttpRequest` of the native module."""


class Servers:
    """The servers of some URLs, by number, each at the first of its addresses that can be connected to, or else at
    the last."""

    def __init__(self, urls: Iterable[str]) -> None:
        self._numbers: dict[tuple[str, str, int], int] = {}
        self.origins: list[tuple[str, str, int, bool]] = []
        for url in urls:
            self._add(urlsplit(url))

    def _add(self, url: SplitResult) -> None:
        key = origin_of(url)
        if key in self._numbers:
            return
        scheme, host, port = key
        self._numbers[key] = len(self.origins)
        try:
            resolved = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise Refused(f"can't resolve {host}: check the name of the host") from None
        *others, last = (str(each[4][0]) for each in resolved)
        address = next((each for each in others if _connects(each, port)), last)
        self.origins.append((host, address, port, scheme == "https"))

    def number(self, url: SplitResult) -> int:
        return self._numbers[origin_of(url)]


def origin_of(url: SplitResult) -> tuple[str, str, int]:
    """Returns scheme, host and port."""
    port = PORTS[url.scheme] if url.port is None else url.port
    return url.scheme, url.hostname or "", port


def _connects(address: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((address, port), CONNECT_SECONDS):
        return True
    return False


def explain_proxy(url: str) -> str | None:
    """Returns why native load can't request this URL: the proxy that the environment names for it; else None."""
    parts = urlsplit(url)
    proxies = getproxies()
    named = [name for name in (parts.scheme, "all") if proxies.get(name)]
    # Like curl, libcurl does not read HTTP_PROXY in capitals, which a client of a CGI script could set.
    if named[:1] == ["http"] and not os.environ.get("http_proxy"):
        del named[0]
    if not named:
        return None
    if proxy_bypass(parts.hostname or ""):
        return None
    return f"is reached by a proxy, which native load can't use: unset {named[0]}_proxy, or use --load library"


def split_url(url: str) -> SplitResult:
    """Returns the parts of a URL as libcurl requests it: without `.` and `..` (RFC 3986, section 5.2.4), and without
    a colon that no port follows."""
    parts = urlsplit(url)
    segments = parts.path.split("/")
    # The first is the empty text before the first slash.
    remaining = segments[:1]
    for segment in segments[1:]:
        if segment == "..":
            del remaining[max(len(remaining) - 1, 1) :]
        elif segment != ".":
            remaining.append(segment)
    if segments[-1] in (".", ".."):
        remaining.append("")
    return parts._replace(netloc=parts.netloc.rstrip(":"), path="/".join(remaining))


def encode_head(
    method: str, url: SplitResult, headers: Iterable[tuple[str, str]], length: int | None, fresh: bool
) -> bytes:
    """Returns the first line and the headers of a request. `headers` replace those that Dyno adds; those without a
    value are left out. `length`: bytes of the body, None without one. `fresh`: the server closes the connection
    afterwards."""
    target = url.path or "/"
    if url.query:
        target = f"{target}?{url.query}"
    headers = list(headers)
    given = {name.lower() for name, _ in headers}
    own = {"Host": url.netloc.rpartition("@")[2], "User-Agent": AGENT, "Accept": "*/*"}
    if url.username is not None:
        user = unquote_to_bytes(url.username) + b":" + unquote_to_bytes(url.password or "")
        own["Authorization"] = f"Basic {b64encode(user).decode()}"
    if length is not None:
        own["Content-Length"] = str(length)
    if fresh:
        own["Connection"] = "close"
    lines = [f"{name}: {value}" for name, value in own.items() if name.lower() not in given]
    lines += [f"{name}: {value}" for name, value in headers if value]
    return "\r\n".join([f"{method} {target} HTTP/1.1", *lines, "", ""]).encode("utf-8", "surrogateescape")


class NativeRequester(NativeInFlight):
    """Requests in flight by the native loop. `request_type`: the native module's `HttpRequest`. Subclasses define how
    an operation's argument becomes a request, and what the operation's answer is."""

    def __init__(self, servers: Servers, places: int, fresh: bool, options: Options) -> None:
        native = load_native()
        self.fresh, self.request_type = fresh, native.HttpRequest
        self.codes = Counter[int]()
        self._servers, self._places = servers, places
        files = dict[str, Any]()
        if not options.insecure and any(secure for *_, secure in servers.origins):
            files["cacert"] = options.cacert or curl.certificates()
        if options.cert is not None:
            files["cert"] = options.cert
            files["key"] = options.key or options.cert
        contents = {name: _read(path) for name, path in files.items()}
        own = (contents["cert"], contents["key"]) if options.cert is not None else None
        patience_ns = round((options.max_time or 1e6) * 1e9)
        try:
            self._http = native.Http(servers.origins, places, fresh, patience_ns, contents.get("cacert"), own)
        except ValueError as error:
            name, _, reason = str(error).partition(": ")
            if name in files:
                raise UsageError(f"can't use {files[name]}: {reason}") from None
            raise UsageError(str(error)) from None
        self._begun: list[tuple[int, Any]] = []

    # -- defined by subclasses ------------------------------------------------------------------------------------

    def encode(self, argument: Any) -> Any:
        """Returns the `HttpRequest` of an operation's argument."""
        raise NotImplementedError

    def answer(self, argument: Any, received: Received, at: Moments) -> Any:
        """Returns the answer of an operation, or an exception."""
        raise NotImplementedError

    # -- see NativeInFlight ---------------------------------------------------------------------------------------

    def prepare(self, arguments: Sequence[Any]) -> Sequence[Prepared]:
        return [Prepared(argument, self.encode(argument)) for argument in arguments]

    def run(
        self,
        places: int,
        arguments: Sequence[Prepared],
        due: Sequence[int] | None,
        deadline_ns: int,
        most_bytes: int,
    ) -> RanInFlight:
        requests = [each.request for each in arguments]
        responses = self._http.run(places, requests, due, deadline_ns, most_bytes)
        over = now()
        columns = [np.frombuffer(column, dtype=np.int64) for column in responses.moments()]
        starts, *_, ends, freed = columns

        def decode() -> Sequence[Any]:
            moments = starmap(Moments, zip(*(column.tolist() for column in columns), strict=True))
            return list(map(self._answer, arguments, responses.answers(), moments))

        return RanInFlight(starts, ends, freed, over, responses.full, decode)

    def _answer(self, prepared: Prepared, result: tuple[Any, ...], at: Moments) -> Any:
        if len(result) == FAILURE:
            number, text = result
            return RequestFailed(text, number)
        received = Received(*result)
        self.codes[received.status] += 1
        return self.answer(prepared.argument, received, at)

    # -- see InFlight: single requests that are not measured --------------------------------------------------------

    def begin(self, place: int, argument: Any) -> None:
        self._begun.append((place, argument))

    def ended(self, wait_ns: int) -> Sequence[tuple[int, Any]]:
        """Makes the requests that were begun, all at once."""
        begun, self._begun = self._begun, []
        if not begun:
            return ()
        ran = self.run(self._places, self.prepare([argument for _, argument in begun]), None, FOREVER_NS, MOST_BYTES)
        return list(zip((place for place, _ in begun), ran.decode(), strict=True))

    def close(self) -> None:
        del self._http


def _read(path: Any) -> bytes:
    if path is None:
        raise UsageError("no file of trusted certificates is here: name one by SSL_CERT_FILE")
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}") from None


class UrlRequester(NativeRequester):
    """Requests with the same options to some URLs. An operation's argument is its URL."""

    def __init__(self, urls: Sequence[str], servers: Servers, places: int, fresh: bool, options: Options) -> None:
        super().__init__(servers, places, fresh, options)
        self._options = options
        self._requests = {url: self._request(url) for url in urls}

    def encode(self, argument: str) -> Any:
        return self._requests[argument]

    def _request(self, url: str) -> Any:
        options, parts = self._options, split_url(url)
        body = curl.encode_value(options.data)
        lines = [line.partition(":")[::2] for line in options.header]
        headers = [(name.strip(), value.strip()) for name, value in lines]
        given = {name.lower() for name, _ in headers}
        if "transfer-encoding" in given:
            raise UsageError("native load can't send Transfer-Encoding: leave out the header, or use --load library")
        if body is not None and "content-type" not in given:
            # As libcurl does for such a body.
            headers.append(("Content-Type", "application/x-www-form-urlencoded"))
        length = None if body is None else len(body)
        head = encode_head(options.method, parts, headers, length, self.fresh)
        return self.request_type(self._servers.number(parts), head, body, 0, options.method == "HEAD")

    def answer(self, argument: str, received: Received, at: Moments) -> Response | StatusError:
        if received.status >= ERROR_FROM:
            return StatusError(f"HTTP {received.status}")
        times = [max(moment - at.start, 0) / 1e3 for moment in (at.connected, at.secured, at.sent, at.first, at.end)]
        connected, secured, sent, first, total = times
        return Response(
            received.status,
            received.size,
            received.digest,
            None,
            received.connects,
            stages.Moments(None, connected, secured, sent, sent, first, total),
            VERSIONS[received.minor],
            0,
        )
