"""Objects of an S3 API through boto3, as its users have it. It waits for each request: several are threads."""

from __future__ import annotations

from time import perf_counter_ns as now
from typing import Any

from dyno.engines.s3 import buckets
from dyno.engines.s3.http_requests import SPARE, may_open
from dyno.engines.s3.pool import Pool
from dyno.engines.s3.thin import Thin, error_of
from dyno.suites.objectstore.dataset import DIGEST
from dyno.suites.objectstore.port import Requester, StoreRequest, StoreResponse

PIECE_BYTES = 1 << 20


class Objects:
    """See `dyno.suites.objectstore.port.Bucket`: by whichever client was asked for."""

    def __init__(self, engine: Any, large: bool, patience: float) -> None:
        self._store: buckets.Store = engine
        self._large, self._patience = large, patience

    def asking(self, places: int, fresh: bool) -> Requester:
        may_open(places + SPARE)
        if self._store.options["client"] == "thin":
            return Thin(self._store.at, places, fresh, not self._large, self._patience)
        return _Boto(self._store.at, places, self._large, self._patience)

    def close(self) -> None:
        pass


class _Boto(Pool):
    def __init__(self, at: buckets.Access, places: int, large: bool, patience: float) -> None:
        self._at, self._large = at, large
        self._client = buckets.made(
            buckets.session_of(at), at.endpoint, at.region, places, patience, authority=at.authority
        )
        super().__init__(self._made, places)

    def _made(self, ask: StoreRequest) -> StoreResponse:
        from botocore.exceptions import ClientError

        try:
            return self._ask(ask)
        except ClientError as error:
            told = error.response
            raise error_of(told["ResponseMetadata"]["HTTPStatusCode"], str(told["Error"].get("Code", ""))) from None

    def _ask(self, ask: StoreRequest) -> StoreResponse:
        client, start = self._client, now()
        where = {"Bucket": self._at.bucket, "Key": self._at.prefix + ask.key}
        if ask.verb == "get":
            return self._get(ask, where, start)
        answer = StoreResponse()
        if ask.verb == "put":
            client.put_object(**where, Body=bytes(ask.body))
        elif ask.verb == "head":
            answer = StoreResponse(client.head_object(**where)["ContentLength"])
        elif ask.verb == "list":
            answer = self._list(ask)
        elif ask.verb == "copy":
            source = {"Bucket": self._at.bucket, "Key": self._at.prefix + ask.other}
            client.copy_object(**where, CopySource=source)
        elif ask.verb == "delete":
            client.delete_object(**where)
        else:
            answer = StoreResponse(tag=self._of_parts(ask, where))
        return answer._replace(total_ns=now() - start)

    def _get(self, ask: StoreRequest, where: dict[str, str], start: int) -> StoreResponse:
        if ask.start is not None:
            where["Range"] = f"bytes={ask.start}-{ask.end - 1}"
        told = self._client.get_object(**where)["Body"]
        first = now() - start
        if not self._large:
            body = told.read()
            return StoreResponse(len(body), None, body, first, now() - start)
        digest, size = DIGEST(), 0
        while piece := told.read(PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
        return StoreResponse(size, digest.digest(), None, first, now() - start)

    def _list(self, ask: StoreRequest) -> StoreResponse:
        prefix = self._at.prefix
        after = {"StartAfter": prefix + ask.other} if ask.other else {}
        told = self._client.list_objects_v2(
            Bucket=self._at.bucket, Prefix=prefix + ask.key, MaxKeys=ask.number, **after
        )
        return StoreResponse(names=lambda: [each["Key"][len(prefix) :] for each in told.get("Contents", ())])

    def _of_parts(self, ask: StoreRequest, where: dict[str, str]) -> str:
        client, upload = self._client, ask.upload
        if ask.verb == "open":
            return str(client.create_multipart_upload(**where)["UploadId"])
        if ask.verb == "part":
            part = client.upload_part(**where, UploadId=upload, PartNumber=ask.number, Body=bytes(ask.body))
            return str(part["ETag"])
        if ask.verb == "join":
            parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(ask.tags, 1)]
            client.complete_multipart_upload(**where, UploadId=upload, MultipartUpload={"Parts": parts})
        else:
            client.abort_multipart_upload(**where, UploadId=upload)
        return ""

    def close(self) -> None:
        super().close()
        self._client.close()
