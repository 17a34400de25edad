"""versitygw, which Dyno starts over a directory: an S3 server of which an object is a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dyno.engine import EngineSpec, PortSpec, Server
from dyno.engines._shared import s3, s3own
from dyno.engines._shared.s3own import FLUSHES
from dyno.model import Tier, Value
from dyno.servers import chosen
from dyno.servers.versitygw import KIND, PROGRAM, Versity, missing

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # It has no flush: what it acknowledges is written to a file, with its attributes, and has its name.
    Tier.PROCESS: {FLUSHES: "none"},
}


def serve(home: Path, tier: Tier | None, options: Mapping[str, Value], clients: int) -> Server:
    return Versity(home, chosen.given(options))


class Store(s3own.Store):
    """See `dyno.engine.Engine`."""

    tiers = TIERS

    def version(self) -> str:
        return f"versitygw {KIND.version_of(PROGRAM, chosen.given(self.options))} ({self.clients()})"


ENGINE = EngineSpec(
    name="versitygw",
    title="versitygw 1.8, an S3 server over a directory of files, which Dyno starts (boto3, or libcurl)",
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
