"""Samples as entries of an ordered key-value store: one entry for each sample, by variable and time, and one for each
variable's name. Names no engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from struct import Struct
from typing import Any

from dyno.suites.series import samples
from dyno.suites.series.port import Array, SampleBatch, Samples

KEY = Struct(">IQ")
"""Big-endian, so that keys have the order of variables and times."""
NAME = b"\xff\xff\xff\xff"
"""Prefix of a name's key, after all variables. The value is the variable's id."""
NUMBER = Struct(">I")
MAX_TIME = (1 << 64) - 1
PIECE = 65_536
"""Entries that are decoded together when all samples are read."""

Entry = tuple[bytes, bytes]


def _dtypes() -> tuple[Any, Any]:
    import numpy as np

    return np.dtype([("pv", ">u4"), ("ts", ">u8")]), np.dtype([("val", "<f8"), ("stat", "<i2"), ("sevr", "<i2")])


def entries(batch: SampleBatch) -> Iterator[Entry]:
    """The entries of samples, whose variables have the store's ids."""
    import numpy as np

    key_dtype, value_dtype = _dtypes()
    keys, values = np.empty(len(batch.ts), key_dtype), np.empty(len(batch.ts), value_dtype)
    for name, column in batch._asdict().items():
        (keys if name in key_dtype.names else values)[name] = column
    return zip(_row_bytes(keys), _row_bytes(values), strict=True)


def _row_bytes(rows: Any) -> Iterable[bytes]:
    whole, width = rows.tobytes(), rows.dtype.itemsize
    return (whole[at : at + width] for at in range(0, len(whole), width))


def _columns(stored: Iterable[Entry]) -> list[Array]:
    """The columns of samples, in the order of a batch's fields."""
    import numpy as np

    key_dtype, value_dtype = _dtypes()
    pairs = list(stored)
    keys = np.frombuffer(b"".join(key for key, _ in pairs), key_dtype)
    values = np.frombuffer(b"".join(value for _, value in pairs), value_dtype)
    return [*(keys[name] for name in key_dtype.names), *(values[name] for name in value_dtype.names)]


def samples_of(stored: Iterable[Entry]) -> Samples:
    return samples.samples(_columns(stored)[1:])


def batches(stored: Iterator[Entry], ids: samples.VariableIds) -> Iterator[SampleBatch]:
    """Batches of up to PIECE samples."""
    while piece := list(islice(stored, PIECE)):
        yield batch(piece, ids)


def batch(stored: Iterable[Entry], ids: samples.VariableIds) -> SampleBatch:
    pv, *rest = _columns(stored)
    return samples.batch([ids.from_store(pv), *rest])


def parse_names(stored: Iterable[Entry]) -> list[tuple[int, str]]:
    """The ids and names in the entries of names."""
    return [(NUMBER.unpack(value)[0], key[len(NAME) :].decode()) for key, value in stored]


def add_names(names: Sequence[str], stored: Sequence[tuple[int, str]]) -> tuple[list[Entry], list[tuple[int, str]]]:
    """The entries to write for new names; and the ids and names of all variables afterwards."""
    old = {name for _, name in stored}
    new = list(enumerate((name for name in names if name not in old), len(stored)))
    return [(NAME + name.encode(), NUMBER.pack(number)) for number, name in new], [*stored, *new]
