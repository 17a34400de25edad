"""Tests the hashes that recognize a repeated answer: the native and the Python ones agree, and only a dict of exactly
three strings has a hash."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
from clockwork import the_loop
from hypothesis import given
from hypothesis import strategies as st

from dyno.contracts.suite import Failure
from dyno.suites.records.dataset import answer_hash, answer_hashes, python_answer_hashes


class Word(str):
    """A subclass of str, which could have a hash function of its own."""


RIGHT = {"name": "a", "location": "A", "stub": "0"}
NO_RECORDS: list[Any] = [
    *(None, 5, [RIGHT], {"name": "a"}, {**RIGHT, "stub": []}, Failure("raised"), {**RIGHT, "more": "b"}),
    *({**RIGHT, "stub": Word("0")}, {Word("name"): "a", "location": "A", "stub": "0"}, OrderedDict(RIGHT)),
    {"name": "a", "location": "A", "stubs": "0"},
]


def test_only_records_have_a_hash() -> None:
    assert answer_hash(0, RIGHT) != answer_hash(1, RIGHT) != 0
    for odd in NO_RECORDS:
        assert answer_hash(0, odd) == 0


texts = st.text(st.characters(), max_size=5)
answers = st.builds(lambda name, location, stub: {"stub": stub, "name": name, "location": location}, *[texts] * 3)


@pytest.mark.claim("Native hashes of records are those of the reference in Python")
@given(st.lists(st.tuples(st.integers(-1, 2**31 - 1), answers | st.sampled_from([RIGHT, *NO_RECORDS]))))
def test_native_and_python_hashes_agree(pairs: Any) -> None:
    versions = np.array([version for version, _ in pairs], dtype=np.int64)
    given = [answer for _, answer in pairs]
    right = [answer_hash(version, answer) for version, answer in pairs]
    assert answer_hashes(versions, given).tolist() == python_answer_hashes(versions, tuple(given)).tolist() == right


def test_answers_and_versions_must_have_the_same_length() -> None:
    native: Any = the_loop("native")
    two, one = np.zeros(2, dtype=np.int64), [RIGHT]
    for versions, into in ((two, two[:1]), (two[:1], two)):
        with pytest.raises(ValueError, match="as many versions and places as answers"):
            native.marks(versions, one, into)
    with pytest.raises(BufferError):
        native.marks(np.zeros(1, dtype=np.int32), one, two[:1])
