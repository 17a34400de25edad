"""Tests every engine of the port `series` by the port's checks, at each tier and with options that change how it
stores; and the checks themselves, against broken archives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from held import Options, Store, at_default_tier_of_server, holds, specs, stores
from test_archive_servers import SERVERS

from dyno.contracts.model import Tier, Wrong
from dyno.suites.series import samples
from dyno.suites.series.conformance import BRIEF, CHECKS
from dyno.suites.series.port import PORT, Buckets, SampleBatch, Samples, downsample

pytestmark = pytest.mark.usefixtures("processes")

SPECS = specs(PORT)
OPTIONS: Options = {
    "parquet": [{"merged": "2", "group_rows": "500"}],
    "postgresql": [{"index": "brin", "partition_hours": "1"}],
    "mariadb": [{"client": "c"}],
}
# On servers that its tests share, test_archive_servers.py runs the checks.
STORES = [
    store for store in stores(SPECS, OPTIONS) if store.spec.name not in SERVERS and at_default_tier_of_server(store)
]


@pytest.mark.parametrize("store", STORES, ids=str)
def test_an_engine_passes_every_check_but_its_gaps(store: Store, place: Path) -> None:
    holds(store, place, port=PORT, look="extracts-3")


def test_gaps_name_checks_and_reasons() -> None:
    for spec in SPECS:
        assert all(gap.check in CHECKS and gap.reason for gap in spec.gaps)
    assert set(BRIEF) <= set(CHECKS)


# -- the checks themselves --------------------------------------------------------------------------------


class Honest:
    """A correct archive over a dict by name and time; the broken archives derive from it."""

    def __init__(self, kept: dict[tuple[str, int], tuple[Any, ...]], names: Sequence[str]) -> None:
        self.kept, self.names = kept, names

    def insert(self, batch: SampleBatch) -> None:
        for pv, ts, *rest in samples.iterate_rows(batch):
            self.put((self.names[pv], ts), tuple(rest))

    def put(self, key: tuple[str, int], rest: tuple[Any, ...]) -> None:
        self.kept[key] = rest

    def settle(self) -> None:
        pass

    def rows(self) -> list[tuple[Any, ...]]:
        at = {name: number for number, name in enumerate(self.names)}
        return sorted((at[name], ts, *rest) for (name, ts), rest in self.kept.items())

    def seen(self, pv: int, ts: int) -> bool:
        return (self.names[pv], ts) in self.kept

    def one(self, pv: int) -> Samples:
        return self.window(pv, 0, 2**63 - 1)

    def window(self, pv: int, start: int, end: int) -> Samples:
        found = [row for row in self.rows() if row[0] == pv and start <= row[1] < end]
        return samples.samples(samples.columns_of(found)[1:])

    def all(self) -> Iterator[SampleBatch]:
        yield samples.batch(samples.columns_of(self.rows()))

    def latest(self) -> SampleBatch:
        return samples.batch(samples.columns_of(list({row[0]: row for row in self.rows()}.values())))

    def downsample(self, pv: int, start: int, end: int, bucket: int) -> Buckets:
        return downsample(self.window(pv, start, end), bucket)

    def close(self) -> None:
        pass


class KeepsTheFirst(Honest):
    def put(self, key: tuple[str, int], rest: tuple[Any, ...]) -> None:
        self.kept.setdefault(key, rest)


class KeepsMicroseconds(Honest):
    def put(self, key: tuple[str, int], rest: tuple[Any, ...]) -> None:
        super().put((key[0], key[1] // 1_000 * 1_000), rest)


class KeepsHalfOfTheBits(Honest):
    def put(self, key: tuple[str, int], rest: tuple[Any, ...]) -> None:
        # A float32 has half of the bits, and overflows for greater values.
        super().put(key, (float(np.float32(rest[0])) if abs(rest[0]) < 1e30 else rest[0], *rest[1:]))


class KeepsNoSeverity(Honest):
    def put(self, key: tuple[str, int], rest: tuple[Any, ...]) -> None:
        super().put(key, (*rest[:2], 0))


class KeepsBoth(Honest):
    def all(self) -> Iterator[SampleBatch]:
        yield from super().all()
        yield samples.batch(samples.columns_of(self.rows()[:1]))


class PassesOverTheLate(Honest):
    def insert(self, batch: SampleBatch) -> None:
        first = max((ts for _, ts in self.kept), default=0)
        late = batch.ts >= first
        super().insert(SampleBatch(*(values[late] for values in batch)))


class HasTheEnd(Honest):
    def window(self, pv: int, start: int, end: int) -> Samples:
        return super().window(pv, start, min(end + 1, 2**63 - 1))


class LastToCome(Honest):
    def latest(self) -> SampleBatch:
        at = {name: number for number, name in enumerate(self.names)}
        rows = {at[name]: (at[name], ts, *rest) for (name, ts), rest in self.kept.items()}
        return samples.batch(samples.columns_of(list(rows.values())))


class FillsGaps(Honest):
    def downsample(self, pv: int, start: int, end: int, bucket: int) -> Buckets:
        found = super().downsample(pv, start, end, bucket)
        every = np.arange(start, end, bucket, dtype="i8")
        none = np.zeros(len(every))
        return found if len(found.ts) == len(every) else Buckets(every, none, none, none)


class ForgetsNames(Honest):
    def __init__(self, kept: dict[tuple[str, int], tuple[Any, ...]], names: Sequence[str]) -> None:
        super().__init__(kept, [str(number) for number in range(len(names))])


class Sees(Honest):
    def seen(self, pv: int, ts: int) -> bool:
        return True


class Forgets(Honest):
    def close(self) -> None:
        self.kept.clear()


class ForgetsAPage(Honest):
    def rows(self) -> list[tuple[Any, ...]]:
        return super().rows()[:10_000]


class SaysNothing(Honest):
    def latest(self) -> Any:
        return None


def held(kind: type[Honest], check: str) -> None:
    kept: dict[str, dict[tuple[str, int], tuple[Any, ...]]] = {}

    @contextmanager
    def opened(name: str, names: Sequence[str]) -> Iterator[Any]:
        port = kind(kept.setdefault(name, {}), names)
        yield port
        port.close()

    CHECKS[check](opened, Tier.PROCESS)


BROKEN = [
    (KeepsNoSeverity, "extracts"),
    (Sees, "extracts"),
    (SaysNothing, "empty"),
    (KeepsHalfOfTheBits, "values"),
    (KeepsMicroseconds, "nanoseconds"),
    (HasTheEnd, "windows"),
    (PassesOverTheLate, "late"),
    (LastToCome, "late"),
    (KeepsBoth, "duplicates"),
    (KeepsTheFirst, "corrections"),
    (FillsGaps, "downsamples"),
    (ForgetsAPage, "many"),
    (ForgetsNames, "names"),
    (Forgets, "persistence"),
]


@pytest.mark.parametrize("check", CHECKS)
def test_a_correct_archive_passes(check: str) -> None:
    held(Honest, check)
    assert check in {broken for _, broken in BROKEN}


@pytest.mark.parametrize(("kind", "check"), BROKEN)
def test_wrong_archive_fails_the_check(kind: type[Honest], check: str) -> None:
    with pytest.raises(Wrong):
        held(kind, check)
