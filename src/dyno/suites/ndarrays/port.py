"""The port `ndarrays`. Doesn't import NumPy, since the parent imports engines' files."""

from typing import Any, NamedTuple, Protocol

PORT = "ndarrays"
DTYPE = "f4"
Region = tuple[slice, ...]
"""Consecutive indexes of each axis, with start and stop."""


class Block(NamedTuple):
    """New values of a region. Each axis begins at a border of chunks, and ends at one or at the array's end."""

    region: Region
    values: Any


class Ndarrays(Protocol):
    """A chunked array of 32-bit floats. Engines implement this protocol as a class called with `(engine, shape,
    chunks)`, which creates the array if it doesn't exist. No other client uses the array."""

    def write(self, block: Block) -> object:
        """Replaces values. When it returns, they are stored with the tier's durability."""

    def read(self, region: Region) -> Any:
        """Returns the region as a NumPy array with all axes."""

    def close(self) -> None:
        return None
