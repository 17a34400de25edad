"""A bucket of an S3 server that Dyno starts. What is true of one server alone may not be put here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from dyno.engines._shared import s3
from dyno.host import below
from dyno.model import Caveat, Tier, Value

FLUSHES = "flushes"


class Store(s3.Store):
    """See `dyno.engine.Engine`, but for its version."""

    tiers: Mapping[Tier, Mapping[str, Value]]

    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value], server: object) -> None:
        super().__init__(home, options, server)
        self._tier = tier or next(iter(self.tiers))

    def settings(self) -> Mapping[str, Value | None]:
        told = {"client": self.options["client"], "region": self.at.region, "transport": "loopback"}
        return {**self.tiers[self._tier], **told}

    def files(self) -> Iterable[Path]:
        return below.files(self.server.data)

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("loopback", "is on the client's machine: no line is between them, and they share its cores")
