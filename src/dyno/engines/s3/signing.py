"""AWS Signature Version 4 of requests whose bodies are not signed. Building a request is most of the time between two
batches, and the signer of boto3's library takes ten times as long. Source: Amazon Web Services, Amazon S3 API
Reference, "Signature Calculations for the Authorization Header"."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from datetime import datetime, timezone
from hashlib import sha256
from urllib.parse import SplitResult

from dyno.engines.s3.buckets import Access

ALGORITHM = "AWS4-HMAC-SHA256"
SERVICE, REQUEST = "s3", "aws4_request"
BODY_HEADER, UNSIGNED = "x-amz-content-sha256", "UNSIGNED-PAYLOAD"


class Signer:
    """Signs requests with the keys of a bucket. Called with method, URL and headers, returns the headers with those
    of the signature. The URL's query must be sorted."""

    def __init__(self, at: Access) -> None:
        self._at = at
        self._day = ""
        self._key = b""

    def __call__(
        self, method: str, url: SplitResult, headers: Mapping[str, str], at: datetime | None = None
    ) -> dict[str, str]:
        at = at or datetime.now(timezone.utc)
        stamp = at.strftime("%Y%m%dT%H%M%SZ")
        day = stamp[:8]
        if day != self._day:
            self._day, self._key = day, self._derive(day)
        own = {**headers, BODY_HEADER: UNSIGNED, "x-amz-date": stamp}
        if self._at.token:
            own["x-amz-security-token"] = self._at.token
        signed = {name.lower(): value for name, value in own.items()}
        signed["host"] = url.netloc
        names = sorted(signed)
        lines = "".join(f"{name}:{signed[name]}\n" for name in names)
        listed = ";".join(names)
        canonical = f"{method}\n{url.path}\n{url.query}\n{lines}\n{listed}\n{UNSIGNED}"
        scope = f"{day}/{self._at.region}/{SERVICE}/{REQUEST}"
        text = f"{ALGORITHM}\n{stamp}\n{scope}\n{sha256(canonical.encode()).hexdigest()}"
        signature = hmac.digest(self._key, text.encode(), "sha256").hex()
        credential = f"Credential={self._at.access}/{scope}"
        own["Authorization"] = f"{ALGORITHM} {credential}, SignedHeaders={listed}, Signature={signature}"
        return own

    def _derive(self, day: str) -> bytes:
        """Returns the key of a day."""
        key = f"AWS4{self._at.secret}".encode()
        for part in (day, self._at.region, SERVICE, REQUEST):
            key = hmac.digest(key, part.encode(), "sha256")
        return key
