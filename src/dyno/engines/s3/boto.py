"""The port `bucket` through S3's API. The option `client` selects boto3, which most users have, or `thin`."""

from time import perf_counter_ns as now

from dyno.engines.s3 import buckets
from dyno.engines.s3.http_requests import allow_open_files
from dyno.engines.s3.thin import ThinRequester, error_of
from dyno.suites.objectstore import DIGEST, Bucket, Requester, StoreRequest, StoreResponse, ThreadedRequester

PIECE_BYTES = 1 << 20


class Objects(Bucket):
    """See `dyno.suites.objectstore.Bucket`."""

    def __init__(self, engine: buckets.Store, large: bool, patience: float) -> None:
        self._store, self._large, self._patience = engine, large, patience

    def asking(self, places: int, fresh: bool) -> Requester:
        allow_open_files(places)
        if self._store.options["client"] == "thin":
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
                    after = {"StartAfter": prefix + request.other} if request.other else {}
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
        digest, size = DIGEST(), 0
        while piece := stream.read(PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
        return StoreResponse(size, digest.digest(), None, first, now() - start)

    def close(self) -> None:
        super().close()
        self._client.close()
