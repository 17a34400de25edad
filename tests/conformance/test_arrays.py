"""Every engine of the port `arrays` against the port's checks, at each tier that it gives, by columns and by rows;
and the checks against tables that are wrong, which is what they are for.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import arrayschecks
import numpy as np
import pytest
from needed import require, unavailable

from dyno import registry
from dyno.engine import EngineSpec
from dyno.model import Tier, Wrong
from dyno.suites.arrays import columns
from dyno.suites.arrays.conformance import BRIEF, CHECKS
from dyno.suites.arrays.port import NAMES, PORT, Change, Chunk

SPECS = {
    spec.name: spec.through(PORT)
    for spec in registry.engines()
    if PORT in spec.ports and not spec.floor and spec.opener.__module__.startswith("dyno.engines.")
}
OPTIONS: Mapping[str, Sequence[Mapping[str, str]]] = {
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
"""What is tried beside the defaults, at the default tier."""


@dataclass(frozen=True)
class Store:
    """An engine at a tier, with options."""

    spec: EngineSpec
    tier: Tier
    given: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return "-".join([self.spec.name, self.tier.value, *self.given.values()])

    def need(self) -> None:
        require(self.spec)
        if lacking := self.spec.lacking(self.spec.resolve(self.given)):
            unavailable(f"engine {self}: {lacking}")


def stores() -> Iterator[Store]:
    for spec in SPECS.values():
        yield from (Store(spec, tier) for tier in spec.tiers)
        for given in OPTIONS.get(spec.name, ()):
            assert spec.default_tier is not None
            yield Store(spec, spec.default_tier, given)


@pytest.mark.parametrize("store", [*stores()], ids=str)
def test_an_engine_passes_every_check_but_its_gaps(store: Store, place: Path) -> None:
    store.need()
    job = {"engine": store.spec.name, "tier": store.tier.value, "options": dict(store.given), "home": str(place)}
    python = str(store.spec.interpreter() or sys.executable)
    done = subprocess.run(
        [python, arrayschecks.__file__], input=json.dumps(job) + "\n", capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    gaps = {gap.check for gap in store.spec.gaps}
    failed = {name: told[name] for name in CHECKS if told[name] is not None}
    assert {name: why for name, why in failed.items() if name not in gaps} == {}
    assert gaps <= set(failed), "a gap that works now: unmark it"
    assert any(character.isdigit() for character in told["version"])
    wanted = {name: str(value) for name, value in store.spec.tiers[store.tier].items()}
    assert {name: str(value) for name, value in told["settings"].items() if name in wanted} == wanted
    # A database may be in memory at this tier.
    assert bool(told["files"]) != store.spec.in_memory or store.tier is Tier.VOLATILE


def test_gaps_name_checks_and_reasons() -> None:
    for spec in SPECS.values():
        assert all(gap.check in CHECKS and gap.reason for gap in spec.gaps)
    assert set(BRIEF) <= set(CHECKS)


# -- the checks themselves --------------------------------------------------------------------------------


class Honest:
    """A correct table of NumPy's arrays, which is what the broken ones are made of."""

    def __init__(self, kept: dict[str, Any]) -> None:
        self.kept = kept
        for name in NAMES:
            kept.setdefault(name, np.empty(0, columns.dtype(name)))

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        waiting = list[Chunk]()
        yield waiting.append
        for chunk in waiting:
            self.add(chunk)

    def add(self, chunk: Chunk) -> None:
        for name, values in chunk.items():
            self.kept[name] = np.concatenate([self.kept[name], values])

    def sum(self, name: str) -> Any:
        return columns.added(name, [self.kept[name]])

    def stats(self, names: Sequence[str]) -> list[tuple[float, float]]:
        return [columns.moments(lambda name=name: [self.kept[name]]) for name in names]  # type: ignore[misc]

    def slice(self, rows: range) -> Chunk:
        return {name: self.kept[name][rows.start : rows.stop].copy() for name in NAMES}

    def frame(self, names: Sequence[str]) -> Any:
        import pandas

        return pandas.DataFrame({name: self.kept[name] for name in names})

    def update(self, change: Change) -> None:
        for name, values in change.values.items():
            self.kept[name][change.start : change.stop] = values

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
        found = float(self.kept[name].astype("f8").sum())
        return found if name in ("quantity", "total_price") else int(found)


class AnswersAFloat(Honest):
    def sum(self, name: str) -> Any:
        return float(super().sum(name))


class OfASample(Honest):
    def stats(self, names: Sequence[str]) -> list[tuple[float, float]]:
        return [(float(self.kept[name].mean()), float(self.kept[name].std(ddof=1))) for name in names]


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
            self.kept[name] = self.kept[name][:0]
        with super().writing(rows) as write:
            yield write


class KeepsWhatWasAnnounced(Honest):
    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        wanted = len(self.kept["uid"]) + rows
        with super().writing(rows) as write:
            yield write
        for name in NAMES:
            self.kept[name] = np.resize(self.kept[name], wanted)


class UpdatesOneTooMany(Honest):
    def update(self, change: Change) -> None:
        super().update(change)
        for name in change.values:
            self.kept[name][change.stop : change.stop + 1] = 1.0


class UpdatesNothing(Honest):
    def update(self, change: Change) -> None:
        pass


class WritesAtOnce(Honest):
    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        yield self.add


class Forgets(Honest):
    def close(self) -> None:
        self.kept.clear()


def held(kind: type[Honest], check: str) -> None:
    kept: dict[str, dict[str, Any]] = {}

    @contextmanager
    def opened(name: str) -> Iterator[Any]:
        port = kind(kept.setdefault(name, {}))
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
    held(Honest, check)
    assert check in {broken for _, broken in BROKEN}


@pytest.mark.parametrize(("kind", "check"), BROKEN)
def test_a_wrong_one_does_not(kind: type[Honest], check: str) -> None:
    pytest.importorskip("pandas")
    with pytest.raises(Wrong):
        held(kind, check)
