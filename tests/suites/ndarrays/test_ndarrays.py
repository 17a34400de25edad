"""Runs the checks of the port `ndarrays` on every engine at each tier, and on arrays with deliberate errors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from held import Options, Store, holds, specs, stores

from dyno.contracts.model import Tier, Wrong
from dyno.suites.ndarrays import Block, Region
from dyno.suites.ndarrays.conformance import CHECKS, Expected

pytestmark = pytest.mark.usefixtures("processes")

PORT = "ndarrays"
SPECS = specs(PORT)
OPTIONS: Options = {"tiledb": [{"memory_mib": "8"}]}


def test_ndarrays_port_has_the_expected_engines() -> None:
    assert [spec.name for spec in SPECS] == ["hdf5", "numpy_memmap", "tiledb", "zarr"]


@pytest.mark.parametrize("store", [*stores(SPECS, OPTIONS)], ids=str)
def test_an_engine_passes_every_check(store: Store, place: Path) -> None:
    holds(store, place, port=PORT, look="array-4")


WRITER = """
import os, signal, sys
from pathlib import Path
from dyno import registry
from dyno.contracts.model import Tier
from dyno.suites.ndarrays.conformance import Expected

spec, shape, chunks = registry.engine(sys.argv[1]).reduce_to_port("ndarrays"), (6, 4, 5), (2, 4, 5)
engine = spec.opener(Path(sys.argv[2]), Tier.PROCESS, spec.resolve({}))
port, expected = spec.ports["ndarrays"].open(engine, shape, chunks), Expected(3, shape)
if sys.argv[3] == "write":
    for at in (0, 2, 4):
        port.write(expected.block((slice(at, at + 2), slice(0, 4), slice(0, 5))))
    os.kill(os.getpid(), signal.SIGKILL)
whole = (slice(0, 6), slice(0, 4), slice(0, 5))
expected.check(whole, port.read(whole))
"""


@pytest.mark.parametrize("store", [store for store in stores(SPECS, {}) if store.tier is Tier.PROCESS], ids=str)
def test_a_killed_process_loses_no_acknowledged_block(store: Store, place: Path) -> None:
    store.need()
    status = [
        subprocess.run([sys.executable, "-c", WRITER, store.spec.name, str(place), step]).returncode
        for step in ("write", "check")
    ]
    assert status == [-9, 0]


# -- the checks themselves --------------------------------------------------------------------------------


class Honest:
    """A correct array in memory."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.array = np.zeros(shape, "f4")

    def write(self, block: Block) -> None:
        self.array[block.region] = block.values

    def read(self, region: Region) -> Any:
        return self.array[region].copy()


class KeepsTheFirst(Honest):
    def write(self, block: Block) -> None:
        if not self.array[block.region].any():
            super().write(block)


class ReadsAWholeAxis(Honest):
    def read(self, region: Region) -> Any:
        whole = (*region[:-1], slice(None))
        return self.array[whole]


class FlipsBlocks(Honest):
    def write(self, block: Block) -> None:
        self.array[block.region] = np.flip(block.values, 0)


class IsOfDoubles(Honest):
    def read(self, region: Region) -> Any:
        return super().read(region).astype("f8")


@pytest.mark.parametrize("kind", [Honest, KeepsTheFirst, ReadsAWholeAxis, FlipsBlocks, IsOfDoubles])
@pytest.mark.parametrize("check", CHECKS)
def test_each_check_passes_correct_and_fails_wrong_array(check: str, kind: type[Honest]) -> None:
    arrays: dict[str, Honest] = {}

    @contextmanager
    def opened(name: str, shape: tuple[int, ...], chunks: tuple[int, ...]) -> Iterator[Any]:
        yield arrays.setdefault(name, kind(shape))

    if kind is Honest:
        CHECKS[check](opened, Tier.PROCESS)
    else:
        with pytest.raises(Wrong):
            CHECKS[check](opened, Tier.PROCESS)


@pytest.mark.parametrize("chunks", [(10, 7, 300), (1, 40, 300), (50, 1, 1)])
def test_blocks_of_chunks_cover_the_array_once(chunks: tuple[int, ...]) -> None:
    expected = Expected(1, (50, 40, 300))
    times = np.zeros(expected.shape, int)
    for region in expected.blocks(chunks):
        times[region] += 1
        for part, chunk, length in zip(region, chunks, expected.shape, strict=True):
            assert part.start % chunk == 0 and (part.stop % chunk == 0 or part.stop == length)
    assert (times == 1).all()


def test_values_are_distinct_along_every_axis() -> None:
    shape = (30, 20, 10)
    values = Expected(1, shape).block(tuple(slice(0, length) for length in shape)).values
    assert values.dtype == np.float32 and values.min() >= 1 and values.max() < 2
    for axis, length in enumerate(shape):
        assert (np.diff(np.sort(values, axis)[tuple([slice(None)] * 3)], axis=axis) != 0).all(), length
