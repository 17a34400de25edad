"""Parquet through pyarrow: a directory of immutable files, one per transaction."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from dyno.contracts.engine import CrashSpec, Engine, EngineSpec, Gap, Maintenance, PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Tier, Value
from dyno.contracts.settings import Setting, boolean, choice, integer
from dyno.engines.arraystores.flushing import flush, replace
from dyno.host.installation import version
from dyno.suites.arrays import columns
from dyno.suites.arrays import port as arrays_port
from dyno.suites.arrays.port import BY_NAME, CHUNK_ROWS, Change, Chunk
from dyno.suites.series import port as series_port
from dyno.suites.series import samples
from dyno.suites.series.port import DTYPES, FIELDS, Array, SampleBatch, Samples

if TYPE_CHECKING:
    import pandas
    import pyarrow
    from pyarrow.dataset import Dataset, Expression
    from pyarrow.parquet import ParquetFile

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
        self.home = home
        self.flushed = tier is Tier.POWER
        self.options = options
        for unfinished in home.glob(f"*{SUFFIX}.new"):
            unfinished.unlink()
        self._open_files = OrderedDict[Path, "ParquetFile"]()

    def open(self, path: Path) -> ParquetFile:
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


class Arrays(arrays_port.Arrays):
    def __init__(self, engine: Parquet) -> None:
        self._engine = engine
        self._parts, self._ends = list[Path](), [0]
        """The files, and the positions of their rows: the first row of each file, and the end of the last file."""
        for path in engine.parts():
            self._add(path)

    def _add(self, path: Path) -> None:
        self._parts.append(path)
        self._ends.append(self._ends[-1] + self._engine.open(path).metadata.num_rows)

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        from pyarrow.parquet import ParquetWriter

        options, writer = self._engine.options, None
        path = self._engine.home / f"{len(self._parts):08d}{SUFFIX}.new"

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
            self._add(self._engine.commit(path))

    def _batches(self, names: Sequence[str]) -> Iterator[pyarrow.Table]:
        """Yields all rows, one row group at a time."""
        for path in self._parts:
            part = self._engine.open(path)
            for group in range(part.num_row_groups):
                yield part.read_row_group(group, columns=list(names))

    def sum(self, column: str) -> int | float:
        from pyarrow import compute

        parts = [compute.sum(batch.column(0)).as_py() for batch in self._batches((column,))]
        return sum(parts) if BY_NAME[column].exact else float(sum(parts))

    def stats(self, names: Sequence[str]) -> list[tuple[float, float]]:
        def pieces(name: str) -> Iterator[Array]:
            return (batch.column(0).to_numpy() for batch in self._batches((name,)))

        return [columns.moments(partial(pieces, name)) for name in names]

    def slice(self, rows: range) -> Chunk:
        import pyarrow

        tables = []
        for path, begin, stop in zip(self._parts, self._ends, self._ends[1:], strict=False):
            if rows.stop <= begin or stop <= rows.start:
                continue
            part = self._engine.open(path)
            # Read only the row groups that contain the rows.
            groups = list[int]()
            first = 0
            end = begin
            for group in range(part.num_row_groups):
                start, end = end, end + part.metadata.row_group(group).num_rows
                if start < rows.stop and rows.start < end:
                    first = start if not groups else first
                    groups.append(group)
            skipped = max(rows.start - first, 0)
            tables.append(part.read_row_groups(groups).slice(skipped, rows.stop - first - skipped))
        return columns.of_table(pyarrow.concat_tables(tables))

    def frame(self, names: Sequence[str]) -> pandas.DataFrame:
        import pyarrow

        tables = [self._engine.open(path).read(columns=list(names)) for path in self._parts]
        return pyarrow.concat_tables(tables).select(list(names)).to_pandas()

    def update(self, change: Change) -> None:
        raise NotImplementedError(GAP.reason)


PIECE = 1_000_000
"""Approximate number of samples in a batch that `all` yields."""
MERGED = "m"
"""Mark in the name of a merged file. It has a higher number than those, which may survive a crash."""


class Series(series_port.Series):
    """The port `series`: a file per batch, sorted by variable and time. When there are many files, they are merged
    into one, as data lakes do. If a sample is in several files, the last one counts."""

    def __init__(self, engine: Parquet, names: Sequence[str]) -> None:
        from pyarrow.compute import field

        self._engine = engine
        self._pv = field("pv")
        self._ts = field("ts")
        directory = engine.home / DIRECTORY
        if directory.exists():
            known: list[str] = json.loads(directory.read_text())
        else:
            known = []
        new = [name for name in names if name not in set(known)]
        if new:
            replace(directory, json.dumps([*known, *new]), engine.flushed)
        self._numbers = samples.VariableIds(names, list(enumerate([*known, *new])))
        self._paths = engine.parts()
        self._next = max((int(path.name[:8]) for path in self._paths), default=-1) + 1
        self._dataset: Dataset | None = None

    def insert(self, batch: SampleBatch) -> None:
        import numpy as np

        stored = batch._replace(pv=self._numbers.to_store(batch.pv))
        order = np.lexsort((stored.ts, stored.pv))
        self._paths.append(self._write([values[order] for values in stored], ""))
        self._dataset = None
        small = [path for path in self._paths if MERGED not in path.stem]
        if len(small) >= int(self._engine.options["merged"]):
            merged = _arrays(_open_all(small).to_table())
            self._paths = [path for path in self._paths if path not in set(small)]
            self._paths.append(self._write(merged, MERGED))
            for path in small:
                path.unlink()

    def _write(self, columns: Sequence[Array], kind: str) -> Path:
        import pyarrow
        from pyarrow import parquet

        options, path = self._engine.options, self._engine.home / f"{self._next:08d}{kind}{SUFFIX}.new"
        parquet.write_table(
            pyarrow.table(dict(zip(FIELDS, columns, strict=True))),
            path,
            compression=str(options["compression"]),
            row_group_size=int(options["group_rows"]),
        )
        self._next += 1
        return self._engine.commit(path)

    @property
    def _all(self) -> Dataset:
        """All files as one dataset. Statistics of the row groups decide which ones are read."""
        if self._dataset is None:
            self._dataset = _open_all(self._paths)
        return self._dataset

    def seen(self, pv: int, ts: int) -> bool:
        return int(self._all.count_rows(filter=(self._pv == self._numbers.one(pv)) & (self._ts == ts))) > 0

    def _samples(self, condition: Expression) -> Samples:
        return samples.samples(_arrays(self._all.to_table(filter=condition))[1:])

    def one(self, pv: int) -> Samples:
        return self._samples(self._pv == self._numbers.one(pv))

    def window(self, pv: int, start: int, end: int) -> Samples:
        return self._samples((self._pv == self._numbers.one(pv)) & (self._ts >= start) & (self._ts < end))

    def all(self) -> Iterator[SampleBatch]:
        """Yields a batch for each range of variables, because a sample may be in several files."""
        import numpy as np

        pieces = int(self._all.count_rows()) // PIECE + 1
        bounds = np.linspace(0, self._numbers.count, pieces + 1).astype(int).tolist()
        for first, end in pairwise(bounds):
            pv, *rest = _arrays(self._all.to_table(filter=(self._pv >= first) & (self._pv < end)))
            yield samples.batch([self._numbers.from_store(pv), *rest])

    def latest(self) -> SampleBatch:
        """Returns each variable's last sample: first within each piece of a sorted file, then among all pieces."""
        import numpy as np

        def last_samples(columns: Sequence[Array]) -> list[Array]:
            pv = columns[0]
            ends = np.append(pv[1:] != pv[:-1], True)[: len(pv)]
            return [column[ends] for column in columns]

        pieces = [[np.empty(0, dtype) for dtype in DTYPES.values()]]
        for piece in self._all.to_batches():
            pieces.append(last_samples([column.to_numpy() for column in piece.columns]))
        pv, *rest = last_samples(
            samples.latest_versions([np.concatenate(parts) for parts in zip(*pieces, strict=True)])
        )
        return samples.batch([self._numbers.from_store(pv), *rest])

    def close(self) -> None:
        self._dataset = None


