"""Parquet by pyarrow: a directory of files, one for each transaction, which are never changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dyno.engine import EngineSpec, Gap, PortSpec
from dyno.engines._shared.flushing import flush
from dyno.model import Caveat, Tier, Value
from dyno.settings import Setting, choice, integer, yes_no
from dyno.suites.arrays import columns
from dyno.suites.arrays.port import BY_NAME, CHUNK_ROWS, Change, Chunk

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # A file is written under another name, and gets its own when it is whole.
    Tier.PROCESS: {"flush": "none"},
    Tier.POWER: {"flush": "fsync"},
}
SUFFIX = ".parquet"


class Parquet:
    """The files, in the order in which they came."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        self._home, self._flushed, self.options = home, tier is Tier.POWER, options
        for left in home.glob(f"*{SUFFIX}.new"):
            left.unlink()
        self.ends = [0]
        """The number of rows up to the end of each file, and before the first."""
        self.parts: list[Any] = []
        for path in self.files():
            self._opened(path)

    def _opened(self, path: Path) -> None:
        from pyarrow.parquet import ParquetFile

        self.parts.append(ParquetFile(path, memory_map=bool(self.options["mmap"])))
        self.ends.append(self.ends[-1] + self.parts[-1].metadata.num_rows)

    def next(self) -> Path:
        """Where the next file is written, under a name that is not yet its own."""
        return self._home / f"{len(self.parts):08d}{SUFFIX}.new"

    def commit(self, new: Path) -> None:
        path = new.with_suffix("")
        if self._flushed:
            flush([new])
        new.rename(path)
        if self._flushed:
            flush([path])
        self._opened(path)

    def close(self) -> None:
        for part in self.parts:
            part.close(force=True)
        self.parts.clear()

    def version(self) -> str:
        return f"Parquet by pyarrow {version('pyarrow')}"

    def settings(self) -> Mapping[str, Value | None]:
        told = {name: self.options[name] for name in ("compression", "group_rows", "mmap")}
        return {**told, "flush": "fsync" if self._flushed else "none"}

    def files(self) -> Iterable[Path]:
        return sorted(self._home.glob(f"*{SUFFIX}"))

    def caveats(self) -> Iterable[Caveat]:
        return ()


class Arrays:
    """The `arrays` port."""

    def __init__(self, engine: Parquet) -> None:
        self._engine = engine

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        from pyarrow.parquet import ParquetWriter

        options, path, writer = self._engine.options, self._engine.next(), None

        def write(chunk: Chunk) -> None:
            nonlocal writer
            table = columns.table(chunk)
            if writer is None:
                writer = ParquetWriter(path, table.schema, compression=str(options["compression"]))
            writer.write_table(table, row_group_size=int(options["group_rows"]))

        try:
            yield write
        except BaseException:
            if writer is not None:
                writer.close()
                path.unlink()
            raise
        if writer is not None:
            writer.close()
            self._engine.commit(path)

    def _batches(self, names: Sequence[str]) -> Iterator[Any]:
        """All rows, a group at a time."""
        for part in self._engine.parts:
            for group in range(part.num_row_groups):
                yield part.read_row_group(group, columns=list(names))

    def sum(self, column: str) -> int | float:
        from pyarrow import compute

        parts = [compute.sum(batch.column(0)).as_py() for batch in self._batches((column,))]
        return sum(parts) if BY_NAME[column].exact else float(sum(parts))

    def stats(self, names: Sequence[str]) -> list[tuple[float, float]]:
        return [
            columns.moments(lambda name=name: (b.column(0).to_numpy() for b in self._batches((name,))))  # type: ignore[misc]
            for name in names
        ]

    def slice(self, rows: range) -> Chunk:
        import pyarrow

        found = []
        for part, start, stop in zip(self._engine.parts, self._engine.ends, self._engine.ends[1:], strict=False):
            if start < rows.stop and rows.start < stop:
                found.append(_sliced(part, max(rows.start - start, 0), min(rows.stop, stop) - start))
        return columns.of_table(pyarrow.concat_tables(found))

    def frame(self, names: Sequence[str]) -> Any:
        import pyarrow

        tables = [part.read(columns=list(names)) for part in self._engine.parts]
        return pyarrow.concat_tables(tables).select(list(names)).to_pandas()

    def update(self, change: Change) -> None:
        raise NotImplementedError(GAP.reason)

    def close(self) -> None:
        pass


def _sliced(part: Any, start: int, stop: int) -> Any:
    """These rows of a file, of which only the groups are read that have some."""
    groups, first, end = list[int](), 0, 0
    for group in range(part.num_row_groups):
        begin, end = end, end + part.metadata.row_group(group).num_rows
        if begin < stop and start < end:
            first = begin if not groups else first
            groups.append(group)
    return part.read_row_groups(groups).slice(start - first, stop - start)


GAP = Gap("updates", "unsupported", "a file of Parquet's is never changed: it would have to be written anew")
ENGINE = EngineSpec(
    name="parquet",
    title="Parquet, files of columns that are never changed (pyarrow)",
    opener=Parquet,
    ports={"arrays": PortSpec(Arrays, gaps=(GAP,))},
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    modules=("pyarrow", "pandas"),
    requires=("pyarrow>=15", "pandas>=2.0"),
    options=(
        Setting("group_rows", integer(1, CHUNK_ROWS), CHUNK_ROWS, "rows of a row group"),
        Setting(
            "compression",
            choice("snappy", "zstd", "lz4", "gzip", "none"),
            "snappy",
            "of columns (pyarrow's default: snappy)",
        ),
        Setting("mmap", yes_no, False, "whether files are mapped (pyarrow's default: no)"),
    ),
)
