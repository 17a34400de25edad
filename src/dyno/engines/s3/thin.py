"""Objects of an S3 API through libcurl, which signs requests by itself (AWS Signature Version 4): what a server can
do with as little of a client as there is. Many are under way at once in one process.

Bodies are not in the signature (UNSIGNED-PAYLOAD). curl's documentation, "CURLOPT_AWS_SIGV4"; Amazon Web Services,
Amazon S3 API Reference.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_plus, urlencode

from dyno.engines.s3.buckets import Access
from dyno.http.multi import CurlRequester
from dyno.http.options import Options
from dyno.suites.objectstore.dataset import DIGEST
from dyno.suites.objectstore.port import NoObject, StoreError, StoreRequest, StoreResponse, Throttled

SAFE = "/~-._"
NAME, CODE, UPLOAD = (re.compile(rf"<{name}>([^<]*)</{name}>".encode()) for name in ("Key", "Code", "UploadId"))
SAID_BYTES = 4_096
OTHER_FROM = 300
"""The bucket is elsewhere: nothing was done."""
ENCODED = b"<EncodingType>url</EncodingType>"
THROTTLES = ("SlowDown", "SlowDownRead", "SlowDownWrite", "TooManyRequests", "RequestLimitExceeded")
READS, WRITES = ("get", "head", "list"), ("put", "part", "copy")
UNSIGNED = "x-amz-content-sha256: UNSIGNED-PAYLOAD"


class Sink:
    """What takes a body that is too large to be kept, and what is said in it where it is an error."""

    def __init__(self) -> None:
        self.digest, self.said = DIGEST(), b""

    def __call__(self, piece: bytes) -> None:
        self.digest.update(piece)
        if len(self.said) < SAID_BYTES:
            self.said += piece[:SAID_BYTES]


class Source:
    """What a request's body is read from, piece by piece."""

    def __init__(self) -> None:
        self.body: Any = memoryview(b"")
        self.at = 0

    def take(self, body: Any) -> int:
        self.body, self.at = memoryview(body), 0
        return len(self.body)

    def read(self, most: int) -> bytes:
        piece = bytes(self.body[self.at : self.at + most])
        self.at += len(piece)
        return piece

    def seek(self, at: int, origin: int) -> int:
        self.at = at
        return 0


