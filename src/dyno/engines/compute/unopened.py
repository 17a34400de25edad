"""An engine that has nothing to open: no files, no settings, no caveats. Which one it is may not be put here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from dyno.contracts.model import Caveat, Tier, Value


class Unopened:
    """See `dyno.contracts.engine.Engine`; a class that inherits from it has a version."""

    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value]) -> None:
        pass

    def close(self) -> None:
        pass

    def settings(self) -> Mapping[str, Value | None]:
        return {}

    def files(self) -> Iterable[Path]:
        return ()

    def caveats(self) -> Iterable[Caveat]:
        return ()
