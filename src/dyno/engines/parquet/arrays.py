"""Parquet through the port `arrays`: a file of rows per transaction."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from dyno.engines.parquet import GAP, SUFFIX, Parquet
from dyno.suites.arrays import columns, port
from dyno.suites.arrays.port import BY_NAME, Change, Chunk


class Arrays(port.Arrays):
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

    def _batches(self, names: Sequence[str]) -> Iterator[Any]:
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
        def pieces(name: str) -> Iterator[Any]:
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
            groups, first, end = list[int](), 0, begin
            for group in range(part.num_row_groups):
                start, end = end, end + part.metadata.row_group(group).num_rows
                if start < rows.stop and rows.start < end:
                    first = start if not groups else first
                    groups.append(group)
            skipped = max(rows.start - first, 0)
            tables.append(part.read_row_groups(groups).slice(skipped, rows.stop - first - skipped))
        return columns.of_table(pyarrow.concat_tables(tables))

    def frame(self, names: Sequence[str]) -> Any:
        import pyarrow

        tables = [self._engine.open(path).read(columns=list(names)) for path in self._parts]
        return pyarrow.concat_tables(tables).select(list(names)).to_pandas()

    def update(self, change: Change) -> None:
        raise NotImplementedError(GAP.reason)
