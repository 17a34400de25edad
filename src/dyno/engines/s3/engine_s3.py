"""A user's own object store, by its S3 API: Amazon's, or any other by its address. Keys come from where the AWS tools
have them, and are kept nowhere.

Without a bucket's name Dyno makes one of its own, and removes it. In a bucket that was named it has names of its own,
and touches nothing else.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dyno.contracts.engine import EngineSpec, PortSpec, Server
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting
from dyno.engines.s3 import buckets
from dyno.servers import user_server
from dyno.servers.user_server import URL, UserServer

ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


def serve(home: Path, tier: Tier | None, options: Mapping[str, Value], clients: int) -> Server:
    return UserServer(str(options[URL]))


def needs(options: Mapping[str, Value]) -> str | None:
    place = str(options[URL]) or configured(str(options["profile"]))
    # No client of S3's looks for them there.
    if "@" in urlsplit(place).netloc:
        return f"has keys in its address, where they would not be used: {buckets.KEYS}"
    if place or options["bucket"]:
        return None
    return "needs to be told where: -e s3:url=https://… for a server of yours, or s3:bucket=NAME for one of Amazon's"


def configured(profile: str) -> str:
    """The address that the AWS tools would go to, where that is not Amazon's own; empty where it is. Looked up
    without their library, which is slow to import. AWS SDKs and Tools Reference Guide, "Service-specific
    endpoints"."""
    if os.environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true":
        return ""
    if found := next(filter(None, map(os.environ.get, ENDPOINTS)), None):
        return found
    config = Path(os.environ.get("AWS_CONFIG_FILE", "~/.aws/config")).expanduser()
    with suppress(OSError):
        # Few have one, and a parser takes longer to load than most engines' declarations.
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
    """See `dyno.contracts.engine.Engine`."""

    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value], server: Any) -> None:
        super().__init__(home, options, server)

    def version(self) -> str:
        with self.plainly():
            told = self.client.list_objects_v2(Bucket=self.at.bucket, Prefix=self.at.prefix, MaxKeys=1)
        heads = told["ResponseMetadata"]["HTTPHeaders"]
        return f"{heads.get('server') or 'a server that does not tell its name'} ({self.clients()})"

    def settings(self) -> Mapping[str, Value | None]:
        tls = self.at.endpoint.startswith("https:")
        return {"client": self.options["client"], "region": self.at.region, "transport": "url", "tls": tls}

    def files(self) -> Iterable[Path]:
        return ()

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("yours", "is your own store: how it keeps what it acknowledges is not known here")


def removal(name: str, options: Mapping[str, Value]) -> str:
    own = buckets.name_of(name)
    words = ["rm", "--recursive", f"s3://{options['bucket']}/{own}/"] if options["bucket"] else ["rb", "--force"]
    flags = {"--endpoint-url": options[URL], "--profile": options["profile"]}
    given = [word for flag, value in flags.items() if value for word in (flag, str(value))]
    return shlex.join(["aws", "s3", *words, *([] if options["bucket"] else [f"s3://{own}"]), *given])


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
        Setting("bucket", str, "", "a bucket of yours, in which Dyno has names of its own; none: Dyno makes one"),
        Setting("region", str, "", "its region; none: as the AWS tools have it"),
        Setting("profile", str, "", "of the AWS tools' configuration"),
    ),
    server=serve,
    remove=remove,
    removal=removal,
    needs=needs,
    clients="one",
    by_default=False,
)
