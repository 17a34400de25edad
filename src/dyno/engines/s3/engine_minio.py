"""MinIO, which Dyno starts on one directory: an S3 server with a format of its own in its files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from dyno.contracts.engine import EngineSpec, PortSpec, Server
from dyno.contracts.model import Caveat, Tier, Value
from dyno.engines.s3 import buckets, own_buckets
from dyno.engines.s3.own_buckets import FLUSHES
from dyno.engines.s3.server_minio import KIND, PROGRAM, Minio, missing
from dyno.servers import program_option

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # What is in an object is flushed; the directory that its name is in is not, and so it has no tier power.
    Tier.PROCESS: {FLUSHES: "contents"},
}


def serve(home: Path, tier: Tier | None, options: Mapping[str, Value], clients: int) -> Server:
    return Minio(home, program_option.given(options))


class Store(own_buckets.Store):
    """See `dyno.contracts.engine.Engine`."""

    tiers = TIERS

    def version(self) -> str:
        return f"minio {KIND.version_of(PROGRAM, program_option.given(self.options))} ({self.clients()})"

    def caveats(self) -> Iterable[Caveat]:
        yield from super().caveats()
        yield Caveat("names-not-flushed", "flushes what is in an object, and not its name: dearer than tier process")


ENGINE = EngineSpec(
    name="minio",
    title="MinIO on one directory, which Dyno starts (boto3, or libcurl)",
    opener=Store,
    ports={"bucket": PortSpec("dyno.engines.s3.boto:Objects")},
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    modules=("boto3", "pycurl"),
    requires=("boto3>=1.36", "pycurl>=7.45.7"),
    programs=(PROGRAM,),
    options=(buckets.CLIENT, KIND.setting),
    server=serve,
    needs=lambda options: missing(program_option.given(options)),
    clients="one",
    by_default=False,
)
