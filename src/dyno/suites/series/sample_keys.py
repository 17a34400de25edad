"""Samples as records of an ordered store of bytes, for engines that know keys and values only: one record for each
sample, under variable and time, and one for each name. No engine may be named here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from struct import Struct
from typing import Any

from dyno.suites.series import samples
from dyno.suites.series.port import Array, SampleBatch, Samples

KEY = Struct(">IQ")
"""The most significant bytes first, so that keys are in the order of variables and times."""
NAME = b"\xff\xff\xff\xff"
"""Before a name: after all variables. Its value is the number that stands for it."""
NUMBER = Struct(">I")
MAX_TIME = (1 << 64) - 1
PIECE = 65_536
"""Records of all that are looked at together."""

Entry = tuple[bytes, bytes]


def _kinds() -> tuple[Any, Any]:
    import numpy as np

    return np.dtype([("pv", ">u4"), ("ts", ">u8")]), np.dtype([("val", "<f8"), ("stat", "<i2"), ("sevr", "<i2")])


def entries(batch: SampleBatch) -> Iterator[Entry]:
    """Records of samples, whose variables have the store's numbers."""
    import numpy as np

    of_key, of_value = _kinds()
    keys, values = np.empty(len(batch.ts), of_key), np.empty(len(batch.ts), of_value)
    for name, column in batch._asdict().items():
        (keys if name in of_key.names else values)[name] = column
    return zip(_cut(keys), _cut(values), strict=True)


def _cut(rows: Any) -> Iterable[bytes]:
    whole, width = rows.tobytes(), rows.dtype.itemsize
    return (whole[at : at + width] for at in range(0, len(whole), width))


def columns(found: Iterable[Entry]) -> list[Array]:
    """Of records of samples, in the order of a batch's fields."""
    import numpy as np

    of_key, of_value = _kinds()
    pairs = list(found)
    keys = np.frombuffer(b"".join(key for key, _ in pairs), of_key)
    values = np.frombuffer(b"".join(value for _, value in pairs), of_value)
    return [*(keys[name] for name in of_key.names), *(values[name] for name in of_value.names)]


def samples_of(found: Iterable[Entry]) -> Samples:
    return samples.samples(columns(found)[1:])


def batches(found: Iterator[Entry], numbers: samples.VariableIds) -> Iterator[SampleBatch]:
    """Piece by piece."""
    while piece := list(islice(found, PIECE)):
        yield batch(piece, numbers)


def batch(found: Iterable[Entry], numbers: samples.VariableIds) -> SampleBatch:
    pv, *rest = columns(found)
    return samples.batch([numbers.from_store(pv), *rest])


def parse_names(found: Iterable[Entry]) -> list[tuple[int, str]]:
    """Of the records of names: the numbers and the names."""
    return [(NUMBER.unpack(value)[0], key[len(NAME) :].decode()) for key, value in found]


def add_names(names: Sequence[str], there: Sequence[tuple[int, str]]) -> tuple[list[Entry], list[tuple[int, str]]]:
    """What is to be put in for names that are not there yet; and all that are there then."""
    old = {name for _, name in there}
    new = list(enumerate((name for name in names if name not in old), len(there)))
    return [(NAME + name.encode(), NUMBER.pack(number)) for number, name in new], [*there, *new]
