"""N-dimensional arrays: how fast are slices along each axis read, by the shape of the chunks, cold and hot?

The port is here too, without NumPy, since the parent imports engines' files.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dyno.contracts.model import Phase, Preset, Value
from dyno.contracts.settings import Setting, integer
from dyno.contracts.suite import Suite

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DTYPE = "f4"
Region = tuple[slice, ...]
"""Consecutive indexes of each axis, with start and stop."""


class Block(NamedTuple):
    """New values of a region. Each axis begins at a border of chunks, and ends at one or at the array's end."""

    region: Region
    values: "NDArray[np.float32]"


class Ndarrays(Protocol):
    """A chunked array of 32-bit floats. Engines implement this protocol as a class called with `(engine, shape,
    chunks)`, which creates the array if it doesn't exist. No other client uses the array."""

    def write(self, block: Block) -> object:
        """Replaces values. When it returns, they are stored with the tier's durability."""

    def read(self, region: Region) -> "NDArray[np.float32]":
        """Returns the region as a NumPy array with all axes."""

    def close(self) -> None:
        return None


def split_region(region: Region, sizes: Sequence[int]) -> Iterator[tuple[tuple[int, ...], Region]]:
    """Splits a region at the borders of chunks of these sizes. Yields each chunk's position in the grid, and
    its part of the region."""
    axes = list(zip(region, sizes, strict=True))
    for at in product(*(range(part.start // size, -(-part.stop // size)) for part, size in axes)):
        bounds = [(part, number * size, size) for number, (part, size) in zip(at, axes, strict=True)]
        yield at, tuple(slice(max(part.start, low), min(part.stop, low + size)) for part, low, size in bounds)


MOST_AXES = 4
AXES_BY_DEFAULT = 3
LONGEST = 1 << 23


def lengths(text: Value) -> tuple[int, ...]:
    """Parses a shape, such as 64x64x64. Raises ValueError."""
    parts = str(text).split("x")
    if len(parts) > MOST_AXES or not all(part.isdecimal() and 0 < int(part) <= LONGEST for part in parts):
        raise ValueError(f"expected up to {MOST_AXES} lengths of 1 to {LONGEST}, such as 256x256x256")
    return tuple(map(int, parts))


def _shape(text: str) -> Value:
    """Returns the canonical text of a shape."""
    return "x".join(map(str, lengths(text)))


_AXES = range(MOST_AXES)
_HOT = tuple(f"read-axis-{axis}-hot" for axis in _AXES)
_READS = {"cold": "one slice at an index of axis {}, from the device", "hot": "slices at random indexes of axis {}"}
_SAYS = {"cold": "", "hot": "{{figure}} read in slices of axis {}"}
_phase = partial(Phase, metric="bandwidth")
# 4 GiB: balanced chunks, and those for slices of the first axis, and for series along it.
_FULL = {"shape": "1024x1024x1024", "chunks": ("64x64x64", "1x1024x1024", "1024x32x32"), "slices": 2}
PRESETS = {
    "quick": Preset({}, samples=3, budget=2, timeout=120),
    "standard": Preset({"shape": "512x512x512"}, samples=5, budget=30, timeout=600),
    "full": Preset(_FULL, samples=3, budget=60, timeout=3_600),
}


class NdarraysSuite(Suite):
    name = "ndarrays"
    title = "an N-dimensional array in chunks: written, and read in slices along each axis, cold and hot"
    ports = ("ndarrays",)
    params = (
        Setting("shape", _shape, "256x256x256", "of the array of 32-bit floats: the length of each axis"),
        Setting("chunks", _shape, "64x64x64", "shape of a chunk; equal to shape: not chunked"),
        Setting("slices", integer(1, 1_000_000), 10, "slices to read in a hot phase", phases=_HOT),
    )
    presets = PRESETS
    phases = (
        _phase(
            "write",
            "write blocks of whole chunks",
            unit="block",
            writes=True,
            checked="every value of some blocks",
            says="{figure} written",
        ),
        *(
            _phase(
                f"read-axis-{axis}-{temperature}",
                f"read {title.format(axis)}",
                unit="slice",
                writes=False,
                temperature=temperature,
                checked="every value",
                by_default=axis < AXES_BY_DEFAULT,
                says=_SAYS[temperature].format(axis),
            )
            for axis in _AXES
            for temperature, title in _READS.items()
        ),
    )


SUITE = NdarraysSuite()
