"""The expected array, and conformance checks of the port `ndarrays`."""

from collections.abc import Sequence
from functools import reduce
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyno.contracts.equality import array_difference, same
from dyno.contracts.model import Tier, Wrong
from dyno.contracts.suite import Opened, by_name
from dyno.suites.ndarrays.port import DTYPE, Block, Ndarrays, Region

ITEM_BYTES, BLOCK_BYTES = 4, 32 << 20
"""Size of a value, and the maximum size of a block of several chunks."""
MANTISSA, ONE = 1 << 23, 0x3F800000
"""Values of a float's mantissa, and the bits of 1.0."""


def region_of(starts: Sequence[int], sizes: Sequence[int], shape: Sequence[int]) -> Region:
    """Returns the region from `starts` on, cut off at the end of the array."""
    ends = zip(starts, sizes, shape, strict=True)
    return tuple(slice(start, min(start + size, length)) for start, size, length in ends)


class Expected:
    """The array that a seed stands for. Each value is from 1 up to 2 and has 23 random bits, and differs from all
    other values on its lines along the axes."""

    def __init__(self, seed: int, shape: Sequence[int]) -> None:
        self.shape = shape
        rng = np.random.default_rng(seed)
        self._bits = [rng.choice(MANTISSA, length, replace=False).astype("u4") for length in shape]
        self._bits[0] |= np.uint32(ONE)

    def block(self, region: Region) -> Block:
        parts = np.ix_(*(bits[part] for bits, part in zip(self._bits, region, strict=True)))
        bits: NDArray[np.uint32] = reduce(np.bitwise_xor, parts)
        return Block(region, bits.view(DTYPE))

    def slice(self, axis: int, index: int) -> Region:
        """Returns the region of one index of an axis."""
        return tuple(slice(index, index + 1) if at == axis else slice(0, n) for at, n in enumerate(self.shape))

    def blocks(self, chunks: Sequence[int]) -> list[Region]:
        """Returns regions of one or more whole chunks, which cover the array in order."""
        sizes = list(chunks)
        for axis in reversed(range(len(sizes))):
            count = BLOCK_BYTES // (prod(sizes) * ITEM_BYTES)
            sizes[axis] *= max(1, min(count, -(-self.shape[axis] // sizes[axis])))
        starts = product(*(range(0, length, size) for length, size in zip(self.shape, sizes, strict=True)))
        return [region_of(start, sizes, self.shape) for start in starts]

    def check(self, region: Region, answer: Any) -> int:
        """Compares a region. Returns the number of compared answers. Raises Wrong."""
        expected = self.block(region).values
        if not same(answer, expected):
            where = ", ".join(f"{part.start}:{part.stop}" for part in region)
            if type(answer) is np.ndarray and answer.shape == expected.shape:
                answer, expected = answer.ravel(), expected.ravel()
            raise Wrong(f"values of [{where}]: {array_difference(answer, expected)}")
        return 1


def _check_array(opened: Opened[Ndarrays], tier: Tier | None, shape: Sequence[int], chunks: Sequence[int]) -> None:
    expected, name, axes = Expected(7, shape), f"array-{len(shape)}", len(shape)
    blocks = [region_of(start, chunks, shape) for start in product(*map(range, [0] * axes, shape, chunks))]
    regions = [expected.slice(axis, index) for axis, length in enumerate(shape) for index in range(length)]
    # Regions across borders of chunks, and the whole array.
    regions += [region_of([at] * axes, [size] * axes, shape) for at in (0, 1) for size in (2, 4, 7)]
    with opened(name, shape, chunks) as port:
        for block in map(expected.block, reversed(blocks)):
            port.write(Block(block.region, -block.values))
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
