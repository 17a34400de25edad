"""A store's bucket, through S3's API: creates, sweeps and removes it, and explains why it can't be used. Other
modules send the requests that are measured.

Sources: boto3 documentation, "Credentials" and "Error handling"; Amazon S3 API Reference, "Error Responses".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dyno.contracts.engine import Engine
from dyno.contracts.model import Refused, Tier, Unavailable, Value
from dyno.contracts.native_load import NATIVE_CLIENT
from dyno.contracts.passwords import mask_password
from dyno.contracts.safe_read import toml
from dyno.contracts.settings import Setting, choice
from dyno.host.installation import version
from dyno.servers import namespace

if TYPE_CHECKING:
    import boto3
    from botocore.client import BaseClient

CLIENTS = ("boto3", "thin", NATIVE_CLIENT)
_CLIENTS_HELP = "boto3; thin: libcurl, which signs requests itself; or native: native load"
CLIENT = Setting("client", choice(*CLIENTS), CLIENTS[0], _CLIENTS_HELP)
REGION = "us-east-1"
Response = Mapping[str, Any]
"""A response that boto3 parsed, or a part of it."""
ADMIN_SECONDS = 20
"""Timeout in seconds of the requests that create and remove buckets."""
DELETED = 1_000
"""Maximum number of objects in a request that deletes them."""
KEYS = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile of ~/.aws"
REASONS = Path(__file__).with_name("reasons.toml")
"""Why requests are refused, by error code, as templates for `str.format`."""
NO_KEYS = f"no keys found: {KEYS}"
NO_S3_BODY = "something else than S3's XML"
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
    """A bucket, its server and the access keys. The keys are left out of the repr."""

    endpoint: str
    region: str
    access: str = field(repr=False)
    secret: str = field(repr=False)
    token: str = field(repr=False)
    bucket: str
    prefix: str
    """Prefix of all object keys; empty in a bucket that Dyno created."""
    own: bool
    """True if Dyno started the server."""
    authority: str | None = None
    """Path of a file of CA certificates, if the AWS tools' configuration names one."""


class Store(Engine):
    """Base of the S3 engines. A store is a bucket that Dyno creates, or a prefix in a bucket that the user named. If
    a home is opened again, it has the same bucket and prefix."""

    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value], server: Any) -> None:
        self.options, self.server = options, server
        self._name = name_of(namespace.store_name(home))
        self.client, self.at = _connect_client(self._name, options, server)
        # Run before boto3's own handler, which would silently retry in the right region.
        self.client.meta.events.register_first("needs-retry.s3", self._check_region)
        with self.explained_errors():
            if not server.own:
                self._sweep()
            if not self.at.prefix:
                self._create()
            elif "Name" not in self.client.list_objects_v2(Bucket=self.at.bucket, MaxKeys=1):
                raise self._not_s3(NO_S3_BODY)

    # -- creating and removing ------------------------------------------------------------------------------

    def _create(self) -> None:
        from botocore.exceptions import ClientError

        with suppress(ClientError):
            self.client.head_bucket(Bucket=self.at.bucket)
            return
        outside = self.at.region != REGION and not self.server.own
        if outside:
            where = {"CreateBucketConfiguration": {"LocationConstraint": self.at.region}}
        else:
            where = {}
        self.client.create_bucket(Bucket=self.at.bucket, **where)

    def _sweep(self) -> None:
        """Removes buckets or prefixes that dead runs of this machine left behind."""
        from botocore.exceptions import ClientError

        names: set[str] = set()
        if self.at.prefix:
            prefixes = self._pages("list_objects_v2", "CommonPrefixes", Prefix="dyno-", Delimiter="/")
            names = {each["Prefix"].rstrip("/") for each in prefixes}
            names |= {each["Key"].partition("/")[0] for each in self._pages("list_multipart_uploads", "Uploads")}
        else:
            # The access keys may be allowed to use a bucket, but not to list all buckets.
            with suppress(ClientError):
                listing = self.client.list_buckets()
                if "Buckets" not in listing:
                    raise self._not_s3(NO_S3_BODY)
                names = {each["Name"] for each in listing["Buckets"]}
        for name in map(name_of, namespace.find_abandoned(each.replace("-", "_") for each in names)):
            if self.at.prefix:
                self._empty(self.at.bucket, f"{name}/")
            else:
                self._empty(name, "")
                self.client.delete_bucket(Bucket=name)

    def remove(self) -> None:
        """Deletes the bucket, or everything under the prefix."""
        self._empty(self.at.bucket, self.at.prefix)
        if not self.at.prefix:
            self.client.delete_bucket(Bucket=self.at.bucket)

    def _empty(self, bucket: str, prefix: str) -> None:
        # Safeguard: either the prefix or the whole bucket must be Dyno's.
        if not (prefix or bucket).startswith("dyno-"):
            raise ValueError(f"{bucket}/{prefix} was not created by Dyno")
        for each in self._pages("list_multipart_uploads", "Uploads", bucket):
            if each["Key"].startswith(prefix):
                self.client.abort_multipart_upload(Bucket=bucket, Key=each["Key"], UploadId=each["UploadId"])
        keys = [{"Key": each["Key"]} for each in self._pages("list_objects_v2", "Contents", bucket, Prefix=prefix)]
        for start in range(0, len(keys), DELETED):
            objects = {"Objects": keys[start : start + DELETED], "Quiet": True}
            if errors := self.client.delete_objects(Bucket=bucket, Delete=objects).get("Errors"):
                raise Refused(f"can't delete Dyno's objects in {bucket}: {errors[0].get('Code')}")

    def _pages(self, call: str, field: str, bucket: str = "", **arguments: str) -> Iterator[Response]:
        for page in self.client.get_paginator(call).paginate(Bucket=bucket or self.at.bucket, **arguments):
            yield from page.get(field) or ()

    # -- errors ---------------------------------------------------------------------------------------------

    @contextmanager
    def explained_errors(self) -> Iterator[None]:
        """Replaces boto3's exceptions by Refused, whose message is one line and contains no access key."""
        from botocore import exceptions
        from botocore.parsers import ResponseParserError

        try:
            yield
        except exceptions.ClientError as error:
            raise self._convert_error(error.response) from None
        except (
            exceptions.NoCredentialsError,
            exceptions.PartialCredentialsError,
            exceptions.CredentialRetrievalError,
        ):
            raise Refused(NO_KEYS) from None
        except ResponseParserError:
            raise self._not_s3(NO_S3_BODY) from None
        except (exceptions.HTTPClientError, exceptions.ConnectionError) as error:
            raise Unavailable(f"can't connect to {mask_password(self.at.endpoint)}: {type(error).__name__}") from None

    def _check_region(self, response: tuple[object, Response] | None, **_: object) -> None:
        """Handler of botocore's event `needs-retry`. Raises Refused if the bucket is in another region. The second
        part of `response` is the parsed response."""
        parsed = response[1] if response else {}
        if error := parsed.get("Error"):
            region = parsed["ResponseMetadata"]["HTTPHeaders"].get("x-amz-bucket-region") or error.get("Region")
            if error.get("Code") in WRONG_REGION or (region and region != self.at.region):
                raise self._convert_error({"Error": {"Code": WRONG_REGION[0], "Region": region}})

    def _convert_error(self, response: Response) -> Refused:
        error = response.get("Error", {})
        code, status = str(error.get("Code", "")), response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if code in WRONG_REGION:
            right = ""
            if error.get("Region"):
                right = f"in {error['Region']}, "
            return Refused(f"the bucket is {right}not in {self.at.region}: set its region with region= or AWS_REGION")
        reasons = toml(REASONS)
        if code in reasons:
            return Refused(f"{reasons[code].format(keys=KEYS)} ({code})")
        if status == 403 and code in ("403", "Forbidden"):
            return Refused(reasons["AccessDenied"])
        if not code.isalpha():
            return self._not_s3(f"HTTP {status}")
        return Refused(f"the server answered {code} (HTTP {status})")

    def _not_s3(self, answer: str) -> Refused:
        return Refused(f"{mask_password(self.at.endpoint)} is not an S3 server: it answered {answer}")

    def close(self) -> None:
        self.client.close()

    def clients(self) -> str:
        """Returns the versions of the client libraries."""
        from dyno.suites.http import curl

        boto = f"boto3 {version('boto3')}"
        if self.options["client"] == "boto3":
            return boto
        if self.options["client"] == NATIVE_CLIENT:
            return f"Dyno's native load, {boto}"
        return f"{curl.pycurl().version.split()[1]}, {boto}"


