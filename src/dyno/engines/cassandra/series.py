"""The port `series` on Cassandra. A partition has one variable's samples of one day, as Cassandra's documentation
advises.

Source: Apache Software Foundation, Cassandra 5.0 documentation, "Data Modeling" and "Time Window Compaction
Strategy".
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from threading import Semaphore
from typing import TYPE_CHECKING, Any

from dyno.engines.cassandra import Cass
from dyno.suites.series import port, samples
from dyno.suites.series.port import SampleBatch, Samples

if TYPE_CHECKING:
    from cassandra.cluster import ResponseFuture, ResultSet, Session
    from cassandra.query import PreparedStatement

    Query = tuple[PreparedStatement, int, int, tuple[int, ...]]
    """A statement, a variable, a day, and further values."""

IN_FLIGHT = 64
"""Maximum number of requests in flight."""
ROWS = 200
"""Maximum number of rows in one request, which all belong to one partition."""
PAGE = 20_000
"""Rows in one page of an answer."""
DAY = 86_400_000_000_000
TABLE = (
    "CREATE TABLE IF NOT EXISTS samples (pv text, day int, ts bigint, val double, stat smallint, sevr smallint, "
    "PRIMARY KEY ((pv, day), ts)) WITH CLUSTERING ORDER BY (ts DESC) AND compaction = "
    "{'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'DAYS', 'compaction_window_size': 1}"
)
DAYS = "CREATE TABLE IF NOT EXISTS days (pv text, day int, PRIMARY KEY (pv, day))"
FIELDS = "ts, val, stat, sevr"
WORTH_FLUSHING = 10
"""Minimum number of samples in memory that `settle` writes to disk. Fewer don't matter for the size."""
FLUSH_SECONDS, QUIET_SECONDS = 30.0, 0.15


