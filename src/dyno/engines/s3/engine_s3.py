"""The user's own object store, through S3's API: Amazon's, or any other by its URL. Access keys come from the
configuration of the AWS tools, and are never stored.

Without the name of a bucket, Dyno creates one and removes it. In a named bucket, all of Dyno's object keys have a
prefix, and Dyno touches nothing else.
"""

import os
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.model import Caveat, Value
from dyno.contracts.settings import Setting
from dyno.engines.s3 import buckets
from dyno.servers import user_server
from dyno.servers.user_server import URL, UserServer

ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


def needs(options: Mapping[str, Value]) -> str | None:
    url = str(options[URL]) or configured(str(options["profile"]))
    if "@" in urlsplit(url).netloc:
        return f"ignores keys in its URL: {buckets.KEYS}"
    if url or options["bucket"]:
        return None
    return "needs a server or a bucket: -e s3:url=https://… for your own server, or s3:bucket=NAME for Amazon's"


def configured(profile: str) -> str:
    """Returns the URL that the AWS tools would use; empty for Amazon's own. Reads it without their library, which is
    slow to import. Source: AWS SDKs and Tools Reference Guide, "Service-specific endpoints"."""
    if os.environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true":
        return ""
    if url := next(filter(None, map(os.environ.get, ENDPOINTS)), None):
        return url
    config = Path(os.environ.get("AWS_CONFIG_FILE", "~/.aws/config")).expanduser()
    with suppress(OSError):
        # Most users have no such file, and importing the parser takes longer than importing most declarations.
        if not config.exists():
            return ""
    from configparser import ConfigParser
    from configparser import Error as ConfigError

    parser = ConfigParser(interpolation=None, strict=False)
    with suppress(OSError, ConfigError, UnicodeDecodeError):
        parser.read(config)
    name = profile or os.environ.get("AWS_PROFILE") or "default"
    return parser.get(name if name == "default" else f"profile {name}", "endpoint_url", fallback="")


class Store(buckets.Store):
    def version(self) -> str:
        with self.explained_errors():
            listing = self.client.list_objects_v2(Bucket=self.at.bucket, Prefix=self.at.prefix, MaxKeys=1)
        server = listing["ResponseMetadata"]["HTTPHeaders"].get("server")
        return f"{server or 'an unknown server'} ({self.clients()})"

    def settings(self) -> Mapping[str, Value | None]:
        tls = self.at.endpoint.startswith("https:")
        return {"client": self.options["client"], "region": self.at.region, "transport": "url", "tls": tls}

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("yours", "is your own store: Dyno does not know how durable an acknowledged write is")


def removal(name: str, options: Mapping[str, Value]) -> str:
    own = buckets.name_of(name)
    words = ["rm", "--recursive", f"s3://{options['bucket']}/{own}/"] if options["bucket"] else ["rb", "--force"]
    flags = {"--endpoint-url": options[URL], "--profile": options["profile"]}
    arguments = [word for flag, value in flags.items() if value for word in (flag, str(value))]
    return shlex.join(["aws", "s3", *words, *([] if options["bucket"] else [f"s3://{own}"]), *arguments])


def remove(home: Path, options: Mapping[str, Value], server: Any) -> None:
    store = Store(home, None, options, server)
    try:
        store.remove()
    finally:
        store.close()


ENGINE = EngineSpec(
    name="s3",
    title="Your own object store by its S3 API, Amazon's or another (boto3, or libcurl)",
    opener=Store,
    ports={"bucket": PortSpec("dyno.engines.s3.boto:Objects")},
    tiers={},
    modules=("boto3", "pycurl"),
    requires=("boto3>=1.36", "pycurl>=7.45.7"),
    options=(
        user_server.setting("https", "http"),
        buckets.CLIENT,
        Setting("bucket", str, "", "your bucket, in which Dyno uses a prefix; empty: Dyno creates a bucket"),
        Setting("region", str, "", "its region; empty: as configured for the AWS tools"),
        Setting("profile", str, "", "profile of the AWS tools' configuration"),
    ),
    server=lambda home, tier, options, clients: UserServer(str(options[URL])),
    remove=remove,
    removal=removal,
    needs=needs,
    by_default=False,
)
