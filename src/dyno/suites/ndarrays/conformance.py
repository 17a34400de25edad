"""The expected array, and conformance checks of the port `ndarrays`."""

from collections.abc import Sequence
from functools import reduce
from math import prod

import numpy as np
from numpy.typing import NDArray

from dyno.contracts.equality import expect
from dyno.contracts.model import Tier
from dyno.contracts.suite import Opened, by_name
from dyno.suites.ndarrays import DTYPE, Block, Ndarrays, Region, split_region

ITEM_BYTES, BLOCK_BYTES = 4, 32 << 20
"""Size of a value, and the maximum size of a block of several chunks."""
MANTISSA, ONE = 1 << 23, 0x3F800000
"""Number of mantissas of a float, and the bits of 1.0."""


class Expected:
    """The array that a seed stands for. Each value is from 1 up to 2 and has 23 random bits, and differs from all
    other values on its lines along the axes."""

    def __init__(self, seed: int, shape: Sequence[int]) -> None:
        self.shape = shape
        self.whole: Region = tuple(slice(0, length) for length in shape)
        rng = np.random.default_rng(seed)
        self._bits = [rng.choice(MANTISSA, length, replace=False).astype("u4") for length in shape]
        self._bits[0] |= np.uint32(ONE)

    def block(self, region: Region) -> Block:
        parts = np.ix_(*(bits[part] for bits, part in zip(self._bits, region, strict=True)))
        bits: NDArray[np.uint32] = reduce(np.bitwise_xor, parts)
        return Block(region, bits.view(DTYPE))

    def slice(self, axis: int, index: int) -> Region:
        """Returns the region of one index of an axis."""
        return (*self.whole[:axis], slice(index, index + 1), *self.whole[axis + 1 :])

    def blocks(self, chunks: Sequence[int], most_bytes: int = BLOCK_BYTES) -> list[Region]:
        """Returns regions of one or more whole chunks, which cover the array in order. None has more than
        `most_bytes`, except for a larger chunk."""
        sizes = list(chunks)
        for axis in reversed(range(len(sizes))):
            count = most_bytes // (prod(sizes) * ITEM_BYTES)
            sizes[axis] *= max(1, min(count, -(-self.shape[axis] // sizes[axis])))
        return [region for _, region in split_region(self.whole, sizes)]

    def check(self, region: Region, answer: object) -> int:
        """Compares a region. Returns the number of compared answers. Raises Wrong."""
        where = ", ".join(f"{part.start}:{part.stop}" for part in region)
        expect(answer, self.block(region).values, f"values of [{where}]")
        return 1


def _check_array(opened: Opened[Ndarrays], tier: Tier | None, shape: Sequence[int], chunks: Sequence[int]) -> None:
    expected, name = Expected(7, shape), f"array-{len(shape)}"
    regions = [expected.slice(axis, index) for axis, length in enumerate(shape) for index in range(length)]
    # Regions across borders of chunks, and the whole array.
    regions += [tuple(slice(1, min(size, length)) for length in shape) for size in (3, 5)]
    regions.append(expected.whole)
    with opened(name, shape, chunks) as port:
        for _, region in reversed([*split_region(expected.whole, chunks)]):
            block = expected.block(region)
            port.write(Block(region, -block.values))
            port.write(block)
        for region in regions:
            expected.check(region, port.read(region))
    if tier is not Tier.VOLATILE:
        with opened(name, shape, chunks) as port:
            for region in regions:
                expected.check(region, port.read(region))


def regions(opened: Opened[Ndarrays], tier: Tier | None) -> None:
    """Regions have the values that were written last, also after opening the array again."""
    _check_array(opened, tier, (5, 3, 6), (2, 3, 4))


def axes(opened: Opened[Ndarrays], tier: Tier | None) -> None:
    """So do arrays of other numbers of axes."""
    for shape, chunks in (((7,), (3,)), ((6, 5), (6, 5)), ((3, 4, 2, 5), (1, 2, 2, 3))):
        _check_array(opened, tier, shape, chunks)


CHECKS = by_name(regions, axes)
BRIEF = by_name(regions)
