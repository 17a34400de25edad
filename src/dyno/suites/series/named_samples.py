"""Samples as tables of Arrow's, in which each row has its variable's name, by a dictionary. No engine may be named
here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dyno.suites.series import samples
from dyno.suites.series.port import SampleBatch


def batch(found: Any, name: str, rest: Sequence[str], numbers: Mapping[str, int]) -> SampleBatch:
    """Of a table or a part of one: `name` is its column of names, which are numbered by `numbers`, and `rest` are
    those of time, value, status and severity."""
    import numpy as np

    names = found.column(name)
    names = names.combine_chunks() if hasattr(names, "combine_chunks") else names
    # What is in the dictionary and in no row may be no variable.
    known = np.array([numbers.get(each, -1) for each in names.dictionary.to_pylist()], "i4")
    return samples.batch([known[names.indices.to_numpy()], *(found.column(each).to_numpy() for each in rest)])


def types(names: str, whole: Sequence[str], doubles: Sequence[str]) -> Any:
    """For what reads them from CSV, the types of the columns as they are: not as their first rows look."""
    import pyarrow
    from pyarrow import csv

    return csv.ConvertOptions(
        column_types={
            names: pyarrow.dictionary(pyarrow.int32(), pyarrow.string()),
            **dict.fromkeys(whole, pyarrow.int64()),
            **dict.fromkeys(doubles, pyarrow.float64()),
        }
    )