def _arrays(table: pyarrow.Table) -> Sequence[Array]:
    """Returns the columns of a table with only the last version of repeated samples."""
    return samples.latest_versions([column.to_numpy() for column in table.columns])


def _open_all(paths: Sequence[Path]) -> Dataset:
    import pyarrow
    from pyarrow import dataset

    types = (pyarrow.int32(), pyarrow.int64(), pyarrow.float64(), pyarrow.int16(), pyarrow.int16())
    schema = pyarrow.schema(list(zip(FIELDS, types, strict=True)))
    return dataset.dataset([str(path) for path in paths], schema=schema, format="parquet")


ENGINE = EngineSpec(
    name="parquet",
    title="Parquet, files of columns that are never changed (pyarrow)",
    opener=Parquet,
    ports={
        "arrays": PortSpec("dyno.engines.parquet:Arrays", gaps=(GAP,)),
        "series": PortSpec(
            "dyno.engines.parquet:Series",
            options=(Setting("merged", integer(2, 10_000), 64, "files of single batches that are merged into one"),),
        ),
    },
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    crashes=CrashSpec(Maintenance("every commit is a file of its own, and nothing else is ever done")),
    installation=Installation(modules=("pyarrow", "pandas"), requires=("pyarrow>=15", "pandas>=2.0")),
    options=(
        Setting("group_rows", integer(1, CHUNK_ROWS), CHUNK_ROWS, "rows of a row group"),
        Setting("compression", choice("snappy", "zstd", "lz4", "gzip", "none"), "snappy", "of columns (the default)"),
        Setting("mmap", boolean, False, "map files into memory (pyarrow's default: no)"),
    ),
)
