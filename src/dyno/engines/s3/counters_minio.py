"""MinIO's own counters, from its pages of metrics, which are always on."""

from __future__ import annotations

import base64
import hmac
import json
from collections import Counter as Sums
from collections.abc import Mapping
from time import time
from typing import Any

from dyno.contracts.counters import BYTES, COUNT, Counter, CounterSpec
from dyno.servers.loopback import Address

METRICS = (
    Counter("minio_api_requests_total", COUNT, "requests of S3's API"),
    Counter("minio_api_requests_errors_total", COUNT, "requests of S3's API that failed"),
    Counter("minio_api_requests_traffic_received_bytes", BYTES, "data in requests of S3's API"),
    Counter("minio_api_requests_traffic_sent_bytes", BYTES, "data in answers of S3's API"),
    Counter("go_memstats_mallocs_total", COUNT, "allocations of memory"),
    Counter("go_memstats_alloc_bytes_total", BYTES, "memory that was allocated"),
)
NAMES = {counter.name for counter in METRICS}
PAGES = ("/minio/metrics/v3/api/requests", "/minio/v2/metrics/node")
SECONDS = 10
"""Timeout of a page, and how long its token is valid."""


def read(engine: Any) -> Mapping[str, int]:
    """Adds up the values of all labels. A metric is missing until something has been counted."""
    # Slow to import.
    from urllib.request import Request, urlopen

    sums = Sums[str](dict.fromkeys(NAMES, 0))
    address = engine.server.address
    for page in PAGES:
        request = Request(f"{address.url}{page}", headers={"Authorization": f"Bearer {_sign_token(address)}"})
        with urlopen(request, timeout=SECONDS) as answer:
            text = answer.read().decode()
        for line in text.splitlines():
            name, _, value = line.rpartition(" ")
            name = name.partition("{")[0]
            if name in NAMES:
                sums[name] += int(float(value))
    return sums


def _sign_token(address: Address) -> str:
    """Returns the token (JSON Web Token, RFC 7519) that the pages require."""
    claims = {"exp": int(time()) + SECONDS, "sub": address.user, "iss": "prometheus"}
    parts = [_encode(json.dumps(part).encode()) for part in ({"alg": "HS512", "typ": "JWT"}, claims)]
    signature = hmac.digest(address.password.encode(), ".".join(parts).encode(), "sha512")
    return ".".join([*parts, _encode(signature)])


def _encode(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


COUNTERS = CounterSpec('MinIO, Inc., MinIO documentation, "Metrics and alerts"', METRICS, read)
