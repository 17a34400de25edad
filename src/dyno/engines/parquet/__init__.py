"""Parquet through pyarrow: a directory of immutable files, one per transaction."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dyno.contracts.engine import Engine, EngineSpec, Gap, Maintenance, PortSpec
from dyno.contracts.model import Tier, Value
from dyno.contracts.settings import Setting, boolean, choice, integer
from dyno.engines.arraystores.flushing import flush
from dyno.host.installation import version
from dyno.suites.arrays.port import CHUNK_ROWS

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # A file is written under a temporary name, and renamed when it is complete.
    Tier.PROCESS: {"flush": "none"},
    Tier.POWER: {"flush": "fsync"},
}
GAP = Gap("updates", "unsupported", "a file of Parquet's is never changed: it would have to be written anew")
MOST_OPEN = 256
"""Maximum number of files kept open. A store may have more files than a process may open, by default 1,024."""
SUFFIX, DIRECTORY = ".parquet", "variables.json"


class Parquet(Engine):
    """A directory of Parquet files. Their names sort in the order of their creation."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        self.home, self.flushed, self.options = home, tier is Tier.POWER, options
        for unfinished in home.glob(f"*{SUFFIX}.new"):
            unfinished.unlink()
        self._open_files = OrderedDict[Path, Any]()

    def open(self, path: Path) -> Any:
        """Opens a file, or returns it from a cache of the `MOST_OPEN` most recently used files."""
        if path in self._open_files:
            self._open_files.move_to_end(path)
            return self._open_files[path]
        from pyarrow.parquet import ParquetFile

        file = self._open_files[path] = ParquetFile(path, memory_map=bool(self.options["mmap"]))
        if len(self._open_files) > MOST_OPEN:
            _, oldest = self._open_files.popitem(last=False)
            oldest.close(force=True)
        return file

    def commit(self, new: Path) -> Path:
        """Renames a complete file to its final name."""
        path = new.with_suffix("")
        if self.flushed:
            flush([new])
        new.rename(path)
        if self.flushed:
            flush([path])
        return path

    def close(self) -> None:
        for file in self._open_files.values():
            file.close(force=True)
        self._open_files.clear()

    def version(self) -> str:
        return f"Parquet by pyarrow {version('pyarrow')}"

    def settings(self) -> Mapping[str, Value | None]:
        settings = {name: self.options[name] for name in ("compression", "group_rows", "mmap")}
        return {**settings, "flush": "fsync" if self.flushed else "none"}

    def parts(self) -> list[Path]:
        """Returns the files of samples or rows, the oldest first."""
        return sorted(self.home.glob(f"*{SUFFIX}"))

    def files(self) -> Iterable[Path]:
        return [*self.parts(), *self.home.glob(DIRECTORY)]


ENGINE = EngineSpec(
    name="parquet",
    title="Parquet, files of columns that are never changed (pyarrow)",
    opener=Parquet,
    ports={
        "arrays": PortSpec("dyno.engines.parquet.tables:Arrays", gaps=(GAP,)),
        "series": PortSpec(
            "dyno.engines.parquet.tables:Series",
            options=(Setting("merged", integer(2, 10_000), 64, "files of single batches that are merged into one"),),
        ),
    },
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    seldom=Maintenance("every commit is a file of its own, and nothing else is ever done"),
    modules=("pyarrow", "pandas"),
    requires=("pyarrow>=15", "pandas>=2.0"),
    options=(
        Setting("group_rows", integer(1, CHUNK_ROWS), CHUNK_ROWS, "rows of a row group"),
        Setting("compression", choice("snappy", "zstd", "lz4", "gzip", "none"), "snappy", "of columns (the default)"),
        Setting("mmap", boolean, False, "map files into memory (pyarrow's default: no)"),
    ),
)
