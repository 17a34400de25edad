"""A bucket of an S3 server that Dyno starts. What is true of one server alone may not be put here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from dyno.contracts.model import Caveat, Tier, Value
from dyno.engines.s3 import buckets
from dyno.host import tree

FLUSHES = "flushes"


class Store(buckets.Store):
    """See `dyno.contracts.engine.Engine`, but for its version."""

    tiers: Mapping[Tier, Mapping[str, Value]]

    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value], server: object) -> None:
        super().__init__(home, options, server)
        self._tier = tier or next(iter(self.tiers))

    def settings(self) -> Mapping[str, Value | None]:
        told = {"client": self.options["client"], "region": self.at.region, "transport": "loopback"}
        return {**self.tiers[self._tier], **told}

    def files(self) -> Iterable[Path]:
        return tree.files(self.server.data)

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("loopback", "is on the client's machine: no line is between them, and they share its cores")
