"""What a crash is judged by, of the port `series`: batches of samples of some variables."""

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

VARIABLES, MOST_WRITES, MOST_SAMPLES = 40, 4, 250
NAMES = [f"crash:{number:02}" for number in range(VARIABLES)]
COUNTER = 0
"""The variable of which every batch has one sample: how many batches there are."""
START_NS, STEP_NS, APART_NS = 1_577_836_800_000_000_000, 60_000_000_000, 10_000_000
"""When the first batch begins, what is between two, and between two samples of one."""


class SeriesHistory:
    """See `dyno.contracts.suite.History`. Of each variable there is the digest of its samples in the order of their
    times."""

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
            # Each batch comes after all before it: its samples are at the end.
            batch = self._batch(len(self._states) - 1)
            for variable in np.unique(batch.pv).tolist():
                self._digests[variable].update(_bytes(batch, batch.pv == variable))
            there = self._states[-1].keys() | {NAMES[variable] for variable in batch.pv.tolist()}
            self._states.append(
                {n: d.copy().digest() for n, d in zip(NAMES, self._digests, strict=True) if n in there}
            )
        return self._states[commits]

    def found(self, port: Series) -> Mapping[str, Any]:
        port.settle()
        pieces = list(port.all())
        if not pieces:
            return {}
        every = SampleBatch(*map(np.concatenate, zip(*pieces, strict=True)))
        order = np.lexsort((every.ts, every.pv))
        every = SampleBatch(*(values[order] for values in every))
        return {
            NAMES[variable]: blake2b(_bytes(every, every.pv == variable), digest_size=16).digest()
            for variable in np.unique(every.pv).tolist()
        }

    def _batch(self, number: int) -> SampleBatch:
        rng = random.Random(f"{self._job.seed} {number}")
        counts = {COUNTER: 1}
        for variable in rng.sample(range(1, VARIABLES), rng.randint(1, MOST_WRITES)):
            counts[variable] = round(MOST_SAMPLES ** rng.random())
        pv = np.repeat(list(counts), list(counts.values()))
        at = np.concatenate([np.arange(count) for count in counts.values()])
        val = np.where(pv == COUNTER, number + 1, [round(rng.uniform(-1e6, 1e6), 3) for _ in pv])
        columns = (pv, START_NS + number * STEP_NS + at * APART_NS, val, pv % 20, pv % 4)
        return SampleBatch(*(np.asarray(values, DTYPES[name]) for name, values in zip(FIELDS, columns, strict=True)))


def _bytes(batch: SampleBatch, those: Any) -> bytes:
    """Of some samples, one after the other: so that more of them only add at the end."""
    rows = np.empty(int(those.sum()), [(name, DTYPES[name]) for name in FIELDS[1:]])
    for name, values in zip(FIELDS[1:], batch[1:], strict=True):
        rows[name] = values[those]
    return rows.tobytes()