class Series(port.Series):
    """The port `series`. Buckets are computed in the client, because Cassandra groups by times in whole ms only."""

    def __init__(self, engine: Cass, names: Sequence[str]) -> None:
        from cassandra import numpy_parser
        from cassandra.protocol import NumpyProtocolHandler

        self._engine, self._names = engine, names
        self._numbers = {name: number for number, name in enumerate(names)}
        self._writer, self._reader = engine.connect(), engine.connect()
        # Make the driver return NumPy arrays. Its own function calls a method that NumPy 2 removed.
        numpy_parser.make_native_byteorder = lambda values: (
            values if values.dtype.kind == "O" else values.byteswap().view(values.dtype.newbyteorder())
        )
        self._reader.client_protocol_handler = NumpyProtocolHandler
        session = self._writer
        for statement in (TABLE, DAYS):
            session.execute(statement)
        self._insert = session.prepare(f"INSERT INTO samples (pv, day, {FIELDS}) VALUES (?, ?, ?, ?, ?, ?)")
        self._insert_day = session.prepare("INSERT INTO days (pv, day) VALUES (?, ?)")
        read = self._reader.prepare
        query = f"SELECT {FIELDS} FROM samples WHERE pv = ? AND day = ?"
        self._one, self._last = read(query), read(f"{query} LIMIT 1")
        self._window = read(f"{query} AND ts >= ? AND ts < ?")
        self._seen = session.prepare("SELECT ts FROM samples WHERE pv = ? AND day = ? AND ts = ?")
        for statement in (self._one, self._window):
            statement.fetch_size = PAGE
        # Days with samples, by variable. No other client writes to the archive, so this stays complete.
        self._days: dict[int, set[int]] = {}
        for name, day in session.execute("SELECT pv, day FROM days"):
            if name in self._numbers:
                self._days.setdefault(self._numbers[name], set()).add(day)

    def insert(self, batch: SampleBatch) -> None:
        """Sends requests of up to ROWS rows of one partition, and waits until all are acknowledged."""
        from cassandra.query import BatchStatement, BatchType

        requests = _Requests(self._writer)
        for pv, day, rows in _partitions(batch):
            name = self._names[pv]
            if day not in self._days.setdefault(pv, set()):
                requests.send(self._insert_day, (name, day))
                self._days[pv].add(day)
            if len(rows) == 1:
                requests.send(self._insert, (name, day, *rows[0]))
                continue
            for first in range(0, len(rows), ROWS):
                # A batch within one partition is one write, so it is atomic without a batch log.
                statement = BatchStatement(BatchType.UNLOGGED)
                for row in rows[first : first + ROWS]:
                    statement.add(self._insert, (name, day, *row))
                requests.send(statement)
        self._engine.unflushed += len(batch.ts)
        try:
            requests.wait()
        except BaseException:
            # Forget all days of these variables: it is unknown whether a new day was written.
            for pv in set(batch.pv.tolist()):
                self._days.pop(pv, None)
            raise

    def settle(self) -> None:
        """Writes samples from memory into tables, as the server eventually does by itself."""
        if self._engine.unflushed < WORTH_FLUSHING or not self._engine.server.own:
            return
        before = self._tables()
        alter = "ALTER TABLE samples WITH memtable_flush_period_in_ms = {}"
        self._writer.execute(alter.format(100))
        deadline = time.monotonic() + FLUSH_SECONDS
        while (now := self._tables()) <= before and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(QUIET_SECONDS)
        while (later := self._tables()) != now and time.monotonic() < deadline:
            now = later
            time.sleep(QUIET_SECONDS)
        self._writer.execute(alter.format(0))
        self._engine.unflushed = 0

    def _tables(self) -> set[Path]:
        return {file for file in self._engine.files() if file.name.endswith("-Data.db")}

    def seen(self, pv: int, ts: int) -> bool:
        return self._writer.execute(self._seen, (self._names[pv], ts // DAY, ts)).one() is not None

    def one(self, pv: int) -> Samples:
        return self._read([(self._one, pv, day, ()) for day in sorted(self._days.get(pv, ()))])

    def window(self, pv: int, start: int, end: int) -> Samples:
        days = sorted(day for day in self._days.get(pv, ()) if start // DAY <= day <= (end - 1) // DAY)
        return self._read([(self._window, pv, day, (start, end)) for day in days])

    def _read(self, queries: Sequence[Query]) -> Samples:
        import numpy as np

        answers = [columns for _, columns in self._answers(queries)]
        if not answers:
            return samples.samples([()] * 4)
        # Reverse each answer, because a partition has its latest sample first.
        return samples.samples([np.concatenate([each[at][::-1] for each in answers]) for at in range(4)])

    def _answers(self, queries: Iterable[Query]) -> Iterator[tuple[int, list[port.Array]]]:
        """Yields each query's variable and columns, in order. Several queries are in flight at once."""
        futures = deque[tuple[int, Any]]()
        for statement, pv, day, more in queries:
            future = self._reader.execute_async(statement, (self._names[pv], day, *more))
            futures.append((pv, future))
            if len(futures) >= IN_FLIGHT // 4:
                pv, future = futures.popleft()
                yield pv, _columns(future.result())
        for pv, future in futures:
            yield pv, _columns(future.result())

    def all(self) -> Iterator[SampleBatch]:
        """Yields a batch for each partition."""
        every = ((self._one, pv, day, ()) for pv, days in self._days.items() for day in sorted(days))
        for pv, columns in self._answers(every):
            yield self._batch([pv], columns)

    def _batch(self, pvs: Sequence[int], columns: Sequence[port.Array]) -> SampleBatch:
        import numpy as np

        return samples.batch([np.repeat(pvs, len(columns[0]) // len(pvs)), *columns])

    def latest(self) -> SampleBatch:
        """Returns the first row of each variable's last day, which is its latest sample."""
        import numpy as np

        queries = ((self._last, pv, max(days), ()) for pv, days in self._days.items() if days)
        answers = [(pv, columns) for pv, columns in self._answers(queries) if len(columns[0])]
        if not answers:
            return samples.batch([()] * 5)
        return self._batch(
            [pv for pv, _ in answers], [np.concatenate([each[at] for _, each in answers]) for at in range(4)]
        )

    def close(self) -> None:
        self._writer.shutdown()
        self._reader.shutdown()


class _Requests:
    """Sends requests, of which up to IN_FLIGHT are in flight at once."""

    def __init__(self, session: Session) -> None:
        self._send: Callable[..., ResponseFuture] = session.execute_async
        self._slots, self._errors = Semaphore(IN_FLIGHT), list[BaseException]()

    def send(self, *request: object) -> None:
        self._slots.acquire()
        self._send(*request).add_callbacks(lambda _: self._slots.release(), self._record_error)

    def _record_error(self, error: BaseException) -> None:
        self._errors.append(error)
        self._slots.release()

    def wait(self) -> None:
        """Waits for all requests. Raises the first error."""
        for _ in range(IN_FLIGHT):
            self._slots.acquire()
        if self._errors:
            raise self._errors[0]


def _partitions(batch: SampleBatch) -> Iterator[tuple[int, int, list[tuple[object, ...]]]]:
    """Yields the variable, the day and the rows of each partition in the batch."""
    import numpy as np

    days = batch.ts // DAY
    order = np.lexsort((days, batch.pv))
    pv, day = batch.pv[order], days[order]
    if len(pv):
        bounds = np.flatnonzero(np.r_[True, (pv[1:] != pv[:-1]) | (day[1:] != day[:-1]), True]).tolist()
    else:
        bounds = []
    rows = list(zip(*(values[order].tolist() for values in batch[1:]), strict=True))
    for first, last in pairwise(bounds):
        yield int(pv[first]), int(day[first]), rows[first:last]


def _columns(answer: ResultSet) -> list[port.Array]:
    """Returns the columns of all pages of an answer. The driver's masks are dropped, because no value is missing."""
    import numpy as np

    pages = []
    while True:
        rows = answer.current_rows
        pages += rows if isinstance(rows, list) else [rows]
        if not answer.has_more_pages:
            break
        answer.fetch_next_page()
    return [np.concatenate([np.ma.getdata(page[name]) for page in pages]) for name in ("ts", "val", "stat", "sevr")]
