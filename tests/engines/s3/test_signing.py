"""Signatures of S3 requests are those of the AWS tools' own library."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any
from urllib.parse import urlsplit

import pytest

from dyno.engines.s3.buckets import Access
from dyno.engines.s3.objects import METHODS, Api
from dyno.engines.s3.signing import BODY_HEADER, UNSIGNED, Signer
from dyno.suites.objectstore import StoreRequest

MOMENT = datetime(2026, 11, 29, 23, 59, 58, tzinfo=timezone.utc)
REQUESTS = [
    StoreRequest("get", "plain"),
    StoreRequest("get", "a b/ü+&=~*", start=5, end=9),
    StoreRequest("head", "a//b"),
    StoreRequest("put", "key", b"body"),
    StoreRequest("delete", "key"),
    StoreRequest("copy", "to", other="from ü"),
    StoreRequest("list", "a b/", other="a b/c+d", number=7),
]


@pytest.mark.parametrize("token", ["", "a/token="])
@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: f"{request.verb} {request.key}")
def test_signatures_are_those_of_botocore(
    request_: StoreRequest, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    auth: Any = pytest.importorskip("botocore.auth")
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    at = Access("http://127.0.0.1:9000", "eu-west-1", "AKID", "secret/key", token, "bucket", "pre fix/", True)
    api, method = Api(at), METHODS[request_.verb]
    url = api.url(request_)
    ours = Signer(at)(method, urlsplit(url), api.headers(request_), MOMENT)
    monkeypatch.setattr(auth, "get_current_datetime", lambda: MOMENT.replace(tzinfo=None), raising=False)
    headers = {**api.headers(request_), BODY_HEADER: UNSIGNED}
    theirs = AWSRequest(method, url, headers=headers, data=b"")
    signer = auth.S3SigV4Auth(Credentials("AKID", "secret/key", token or None), "s3", "eu-west-1")
    monkeypatch.setattr(signer, "payload", lambda request: UNSIGNED)
    signer.add_auth(theirs)
    assert ours["Authorization"] == theirs.headers["Authorization"]
    assert ours["x-amz-date"] == theirs.headers["X-Amz-Date"] == "20261129T235958Z"
