"""The port `bucket` through S3's API. The option `client` selects boto3, which most users have; `thin`: libcurl,
which signs requests itself (AWS Signature Version 4), and has many requests in flight in one process; or `native`:
native load, whose requests are signed before the clock starts. Uploads in parts, and objects that are written, read
and deleted one after the other, are requests that follow from each other's responses, which libcurl makes.

Only boto3's signatures cover bodies; the others' do not (UNSIGNED-PAYLOAD). Sources: curl's documentation,
"CURLOPT_AWS_SIGV4"; Amazon Web Services, Amazon S3 API Reference.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from html import unescape
from pathlib import Path
from time import perf_counter_ns as now
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote_plus, urlencode, urlsplit

from dyno.contracts.native_load import CLIENT, NATIVE_CLIENT
from dyno.engines.s3 import buckets
from dyno.engines.s3.buckets import Access
from dyno.engines.s3.http_requests import allow_open_files
from dyno.engines.s3.signing import BODY_HEADER, UNSIGNED, Signer
from dyno.suites._shared.digest import new_digest
from dyno.suites.http.multi import CurlRequester
from dyno.suites.http.native import Moments, NativeRequester, Received, Servers, encode_head
from dyno.suites.http.options import Options
from dyno.suites.objectstore import (
    Bucket,
    NoObject,
    Requester,
    StoreError,
    StoreRequest,
    StoreResponse,
    ThreadedRequester,
    Throttled,
)

if TYPE_CHECKING:
    import pycurl
    from _typeshed import ReadableBuffer

PIECE_BYTES = 1 << 20


class Objects(Bucket):
    """See `dyno.suites.objectstore.Bucket`."""

    def __init__(self, engine: buckets.Store, large: bool, patience: float) -> None:
        self._store = engine
        self._large = large
        self._patience = patience

    def asking(self, places: int, fresh: bool, library: bool = False) -> Requester:
        allow_open_files(places)
        client = self._store.options[CLIENT]
        if client == NATIVE_CLIENT and not library:
            return NativeStoreRequester(self._store.at, places, fresh, self._patience)
        # libcurl makes the requests that native load can't.
        if client in ("thin", NATIVE_CLIENT):
            return ThinRequester(self._store.at, places, fresh, not self._large, self._patience)
        return BotoRequester(self._store.at, places, self._large, self._patience)


class BotoRequester(ThreadedRequester):
    """Sends requests through boto3. It waits for each request, so each request in flight has a thread."""

    def __init__(self, at: buckets.Access, places: int, large: bool, patience: float) -> None:
        import boto3

        self._at, self._large = at, large
        session = boto3.Session(at.access, at.secret, at.token or None, at.region)
        self._client = buckets.create_client(
            session, at.endpoint, at.region, places, patience, authority=at.authority
        )
        super().__init__(self._respond, places)

    def _respond(self, request: StoreRequest) -> StoreResponse:
        from botocore.exceptions import ClientError

        client, where = self._client, {"Bucket": self._at.bucket, "Key": self._at.prefix + request.key}
        response, start = StoreResponse(), now()
        try:
            match request.verb:
                case "get":
                    return self._get(request, where, start)
                case "put":
                    client.put_object(**where, Body=bytes(request.body))
                case "head":
                    response = StoreResponse(client.head_object(**where)["ContentLength"])
                case "list":
                    prefix = self._at.prefix
                    if request.other:
                        after = {"StartAfter": prefix + request.other}
                    else:
                        after = {}
                    listing = client.list_objects_v2(
                        Bucket=self._at.bucket, Prefix=prefix + request.key, MaxKeys=request.number, **after
                    )
                    contents = listing.get("Contents", ())
                    response = StoreResponse(names=lambda: [each["Key"][len(prefix) :] for each in contents])
                case "copy":
                    source = {"Bucket": self._at.bucket, "Key": self._at.prefix + request.other}
                    client.copy_object(**where, CopySource=source)
                case "delete":
                    client.delete_object(**where)
                case "open":
                    response = StoreResponse(tag=str(client.create_multipart_upload(**where)["UploadId"]))
                case "part":
                    part = client.upload_part(
                        **where, UploadId=request.upload, PartNumber=request.number, Body=bytes(request.body)
                    )
                    response = StoreResponse(tag=str(part["ETag"]))
                case "join":
                    parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(request.tags, 1)]
                    upload = {"Parts": parts}
                    client.complete_multipart_upload(**where, UploadId=request.upload, MultipartUpload=upload)
                case "drop":
                    client.abort_multipart_upload(**where, UploadId=request.upload)
        except ClientError as error:
            parsed = error.response
            raise error_of(
                parsed["ResponseMetadata"]["HTTPStatusCode"], str(parsed["Error"].get("Code", ""))
            ) from None
        return response._replace(total_ns=now() - start)

    def _get(self, request: StoreRequest, where: dict[str, str], start: int) -> StoreResponse:
        if request.start is not None:
            where["Range"] = f"bytes={request.start}-{request.end - 1}"
        stream = self._client.get_object(**where)["Body"]
        first = now() - start
        if not self._large:
            body = stream.read()
            return StoreResponse(len(body), None, body, first, now() - start)
        digest, size = new_digest(), 0
        while piece := stream.read(PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
        return StoreResponse(size, digest.digest(), None, first, now() - start)

    def close(self) -> None:
        super().close()
        self._client.close()


SAFE = "/~-._"
NAME, CODE, UPLOAD = (re.compile(rf"<{name}>([^<]*)</{name}>".encode()) for name in ("Key", "Code", "UploadId"))
ERROR_BYTES = 4_096
"""Number of bytes at the beginning of a body that are kept, in case it is an error message."""
ERROR_FROM = 300
"""Lowest status of an error. A redirect is an error too: the bucket is elsewhere, and nothing was done."""
ENCODED = b"<EncodingType>url</EncodingType>"
THROTTLES = ("SlowDown", "SlowDownRead", "SlowDownWrite", "TooManyRequests", "RequestLimitExceeded")
READS, WRITES = ("get", "head", "list"), ("put", "part", "copy")
METHODS = {"get": "GET", "list": "GET", "head": "HEAD", "put": "PUT", "copy": "PUT", "delete": "DELETE"}
"""Method of each request of a single phase."""
LISTED_BYTES = 8 << 20
"""Number of bytes of a list that are kept: a thousand names, each of at most 1,024 bytes, some percent-encoded."""


class Api:
    """Addresses and headers of requests to a bucket."""

    def __init__(self, at: Access) -> None:
        self._at, self._root = at, f"{at.endpoint.rstrip('/')}/{at.bucket}"

    def url(self, request: StoreRequest) -> str:
        prefix = self._at.prefix
        if request.verb == "list":
            query = {
                "encoding-type": "url",
                "list-type": "2",
                "max-keys": str(request.number),
                "prefix": prefix + request.key,
            }
            if request.other:
                query["start-after"] = prefix + request.other
            return f"{self._root}?{urlencode(sorted(query.items()), quote_via=quote, safe='~-._')}"
        path = f"{self._root}/{quote(prefix + request.key, SAFE)}"
        if request.verb == "open":
            return f"{path}?uploads="
        if request.verb == "part":
            return f"{path}?partNumber={request.number}&uploadId={quote(request.upload, SAFE)}"
        if request.upload:
            return f"{path}?uploadId={quote(request.upload, SAFE)}"
        return path

    def headers(self, request: StoreRequest) -> dict[str, str]:
        """Returns the headers that only this request has."""
        if request.verb == "copy":
            return {"x-amz-copy-source": quote(f"/{self._at.bucket}/{self._at.prefix}{request.other}", SAFE)}
        if request.start is not None:
            return {"Range": f"bytes={request.start}-{request.end - 1}"}
        return {}


class Sink:
    """Receives a body that is too large to keep. Computes its digest and keeps its beginning."""

    def __init__(self) -> None:
        self.digest, self.beginning = new_digest(), b""

    def __call__(self, piece: bytes) -> None:
        self.digest.update(piece)
        if len(self.beginning) < ERROR_BYTES:
            self.beginning += piece[:ERROR_BYTES]


class Source:
    """The body of a request, which libcurl reads in pieces."""

    def __init__(self) -> None:
        self.body: memoryview = memoryview(b"")
        self.at = 0

    def replace(self, body: ReadableBuffer) -> int:
        """Sets the body; returns its number of bytes."""
        self.body, self.at = memoryview(body), 0
        return len(self.body)

    def read(self, most: int) -> bytes:
        piece = bytes(self.body[self.at : self.at + most])
        self.at += len(piece)
        return piece

    def seek(self, at: int, origin: int) -> int:
        self.at = at
        return 0


class ThinRequester(CurlRequester):
    """See `dyno.suites.objectstore.Requester`."""

    def __init__(self, at: Access, places: int, fresh: bool, keeps: bool, patience: float) -> None:
        noproxy, cacert = "*" if at.own else None, Path(at.authority) if at.authority else None
        options = Options(http1_1=True, max_time=patience, noproxy=noproxy, cacert=cacert)
        super().__init__(options, places, fresh, keeps)
        self._api = Api(at)
        self._at, self._keeps = at, keeps
        c = self._c
        for handle in self._handles:
            handle.setopt(c.AWS_SIGV4, f"aws:amz:{at.region}:s3")
            handle.setopt(c.USERNAME, at.access)
            handle.setopt(c.PASSWORD, at.secret)
            handle.setopt(c.UPLOAD_BUFFERSIZE, 512 << 10)
            handle.source = Source()
            handle.headers = []
            handle.request = None
            handle.verb = ""
            handle.setopt(c.READFUNCTION, handle.source.read)
            handle.setopt(c.SEEKFUNCTION, handle.source.seek)
            handle.setopt(c.HEADERFUNCTION, handle.headers.append)

    # -- a request ------------------------------------------------------------------------------------------

    def _ask(self, handle: pycurl.Curl, argument: StoreRequest) -> None:
        request: StoreRequest = argument
        c = self._c
        if handle.verb != request.verb:
            self._set_verb(handle, request.verb)
        handle.request = request
        handle.headers.clear()
        handle.setopt(c.URL, self._api.url(request))
        if request.verb in WRITES:
            handle.setopt(c.INFILESIZE_LARGE, handle.source.replace(request.body))
        elif request.verb in ("open", "join"):
            parts = "".join(
                f"<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>"
                for number, tag in enumerate(request.tags, 1)
            )
            body = ""
            if request.verb == "join":
                body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>"
            handle.setopt(c.POSTFIELDS, body.encode())
        if own := self._api.headers(request):
            self._set_headers(handle, *(f"{name}: {value}" for name, value in own.items()))
        elif handle.has_own_headers:
            self._set_headers(handle)
        if request.verb == "get" and not self._keeps:
            handle.digest = Sink()
            handle.setopt(c.WRITEFUNCTION, handle.digest)

    def _set_headers(self, handle: pycurl.Curl, *more: str) -> None:
        # libcurl leaves out a header whose value is empty.
        if self._at.token:
            token = [f"x-amz-security-token: {self._at.token}"]
        else:
            token = []
        handle.setopt(self._c.HTTPHEADER, [f"{BODY_HEADER}: {UNSIGNED}", "Expect:", "Content-Type:", *token, *more])
        handle.has_own_headers = bool(more)

    def _set_verb(self, handle: pycurl.Curl, verb: str) -> None:
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
        self._set_headers(handle)
        if verb != "get" or self._keeps:
            handle.setopt(c.WRITEFUNCTION, handle.pieces.append)

    # -- its response ---------------------------------------------------------------------------------------

    def _response(self, handle: pycurl.Curl) -> StoreResponse | Exception:
        c = self._c
        info = handle.getinfo
        request = handle.request
        status = info(c.HTTP_CODE)
        self.codes[status] += 1
        body = b"".join(handle.pieces)
        handle.pieces.clear()
        sink = None
        if request.verb == "get" and not self._keeps:
            sink = handle.digest
        if error := find_error(request, status, body if sink is None else sink.beginning):
            return error
        first, total = info(c.STARTTRANSFER_TIME_T) * 1_000, info(c.TOTAL_TIME_T) * 1_000
        if sink is not None:
            return StoreResponse(int(info(c.SIZE_DOWNLOAD_T)), sink.digest.digest(), None, first, total)
        if request.verb == "get":
            return StoreResponse(len(body), None, body, first, total)
        size = 0
        if request.verb == "head":
            size = int(info(c.CONTENT_LENGTH_DOWNLOAD_T))
        names = None
        if request.verb == "list":
            names = partial(_names, body, len(self._at.prefix))
        return StoreResponse(size, None, None, first, total, names, _tag(request, handle.headers, body))


class NativeStoreRequester(NativeRequester):
    """See `dyno.suites.objectstore.Requester`. Each operation is a single request."""

    def __init__(self, at: Access, places: int, fresh: bool, patience: float) -> None:
        cacert = Path(at.authority) if at.authority else None
        super().__init__(Servers([at.endpoint]), places, fresh, Options(max_time=patience, cacert=cacert))
        self._at, self._api = at, Api(at)
        self._sign = Signer(at)

    def encode(self, argument: StoreRequest) -> Any:
        request, method = argument, METHODS[argument.verb]
        url = urlsplit(self._api.url(request))
        headers = self._sign(method, url, self._api.headers(request))
        body = request.body if request.verb in WRITES else None
        head = encode_head(method, url, headers.items(), None if body is None else len(body), self.fresh)
        # The digest of an object is enough. An error has its reason in its body.
        keeps = LISTED_BYTES if request.verb == "list" else ERROR_BYTES
        return self.request_type(0, head, body, keeps, request.verb == "head")

    def answer(self, argument: StoreRequest, received: Received, at: Moments) -> StoreResponse | Exception:
        body = received.kept
        if error := find_error(argument, received.status, body):
            return error
        first, total = at.first - at.start, at.end - at.start
        if argument.verb == "get":
            return StoreResponse(received.size, received.digest, None, first, total)
        size = (received.length or 0) if argument.verb == "head" else 0
        names = partial(_names, body, len(self._at.prefix)) if argument.verb == "list" else None
        return StoreResponse(size, None, None, first, total, names)


def _names(body: bytes, cut: int) -> Sequence[str]:
    names = [unescape(name.decode()) for name in NAME.findall(body)]
    # Some servers don't encode names, although the request says so.
    return [(unquote_plus(name) if ENCODED in body else name)[cut:] for name in names]


def _tag(request: StoreRequest, headers: Sequence[bytes], body: bytes) -> str:
    if request.verb == "open":
        match = UPLOAD.search(body)
        if match:
            return unescape(match[1].decode())
        return ""
    if request.verb == "part":
        return next((header[5:].strip().decode() for header in headers if header[:5].lower() == b"etag:"), "")
    return ""


def find_error(request: StoreRequest, status: int, body: bytes) -> Exception | None:
    """Returns the exception for a response that is an error, by the beginning of its body; None for others."""
    # For a copy or join, the server starts its response before it knows the outcome, so the body may be an error.
    if status < ERROR_FROM and request.verb not in ("copy", "join"):
        return None
    code = CODE.search(body)
    if status < ERROR_FROM and code is None:
        return None
    return error_of(status, code[1].decode(errors="replace") if code else "")


def error_of(status: int, code: str) -> Exception:
    """Returns the exception for a response's status and S3 error code."""
    if status == 429 or (status == 503 and code in THROTTLES):
        return Throttled(f"HTTP {status} {code}".strip())
    if status == 404 and code in ("", "404", "NoSuchKey"):
        return NoObject(f"HTTP {status} {code}".strip())
    return StoreError(f"HTTP {status} {code}".strip())
