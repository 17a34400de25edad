"""Runs the checks of the port `arrays` on every engine at each tier, and on tables with deliberate errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from held import Options, Store, at_default_tier_of_server, holds, specs, stores
from needed import require

from dyno import registry
from dyno.contracts.model import Tier, Wrong
from dyno.contracts.suite import Job
from dyno.engines import parquet
from dyno.suites.arrays import columns
from dyno.suites.arrays.conformance import BRIEF, CHECKS
from dyno.suites.arrays.port import NAMES, PORT, Change, Chunk

pytestmark = pytest.mark.usefixtures("processes")

SPECS = specs(PORT)
OPTIONS: Options = {
    "numpy_memory": [{"layout": "records"}],
    "numpy_memmap": [{"layout": "records"}],
    "hdf5": [{"chunk_rows": "3", "compression": "gzip"}],
    "zarr": [{"chunk_rows": "3", "compression": "none"}],
    "parquet": [{"group_rows": "3", "compression": "zstd", "mmap": "yes"}],
    "tiledb": [{"tile_rows": "3", "compression": "zstd"}],
    "mariadb": [{"client": "c"}],
    "wendelin": [
        {"blocks": "ZBlk1"},
        {"layout": "records", "pages_mib": "4"},
        {"pages_mib": "4"},
        {"blocks": "ZBlk1", "storage": "zeo"},
    ],
}
STORES = [store for store in stores(SPECS, OPTIONS) if at_default_tier_of_server(store)]


@pytest.mark.parametrize("store", STORES, ids=str)
def test_an_engine_passes_every_check_but_its_gaps(store: Store, place: Path) -> None:
    holds(store, place, port=PORT, look="slices-2")


def test_gaps_name_checks_and_reasons() -> None:
    for spec in SPECS:
        assert all(gap.check in CHECKS and gap.reason for gap in spec.gaps)
    assert set(BRIEF) <= set(CHECKS)


def test_parquet_limits_its_open_files(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require(registry.engine("parquet").reduce_to_port(PORT))
    monkeypatch.setattr(parquet, "MOST_OPEN", 2)
    spec = registry.engine("parquet")
    job = Job(spec, place, Tier.PROCESS, spec.resolve({}), {}, seed=1, clients=1)
    with closing(job.open(place)) as engine, closing(spec.ports[PORT].open(engine)) as arrays:
        for first in range(0, 50, 10):
            with arrays.writing(10) as write:
                empty = {name: np.zeros(10, columns.dtype(name)) for name in NAMES}
                write({**empty, "uid": np.arange(first + 1, first + 11, dtype="u8")})
        for _ in range(2):
            assert arrays.sum("uid") == sum(range(51))
            assert list(arrays.slice(range(5, 45))["uid"]) == list(range(6, 46))
            assert list(arrays.frame(("uid",))["uid"]) == list(range(1, 51))
            opened = psutil.Process().open_files()
            assert sum(file.path.endswith(".parquet") for file in opened) == 2


# -- the checks themselves --------------------------------------------------------------------------------


class Honest:
    """A correct table of NumPy arrays."""

    def __init__(self, arrays: dict[str, Any]) -> None:
        self.arrays = arrays
        for name in NAMES:
            arrays.setdefault(name, np.empty(0, columns.dtype(name)))

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        chunks = list[Chunk]()
        yield chunks.append
        for chunk in chunks:
            self.add(chunk)

    def add(self, chunk: Chunk) -> None:
        for name, values in chunk.items():
            self.arrays[name] = np.concatenate([self.arrays[name], values])

    def sum(self, name: str) -> Any:
        return columns.sum_pieces(name, [self.arrays[name]])

    def stats(self, names: Sequence[str]) -> list[tuple[float, float]]:
        return [columns.moments(lambda name=name: [self.arrays[name]]) for name in names]  # type: ignore[misc]

    def slice(self, rows: range) -> Chunk:
        return {name: self.arrays[name][rows.start : rows.stop].copy() for name in NAMES}

    def frame(self, names: Sequence[str]) -> Any:
        import pandas

        return pandas.DataFrame({name: self.arrays[name] for name in names})

    def update(self, change: Change) -> None:
        for name, values in change.values.items():
            self.arrays[name][change.start : change.stop] = values

    def close(self) -> None:
        pass


class CutsTexts(Honest):
    def add(self, chunk: Chunk) -> None:
        super().add({**chunk, "portal_type": chunk["portal_type"].astype("S8").astype("S16")})


class KeepsHalfOfTheBits(Honest):
    def add(self, chunk: Chunk) -> None:
        super().add({**chunk, "quantity": chunk["quantity"].astype("f4").astype("f8")})


class AddsUpInDoubles(Honest):
    def sum(self, name: str) -> Any:
        total = float(self.arrays[name].astype("f8").sum())
        return total if name in ("quantity", "total_price") else int(total)


class AnswersAFloat(Honest):
    def sum(self, name: str) -> Any:
        return float(super().sum(name))


class OfASample(Honest):
    def stats(self, names: Sequence[str]) -> list[tuple[float, float]]:
        return [(float(self.arrays[name].mean()), float(self.arrays[name].std(ddof=1))) for name in names]


class SwapsThem(Honest):
    def stats(self, names: Sequence[str]) -> list[tuple[float, float]]:
        return super().stats(names)[::-1]


class LeavesOneOut(Honest):
    def frame(self, names: Sequence[str]) -> Any:
        return super().frame(names)[1:]


class BeginsAnew(Honest):
    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        for name in NAMES:
            self.arrays[name] = self.arrays[name][:0]
        with super().writing(rows) as write:
            yield write


class KeepsWhatWasAnnounced(Honest):
    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        wanted = len(self.arrays["uid"]) + rows
        with super().writing(rows) as write:
            yield write
        for name in NAMES:
            self.arrays[name] = np.resize(self.arrays[name], wanted)


class UpdatesOneTooMany(Honest):
    def update(self, change: Change) -> None:
        super().update(change)
        for name in change.values:
            self.arrays[name][change.stop : change.stop + 1] = 1.0


class UpdatesNothing(Honest):
    def update(self, change: Change) -> None:
        pass


class WritesAtOnce(Honest):
    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        yield self.add


class Forgets(Honest):
    def close(self) -> None:
        self.arrays.clear()


def run_check(kind: type[Honest], check: str) -> None:
    stores: dict[str, dict[str, Any]] = {}

    @contextmanager
    def opened(name: str) -> Iterator[Any]:
        port = kind(stores.setdefault(name, {}))
        yield port
        port.close()

    CHECKS[check](opened, Tier.PROCESS)


BROKEN = [
    (CutsTexts, "slices"),
    (KeepsHalfOfTheBits, "slices"),
    (KeepsHalfOfTheBits, "sums"),
    (AddsUpInDoubles, "sums"),
    (AnswersAFloat, "sums"),
    (OfASample, "stats"),
    (SwapsThem, "stats"),
    (LeavesOneOut, "frames"),
    (BeginsAnew, "appends"),
    (KeepsWhatWasAnnounced, "appends"),
    (UpdatesOneTooMany, "updates"),
    (UpdatesNothing, "updates"),
    (WritesAtOnce, "atomicity"),
    (Forgets, "persistence"),
]


@pytest.mark.parametrize("check", CHECKS)
def test_an_honest_table_passes(check: str) -> None:
    pytest.importorskip("pandas")
    run_check(Honest, check)
    assert check in {broken for _, broken in BROKEN}


@pytest.mark.parametrize(("kind", "check"), BROKEN)
def test_a_wrong_table_fails(kind: type[Honest], check: str) -> None:
    pytest.importorskip("pandas")
    with pytest.raises(Wrong):
        run_check(kind, check)
