"""The transactions that `dyno crash` commits through the port `series`: batches of samples of some variables."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from hashlib import blake2b
from typing import Any

import numpy as np

from dyno.contracts.engine import Engine
from dyno.contracts.suite import Job
from dyno.suites.series.port import DTYPES, FIELDS, SampleBatch, Series

VARIABLES, MAX_WRITES, MAX_SAMPLES = 40, 4, 250
NAMES = [f"crash:{number:02}" for number in range(VARIABLES)]
COUNTER = 0
"""The variable of which every batch has one sample, the number of batches so far."""
START_NS, STEP_NS, APART_NS = 1_577_836_800_000_000_000, 60_000_000_000, 10_000_000
"""Time of the first batch, between two batches, and between two samples of a batch."""


class SeriesHistory:
    """See `dyno.contracts.suite.History`. The state has, for each variable, the digest of its samples by time."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._digests = [blake2b(digest_size=16) for _ in NAMES]
        self._states: list[Mapping[str, Any]] = [{}]

    @contextmanager
    def open(self, engine: Engine) -> Iterator[Series]:
        with closing(self._job.port(engine, NAMES)) as port:
            yield port

    def commit(self, port: Series, number: int) -> None:
        port.insert(self._batch(number))

    def state(self, commits: int) -> Mapping[str, Any]:
        while len(self._states) <= commits:
            # A batch is later than all before it, so its samples come last.
            batch = self._batch(len(self._states) - 1)
            for variable in np.unique(batch.pv).tolist():
                self._digests[variable].update(_bytes(batch, batch.pv == variable))
            written = self._states[-1].keys() | {NAMES[variable] for variable in batch.pv.tolist()}
            self._states.append(
                {n: d.copy().digest() for n, d in zip(NAMES, self._digests, strict=True) if n in written}
            )
        return self._states[commits]

    def found(self, port: Series) -> Mapping[str, Any]:
        port.settle()
        pieces = list(port.all())
        if not pieces:
            return {}
        whole = SampleBatch(*map(np.concatenate, zip(*pieces, strict=True)))
        order = np.lexsort((whole.ts, whole.pv))
        whole = SampleBatch(*(values[order] for values in whole))
        return {
            NAMES[variable]: blake2b(_bytes(whole, whole.pv == variable), digest_size=16).digest()
            for variable in np.unique(whole.pv).tolist()
        }

    def _batch(self, number: int) -> SampleBatch:
        rng = random.Random(f"{self._job.seed} {number}")
        counts = {COUNTER: 1}
        for variable in rng.sample(range(1, VARIABLES), rng.randint(1, MAX_WRITES)):
            counts[variable] = round(MAX_SAMPLES ** rng.random())
        pv = np.repeat(list(counts), list(counts.values()))
        at = np.concatenate([np.arange(count) for count in counts.values()])
        val = np.where(pv == COUNTER, number + 1, [round(rng.uniform(-1e6, 1e6), 3) for _ in pv])
        columns = (pv, START_NS + number * STEP_NS + at * APART_NS, val, pv % 20, pv % 4)
        return SampleBatch(*(np.asarray(values, DTYPES[name]) for name, values in zip(FIELDS, columns, strict=True)))


def _bytes(batch: SampleBatch, selected: Any) -> bytes:
    """The bytes of the selected samples, row by row, so that a digest can be continued with later samples."""
    rows = np.empty(int(selected.sum()), [(name, DTYPES[name]) for name in FIELDS[1:]])
    for name, values in zip(FIELDS[1:], batch[1:], strict=True):
        rows[name] = values[selected]
    return rows.tobytes()
