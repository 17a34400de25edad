"""A bucket of an S3 API: whose it is, what Dyno made in it, and what is wrong where it can't be used. How objects are
asked for may not be put here.

boto3 documentation, "Credentials" and "Error handling"; Amazon Web Services, Amazon S3 API Reference, "Error
Responses".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dyno.contracts.model import Refused, Value
from dyno.contracts.settings import Setting, choice
from dyno.host.versions import version
from dyno.servers import namespace
from dyno.text.passwords import mask_password

CLIENTS = ("boto3", "thin")
CLIENT = Setting("client", choice(*CLIENTS), CLIENTS[0], "boto3, or thin: libcurl, which signs by itself")
REGION = "us-east-1"
ADMIN_SECONDS, FULL = 20, 1_000
KEYS = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile of ~/.aws"
WHY = {
    "InvalidAccessKeyId": f"the access key is not known there: {KEYS}",
    # versitygw's word for it.
    "XAdminUserNotFound": f"the access key is not known there: {KEYS}",
    "SignatureDoesNotMatch": f"the secret key is not that of the access key, or the region is another: {KEYS}",
    "InvalidToken": "the session token is not valid there",
    "ExpiredToken": "the session token has expired",
    "RequestTimeTooSkewed": "this machine's clock is too far from the server's: set it",
    "AccessDenied": "the bucket is another's, or these keys may not use it",
    "AllAccessDisabled": "the bucket is another's, or these keys may not use it",
    "BucketAlreadyExists": "the bucket is another's",
    "NoSuchBucket": "there is no such bucket; where none is named, Dyno makes one of its own",
}
WRONG_REGION = (
    "AuthorizationHeaderMalformed",
    "PermanentRedirect",
    "IllegalLocationConstraintException",
    "InvalidLocationConstraint",
    "InvalidRegion",
    "301",
)


@dataclass(frozen=True)
class Access:
    """Where a bucket is, and who asks. What is secret is not shown."""

    endpoint: str
    region: str
    access: str = field(repr=False)
    secret: str = field(repr=False)
    token: str = field(repr=False)
    bucket: str
    prefix: str
    """Of all names that are Dyno's; none in a bucket of its own."""
    own: bool
    authority: str | None = None
    """A file of certificates, where the AWS tools' configuration names one."""


class Store:
    """See `dyno.contracts.engine.Engine`, but for its version, settings, files and caveats: a bucket of its own, or
    a prefix in one that a user named. Opened again, it is the same."""

    def __init__(self, home: Path, options: Mapping[str, Value], server: Any) -> None:
        self.options, self.server = options, server
        self._name = name_of(namespace.of(home))
        self.client, self.at = _connected(self._name, options, server)
        # Before boto3's own, which would ask again in the region that is told, and say nothing of it.
        self.client.meta.events.register_first("needs-retry.s3", self._of_its_region)
        with self.plainly():
            if not server.own:
                self._sweep()
            if not self.at.prefix:
                self._make()
            elif "Name" not in self.client.list_objects_v2(Bucket=self.at.bucket, MaxKeys=1):
                raise self._no_s3("nothing of S3's")

    # -- Dyno's own -----------------------------------------------------------------------------------------

    def _make(self) -> None:
        from botocore.exceptions import ClientError

        with suppress(ClientError):
            self.client.head_bucket(Bucket=self.at.bucket)
            return
        outside = self.at.region != REGION and not self.server.own
        where = {"CreateBucketConfiguration": {"LocationConstraint": self.at.region}} if outside else {}
        self.client.create_bucket(Bucket=self.at.bucket, **where)

    def _sweep(self) -> None:
        """What runs of this machine left that are no more."""
        from botocore.exceptions import ClientError

        if self.at.prefix:
            told = self._pages("list_objects_v2", "CommonPrefixes", Prefix="dyno-", Delimiter="/")
            names = {each["Prefix"].rstrip("/") for each in told}
            names |= {each["Key"].partition("/")[0] for each in self._pages("list_multipart_uploads", "Uploads")}
            for name in _abandoned(names):
                self._empty(self.at.bucket, f"{name}/")
            return
        buckets: list[dict[str, str]] = []
        # Who may use a bucket may not always see all.
        with suppress(ClientError):
            told = self.client.list_buckets()
            if "Buckets" not in told:
                raise self._no_s3("nothing of S3's")
            buckets = told["Buckets"]
        for name in _abandoned(each["Name"] for each in buckets):
            self._empty(name, "")
            self.client.delete_bucket(Bucket=name)

    def remove(self) -> None:
        """All that is Dyno's."""
        self._empty(self.at.bucket, self.at.prefix)
        if not self.at.prefix:
            self.client.delete_bucket(Bucket=self.at.bucket)

    def _empty(self, bucket: str, prefix: str) -> None:
        # Of a bucket that Dyno made, all; of any other, what is below a name of Dyno's.
        if not (prefix or bucket).startswith("dyno-"):
            raise ValueError(f"{bucket}/{prefix} is not Dyno's")
        for each in self._pages("list_multipart_uploads", "Uploads", bucket):
            if each["Key"].startswith(prefix):
                self.client.abort_multipart_upload(Bucket=bucket, Key=each["Key"], UploadId=each["UploadId"])
        keys: list[dict[str, str]] = []
        for each in self._pages("list_objects_v2", "Contents", bucket, Prefix=prefix):
            keys.append({"Key": each["Key"]})
        for start in range(0, len(keys), FULL):
            given = {"Objects": keys[start : start + FULL], "Quiet": True}
            told = self.client.delete_objects(Bucket=bucket, Delete=given)
            if errors := told.get("Errors"):
                raise Refused(f"can't delete what Dyno made in {bucket}: {errors[0].get('Code')}")

    def _pages(self, call: str, what: str, bucket: str = "", **given: str) -> Iterator[Mapping[str, Any]]:
        pages = self.client.get_paginator(call).paginate(Bucket=bucket or self.at.bucket, **given)
        for page in pages:
            yield from page.get(what) or ()

    # -- what is wrong --------------------------------------------------------------------------------------

    @contextmanager
    def plainly(self) -> Iterator[None]:
        """What a library raises, as one line in which no key stands."""
        from botocore import exceptions as known
        from botocore.parsers import ResponseParserError

        try:
            yield
        except known.ClientError as error:
            raise self._refused(error.response) from None
        except (known.NoCredentialsError, known.PartialCredentialsError, known.CredentialRetrievalError):
            raise Refused(f"there are no keys for it: {KEYS}") from None
        except ResponseParserError:
            raise self._no_s3("nothing of S3's") from None
        except (known.HTTPClientError, known.ConnectionError) as error:
            raise Refused(f"can't connect to {mask_password(self.at.endpoint)}: {type(error).__name__}") from None

    def _of_its_region(self, response: tuple[Any, Mapping[str, Any]] | None, **_: Any) -> None:
        """See botocore's event `needs-retry`: of an answer, its parsed form is the second."""
        told = response[1] if response else {}
        if error := told.get("Error"):
            where = told["ResponseMetadata"]["HTTPHeaders"].get("x-amz-bucket-region") or error.get("Region")
            if error.get("Code") in WRONG_REGION or (where and where != self.at.region):
                raise self._refused({"Error": {"Code": WRONG_REGION[0], "Region": where}})

    def _refused(self, response: Mapping[str, Any]) -> Refused:
        told = response.get("Error", {})
        code, status = str(told.get("Code", "")), response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if code in WRONG_REGION:
            right = f", which is {told['Region']}" if told.get("Region") else ""
            return Refused(
                f"the region {self.at.region} is not the bucket's{right}: name it with region= or AWS_REGION"
            )
        if code in WHY:
            return Refused(f"{WHY[code]} ({code})")
        if status == 403 and code in ("403", "Forbidden"):
            return Refused(WHY["AccessDenied"])
        if not code.isalpha():
            return self._no_s3(f"HTTP {status}")
        return Refused(f"it answered {code} (HTTP {status})")

    def _no_s3(self, said: str) -> Refused:
        return Refused(f"{mask_password(self.at.endpoint)} is no S3: it answered {said}")

    def close(self) -> None:
        self.client.close()

    def clients(self) -> str:
        from dyno.http import curl

        boto = f"boto3 {version('boto3')}"
        return boto if self.options["client"] == "boto3" else f"{curl.pycurl().version.split()[1]}, {boto}"


