"""Parquet by pyarrow: a directory of files, one for each transaction, which are never changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dyno.engines._shared.flushing import flush
from dyno.model import Caveat, Tier, Value

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # A file is written under another name, and gets its own when it is whole.
    Tier.PROCESS: {"flush": "none"},
    Tier.POWER: {"flush": "fsync"},
}
SUFFIX, DIRECTORY = ".parquet", "variables.json"


class Parquet:
    """The files, in the order in which they came."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        self.home, self.flushed, self.options = home, tier is Tier.POWER, options
        for left in home.glob(f"*{SUFFIX}.new"):
            left.unlink()
        self._opened: list[Any] = []

    def open(self, path: Path) -> Any:
        """A file of samples or rows, until the engine is closed."""
        from pyarrow.parquet import ParquetFile

        found = ParquetFile(path, memory_map=bool(self.options["mmap"]))
        self._opened.append(found)
        return found

    def commit(self, new: Path) -> Path:
        """Gives a file that is whole its own name, whatever had that before."""
        path = new.with_suffix("")
        if self.flushed:
            flush([new])
        new.rename(path)
        if self.flushed:
            flush([path])
        return path

    def close(self) -> None:
        for part in self._opened:
            part.close(force=True)
        self._opened.clear()

    def version(self) -> str:
        return f"Parquet by pyarrow {version('pyarrow')}"

    def settings(self) -> Mapping[str, Value | None]:
        told = {name: self.options[name] for name in ("compression", "group_rows", "mmap")}
        return {**told, "flush": "fsync" if self.flushed else "none"}

    def parts(self) -> list[Path]:
        """Those of samples or rows, the oldest first."""
        return sorted(self.home.glob(f"*{SUFFIX}"))

    def files(self) -> Iterable[Path]:
        return [*self.parts(), *self.home.glob(DIRECTORY)]

    def caveats(self) -> Iterable[Caveat]:
        return ()