def name_of(store: str) -> str:
    """Returns a store's name in a form that is valid for a bucket."""
    return store.replace("_", "-")


def _connect_client(name: str, options: Mapping[str, Value], server: Any) -> tuple[BaseClient, Access]:
    """Returns a boto3 client that creates and removes buckets, and the access to the store's bucket."""
    import boto3
    from botocore.exceptions import BotoCoreError

    if server.own:
        keys = {"aws_access_key_id": server.address.user, "aws_secret_access_key": server.address.password}
        session = boto3.Session(**keys)
        endpoint = server.address.url
        region = server.region
    else:
        try:
            session = boto3.Session(profile_name=str(options["profile"]) or None)
        except BotoCoreError as error:
            raise Refused(f"{error}") from None
        endpoint, region = server.url or None, str(options["region"]) or session.region_name or REGION
    credentials = session.get_credentials()
    if credentials is None:
        raise Refused(NO_KEYS)
    frozen = credentials.get_frozen_credentials()
    # boto3 has no public name for this value, which comes from AWS_CA_BUNDLE or from ca_bundle in a profile.
    authority = None
    if not server.own:
        authority = session._session.get_config_variable("ca_bundle")
    client = create_client(session, endpoint, region, 1, ADMIN_SECONDS, retries=4, authority=authority)
    bucket = "" if server.own else str(options["bucket"])
    at = Access(
        client.meta.endpoint_url,
        region,
        frozen.access_key,
        frozen.secret_key,
        frozen.token or "",
        bucket or name,
        f"{name}/" if bucket else "",
        server.own,
        authority,
    )
    return client, at


def create_client(
    session: boto3.Session,
    endpoint: str | None,
    region: str,
    connections: int,
    patience: float,
    retries: int = 0,
    authority: str | None = None,
) -> BaseClient:
    """Returns a boto3 client. Retries, connections, timeouts, addressing and proxies differ from boto3's defaults."""
    from botocore.config import Config

    config = Config(
        region_name=region,
        retries={"total_max_attempts": retries + 1, "mode": "standard"},
        max_pool_connections=connections,
        connect_timeout=patience,
        read_timeout=patience,
        # The bucket's name is in the path: as a part of the host name, it would have to be resolved.
        s3={"addressing_style": "path"},
        # Use no proxy for a server on this machine.
        proxies={} if endpoint and "127.0.0.1" in endpoint else None,
    )
    return session.client("s3", endpoint_url=endpoint, config=config, verify=authority)
