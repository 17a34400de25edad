"""Parquet by pyarrow: a directory of files, one for each transaction, which are never changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dyno.contracts.engine import Gap
from dyno.contracts.model import Caveat, Tier, Value
from dyno.engines.arraystores.flushing import flush
from dyno.host.versions import version

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # A file is written under another name, and gets its own when it is whole.
    Tier.PROCESS: {"flush": "none"},
    Tier.POWER: {"flush": "fsync"},
}
GAP = Gap("updates", "unsupported", "a file of Parquet's is never changed: it would have to be written anew")
OPEN = 256
"""Files that are kept open: a process may have 1,024 by default, and a store may have more."""
SUFFIX, DIRECTORY = ".parquet", "variables.json"


class Parquet:
    """The files, in the order in which they came."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        self.home, self.flushed, self.options = home, tier is Tier.POWER, options
        for left in home.glob(f"*{SUFFIX}.new"):
            left.unlink()
        self._opened = OrderedDict[Path, Any]()

    def open(self, path: Path) -> Any:
        """A file of samples or rows. It stays open until `OPEN` others were asked for after it."""
        if path in self._opened:
            self._opened.move_to_end(path)
            return self._opened[path]
        from pyarrow.parquet import ParquetFile

        found = self._opened[path] = ParquetFile(path, memory_map=bool(self.options["mmap"]))
        if len(self._opened) > OPEN:
            _, oldest = self._opened.popitem(last=False)
            oldest.close(force=True)
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
        for part in self._opened.values():
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
