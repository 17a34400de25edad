"""What a crash is judged by, of the port `arrays`: transactions that add rows, and those that change some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from hashlib import blake2b
from itertools import count
from typing import Any

import numpy as np

from dyno.contracts.engine import Engine
from dyno.contracts.model import Wrong
from dyno.contracts.suite import Job
from dyno.suites.arrays.dataset import RANGES, Dataset
from dyno.suites.arrays.port import KEY, Arrays, Change, Chunk

ADDED, CHANGED = 40, 10
CHANGES = 3
"""Every third transaction changes rows, where an engine can."""
CHANGED_COLUMNS = tuple(RANGES)


class ArraysHistory:
    """See `dyno.contracts.suite.History`. Of each column there is the digest of all its rows."""

    def __init__(self, job: Job) -> None:
        self._job, self._dataset = job, Dataset(job.seed)
        gaps = {gap.check for gap in job.spec.gaps}
        self._changing = not job.spec.in_place and "updates" not in gaps
        self._states: list[Mapping[str, Any]] = [{}]
        self._columns = {name: values.copy() for name, values in self._dataset.chunk(range(0)).items()}

    @contextmanager
    def open(self, engine: Engine) -> Iterator[Arrays]:
        with closing(self._job.port(engine)) as port:
            yield port

    def commit(self, port: Arrays, number: int) -> None:
        part = self._part(number)
        if self._changes(number):
            port.update(Change(part.start, self._values(number, part)))
            return
        with port.writing(len(part)) as take:
            take(self._values(number, part))

    def state(self, commits: int) -> Mapping[str, Any]:
        while len(self._states) <= commits:
            number = len(self._states) - 1
            part = self._part(number)
            for name, values in self._values(number, part).items():
                before = self._columns[name]
                self._columns[name] = np.concatenate([before[: part.start], values, before[part.stop :]])
            self._states.append(_digests(self._columns))
        return self._states[commits]

    def found(self, port: Arrays) -> Mapping[str, Any]:
        total = int(port.sum(KEY))
        rows = next(rows for rows in count() if rows * (rows + 1) // 2 >= total)
        if rows * (rows + 1) // 2 != total:
            raise Wrong(f"the numbers of all rows are {total} together, which are not those from 1 up")
        return _digests(port.slice(range(rows))) if rows else {}

    def _changes(self, number: int) -> bool:
        return self._changing and number % CHANGES == CHANGES - 1

    def _rows(self, before: int) -> int:
        """That there are after so many transactions."""
        return ADDED * (before - (before // CHANGES if self._changing else 0))

    def _part(self, number: int) -> range:
        """The rows that are changed, or that are added."""
        there = self._rows(number)
        if not self._changes(number):
            return range(there, there + ADDED)
        start = number * 7919 % (there - CHANGED)
        return range(start, start + CHANGED)

    def _values(self, number: int, part: range) -> Chunk:
        if self._changes(number):
            return self._dataset.chunk(part, number, CHANGED_COLUMNS)
        return self._dataset.chunk(part)


def _digests(columns: Chunk) -> Mapping[str, Any]:
    return {
        name: blake2b(np.ascontiguousarray(values).tobytes(), digest_size=16).digest()
        for name, values in columns.items()
    }