def name_of(store: str) -> str:
    """The store's name as a name of a bucket."""
    return store.replace("_", "-")


def _abandoned(names: Iterable[str]) -> list[str]:
    return [name_of(name) for name in namespace.abandoned(each.replace("-", "_") for each in names)]


def _connected(name: str, options: Mapping[str, Value], server: Any) -> tuple[Any, Access]:
    """The client of boto3 that makes and removes buckets, and where it goes."""
    import boto3
    from botocore.exceptions import BotoCoreError

    if server.own:
        keys = {"aws_access_key_id": server.address.user, "aws_secret_access_key": server.address.password}
        session, endpoint, region = boto3.Session(**keys), server.address.url, server.region
    else:
        try:
            session = boto3.Session(profile_name=str(options["profile"]) or None)
        except BotoCoreError as error:
            raise Refused(f"{error}") from None
        endpoint, region = server.url or None, str(options["region"]) or session.region_name or REGION
    found = session.get_credentials()
    if found is None:
        raise Refused(f"there are no keys for it: {KEYS}")
    frozen = found.get_frozen_credentials()
    # The session below boto3's has what boto3 has no word for: AWS_CA_BUNDLE, or ca_bundle of a profile.
    authority = None if server.own else session._session.get_config_variable("ca_bundle")
    client = made(session, endpoint, region, 1, ADMIN_SECONDS, retries=4, authority=authority)
    named = "" if server.own else str(options["bucket"])
    at = Access(
        client.meta.endpoint_url,
        region,
        frozen.access_key,
        frozen.secret_key,
        frozen.token or "",
        named or name,
        f"{name}/" if named else "",
        server.own,
        authority,
    )
    return client, at


def made(
    session: Any,
    endpoint: str | None,
    region: str,
    connections: int,
    patience: float,
    retries: int = 0,
    authority: str | None = None,
) -> Any:
    """A client of boto3. What it does by itself for a request is its own default, but that it makes none again."""
    from botocore.config import Config

    config = Config(
        region_name=region,
        retries={"total_max_attempts": retries + 1, "mode": "standard"},
        max_pool_connections=connections,
        connect_timeout=patience,
        read_timeout=patience,
        # A name of a bucket before that of the host is one that has to be looked up.
        s3={"addressing_style": "path"},
        # Of a server on this machine no proxy is asked.
        proxies={} if endpoint and "127.0.0.1" in endpoint else None,
    )
    return session.client("s3", endpoint_url=endpoint, config=config, verify=authority)


def session_of(at: Access) -> Any:
    import boto3

    return boto3.Session(at.access, at.secret, at.token or None, at.region)
