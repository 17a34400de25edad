"""versitygw, which Dyno starts over a directory: an S3 server of which an object is a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dyno.contracts.engine import EngineSpec, PortSpec, Server
from dyno.contracts.model import Tier, Value
from dyno.engines.s3 import buckets, own_buckets
from dyno.engines.s3.own_buckets import FLUSHES
from dyno.engines.s3.server_versitygw import KIND, PROGRAM, Versity, missing
from dyno.servers import program_option

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # It has no flush: what it acknowledges is written to a file, with its attributes, and has its name.
    Tier.PROCESS: {FLUSHES: "none"},
}


def serve(home: Path, tier: Tier | None, options: Mapping[str, Value], clients: int) -> Server:
    return Versity(home, program_option.given(options))


class Store(own_buckets.Store):
    """See `dyno.contracts.engine.Engine`."""

    tiers = TIERS

    def version(self) -> str:
        return f"versitygw {KIND.version_of(PROGRAM, program_option.given(self.options))} ({self.clients()})"


ENGINE = EngineSpec(
    name="versitygw",
    title="versitygw 1.8, an S3 server over a directory of files, which Dyno starts (boto3, or libcurl)",
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