class Thin(CurlRequester):
    """See `dyno.suites.objectstore.port.Requester`."""

    def __init__(self, at: Access, places: int, fresh: bool, keeps: bool, patience: float) -> None:
        noproxy, cacert = "*" if at.own else None, Path(at.authority) if at.authority else None
        options = Options(http1_1=True, max_time=patience, noproxy=noproxy, cacert=cacert)
        super().__init__(options, places, fresh, keeps)
        self._root = f"{at.endpoint.rstrip('/')}/{at.bucket}"
        self._at, self._keeps = at, keeps
        for handle in self._handles:
            self._sign(handle)

    def _sign(self, handle: Any) -> None:
        c = self._c
        handle.setopt(c.AWS_SIGV4, f"aws:amz:{self._at.region}:s3")
        handle.setopt(c.USERNAME, self._at.access)
        handle.setopt(c.PASSWORD, self._at.secret)
        handle.setopt(c.UPLOAD_BUFFERSIZE, 512 << 10)
        handle.source, handle.heads, handle.ask, handle.verb = Source(), [], None, ""
        handle.setopt(c.READFUNCTION, handle.source.read)
        handle.setopt(c.SEEKFUNCTION, handle.source.seek)
        handle.setopt(c.HEADERFUNCTION, handle.heads.append)

    # -- a request ------------------------------------------------------------------------------------------

    def _ask(self, handle: Any, argument: Any) -> None:
        ask: StoreRequest = argument
        c = self._c
        if handle.verb != ask.verb:
            self._turn(handle, ask.verb)
        handle.ask = ask
        handle.heads.clear()
        handle.setopt(c.URL, self._url(ask))
        if ask.verb in WRITES:
            handle.setopt(c.INFILESIZE_LARGE, handle.source.take(ask.body))
        elif ask.verb in ("open", "join"):
            handle.setopt(c.POSTFIELDS, _joined(ask) if ask.verb == "join" else b"")
        if ask.verb == "copy":
            source = quote(f"/{self._at.bucket}/{self._at.prefix}{ask.other}", SAFE)
            self._headers(handle, f"x-amz-copy-source: {source}")
        elif ask.start is not None:
            self._headers(handle, f"Range: bytes={ask.start}-{ask.end - 1}")
        elif handle.ranged:
            self._headers(handle)
        if ask.verb == "get" and not self._keeps:
            handle.digest = Sink()
            handle.setopt(c.WRITEFUNCTION, handle.digest)

    def _headers(self, handle: Any, *more: str) -> None:
        """A header without a value is not sent."""
        token = [f"x-amz-security-token: {self._at.token}"] if self._at.token else []
        handle.setopt(self._c.HTTPHEADER, [UNSIGNED, "Expect:", "Content-Type:", *token, *more])
        handle.ranged = bool(more)

    def _turn(self, handle: Any, verb: str) -> None:
        """The handle makes another kind of request than before."""
        c = self._c
        handle.verb = verb
        handle.setopt(c.HTTPGET, 1)
        handle.unsetopt(c.CUSTOMREQUEST)
        if verb == "head":
            handle.setopt(c.NOBODY, 1)
        elif verb in WRITES:
            handle.setopt(c.UPLOAD, 1)
        elif verb in ("delete", "drop"):
            handle.setopt(c.CUSTOMREQUEST, "DELETE")
        elif verb in ("open", "join"):
            handle.setopt(c.POST, 1)
        self._headers(handle)
        if verb != "get" or self._keeps:
            handle.setopt(c.WRITEFUNCTION, handle.pieces.append)

    def _url(self, ask: StoreRequest) -> str:
        prefix = self._at.prefix
        if ask.verb == "list":
            query = {
                "encoding-type": "url",
                "list-type": "2",
                "max-keys": str(ask.number),
                "prefix": prefix + ask.key,
            }
            if ask.other:
                query["start-after"] = prefix + ask.other
            return f"{self._root}?{urlencode(sorted(query.items()), quote_via=quote, safe='~-._')}"
        path = f"{self._root}/{quote(prefix + ask.key, SAFE)}"
        if ask.verb == "open":
            return f"{path}?uploads="
        if ask.verb == "part":
            return f"{path}?partNumber={ask.number}&uploadId={quote(ask.upload, SAFE)}"
        return f"{path}?uploadId={quote(ask.upload, SAFE)}" if ask.upload else path

    # -- and its answer -------------------------------------------------------------------------------------

    def _response(self, handle: Any) -> Any:
        c, told, ask = self._c, handle.getinfo, handle.ask
        status = told(c.HTTP_CODE)
        self.codes[status] += 1
        kept = b"".join(handle.pieces)
        handle.pieces.clear()
        sunk = handle.digest if ask.verb == "get" and not self._keeps else None
        if status >= OTHER_FROM:
            return _error(status, kept if sunk is None else sunk.said)
        if ask.verb in ("copy", "join") and (code := CODE.search(kept)):
            # Which has begun to answer before it knows.
            return _error(status, code[0])
        first, total = told(c.STARTTRANSFER_TIME_T) * 1_000, told(c.TOTAL_TIME_T) * 1_000
        if sunk is not None:
            return StoreResponse(int(told(c.SIZE_DOWNLOAD_T)), sunk.digest.digest(), None, first, total)
        if ask.verb == "get":
            return StoreResponse(len(kept), None, kept, first, total)
        size = int(told(c.CONTENT_LENGTH_DOWNLOAD_T)) if ask.verb == "head" else 0
        names = partial(_names, kept, len(self._at.prefix)) if ask.verb == "list" else None
        return StoreResponse(size, None, None, first, total, names, _tag(ask, handle.heads, kept))


def _names(body: bytes, cut: int) -> Sequence[str]:
    names = [unescape(found.decode()) for found in NAME.findall(body)]
    # Not every server writes them as it was asked to.
    return [(unquote_plus(name) if ENCODED in body else name)[cut:] for name in names]


def _tag(ask: StoreRequest, heads: Sequence[bytes], body: bytes) -> str:
    if ask.verb == "open":
        found = UPLOAD.search(body)
        return unescape(found[1].decode()) if found else ""
    if ask.verb == "part":
        return next((head[5:].strip().decode() for head in heads if head[:5].lower() == b"etag:"), "")
    return ""


def _joined(ask: StoreRequest) -> bytes:
    parts = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>" for number, tag in enumerate(ask.tags, 1)
    )
    return f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()


def _error(status: int, said: bytes) -> Exception:
    found = CODE.search(said)
    return error_of(status, found[1].decode(errors="replace") if found else "")


def error_of(status: int, code: str) -> Exception:
    """What an answer of that status, with that code of S3's, is."""
    if status == 429 or (status == 503 and code in THROTTLES):
        return Throttled(f"HTTP {status} {code}".strip())
    if status == 404 and code in ("", "404", "NoSuchKey"):
        return NoObject(f"HTTP {status} {code}".strip())
    return StoreError(f"HTTP {status} {code}".strip())
