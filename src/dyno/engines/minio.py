"""MinIO, which Dyno starts on one directory: an S3 server with a format of its own in its files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from dyno.engine import EngineSpec, PortSpec, Server
from dyno.engines._shared import s3, s3own
from dyno.engines._shared.s3own import FLUSHES
from dyno.model import Caveat, Tier, Value
from dyno.servers import chosen
from dyno.servers.minio import KIND, PROGRAM, Minio, missing

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # What is in an object is flushed; the directory that its name is in is not, and so it has no tier power.
    Tier.PROCESS: {FLUSHES: "contents"},
}


def serve(home: Path, tier: Tier | None, options: Mapping[str, Value], clients: int) -> Server:
    return Minio(home, chosen.given(options))


class Store(s3own.Store):
    """See `dyno.engine.Engine`."""

    tiers = TIERS

    def version(self) -> str:
        return f"minio {KIND.version_of(PROGRAM, chosen.given(self.options))} ({self.clients()})"

    def caveats(self) -> Iterable[Caveat]:
        yield from super().caveats()
        yield Caveat("names-not-flushed", "flushes what is in an object, and not its name: dearer than tier process")


ENGINE = EngineSpec(
    name="minio",
    title="MinIO on one directory, which Dyno starts (boto3, or libcurl)",
    opener=Store,
    ports={"bucket": PortSpec("dyno.engines._shared.s3boto:Objects")},
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    modules=("boto3", "pycurl"),
    requires=("boto3>=1.36", "pycurl>=7.45.7"),
    programs=(PROGRAM,),
    options=(s3.CLIENT, KIND.setting),
    server=serve,
    needs=lambda options: missing(chosen.given(options)),
    clients="one",
    by_default=False,
)
