"""History that crashes are judged by, for the port `arrays`: transactions that append rows or update some."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, closing
from hashlib import blake2b
from itertools import count
from typing import Any

import numpy as np

from dyno.contracts.engine import Engine
from dyno.contracts.model import Wrong
from dyno.contracts.suite import Job
from dyno.suites.arrays.dataset import RANGES, Dataset
from dyno.suites.arrays.port import KEY, Arrays, Change, Chunk

APPENDED_ROWS, UPDATED_ROWS = 40, 10
UPDATE_EVERY = 3
"""Every third transaction updates rows, if the engine can."""
UPDATED_COLUMNS = tuple(RANGES)


class ArraysHistory:
    """See `dyno.contracts.suite.History`. A state is a digest of each column."""

    def __init__(self, job: Job) -> None:
        self._job, self._dataset = job, Dataset(job.seed)
        gaps = {gap.check for gap in job.spec.gaps}
        self._updating = not job.spec.in_place and "updates" not in gaps
        self._states: list[Mapping[str, Any]] = [{}]
        self._columns = {name: values.copy() for name, values in self._dataset.chunk(range(0)).items()}

    def open(self, engine: Engine) -> AbstractContextManager[Arrays]:
        return closing(self._job.port(engine))

    def commit(self, port: Arrays, number: int) -> None:
        part = self._part(number)
        if self._updates(number):
            port.update(Change(part.start, self._values(number, part)))
            return
        with port.writing(len(part)) as write:
            write(self._values(number, part))

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
            raise Wrong(f"{KEY} adds up to {total}, which is no sum of 1, 2, 3 and so on")
        return _digests(port.slice(range(rows))) if rows else {}

    def _updates(self, number: int) -> bool:
        return self._updating and number % UPDATE_EVERY == UPDATE_EVERY - 1

    def _part(self, number: int) -> range:
        """The rows that a transaction updates or appends."""
        rows = APPENDED_ROWS * (number - (number // UPDATE_EVERY if self._updating else 0))
        if not self._updates(number):
            return range(rows, rows + APPENDED_ROWS)
        start = number * 7919 % (rows - UPDATED_ROWS)
        return range(start, start + UPDATED_ROWS)

    def _values(self, number: int, part: range) -> Chunk:
        if self._updates(number):
            return self._dataset.chunk(part, number, UPDATED_COLUMNS)
        return self._dataset.chunk(part)


def _digests(columns: Chunk) -> Mapping[str, Any]:
    return {
        name: blake2b(np.ascontiguousarray(values).tobytes(), digest_size=16).digest()
        for name, values in columns.items()
    }
