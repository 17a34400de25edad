"""Guards the hashes by which an answer is known again: the native ones are those of the Python that says what is
right, and what is no record of exactly three strings has none.
"""

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
    """No string of Python's own: it could have a hash of its own, too."""


RIGHT = {"name": "a", "location": "A", "stub": "0"}
NO_RECORDS: list[Any] = [
    *(None, 5, [RIGHT], {"name": "a"}, {**RIGHT, "stub": []}, Failure("raised"), {**RIGHT, "more": "b"}),
    *({**RIGHT, "stub": Word("0")}, {Word("name"): "a", "location": "A", "stub": "0"}, OrderedDict(RIGHT)),
    {"name": "a", "location": "A", "stubs": "0"},
]


def test_an_answer_that_is_no_record_has_no_hash() -> None:
    assert answer_hash(0, RIGHT) != answer_hash(1, RIGHT) != 0
    for odd in NO_RECORDS:
        assert answer_hash(0, odd) == 0


texts = st.text(st.characters(), max_size=5)
answers = st.builds(lambda name, location, stub: {"stub": stub, "name": name, "location": location}, *[texts] * 3)


@given(st.lists(st.tuples(st.integers(-1, 2**31 - 1), answers | st.sampled_from([RIGHT, *NO_RECORDS]))))
def test_hashes_of_many_answers_are_those_of_each(pairs: Any) -> None:
    versions = np.array([version for version, _ in pairs], dtype=np.int64)
    given = [answer for _, answer in pairs]
    right = [answer_hash(version, answer) for version, answer in pairs]
    assert answer_hashes(versions, given).tolist() == python_answer_hashes(versions, tuple(given)).tolist() == right


def test_hashes_are_of_as_many_answers_as_there_are_versions() -> None:
    native: Any = the_loop("native")
    two, one = np.zeros(2, dtype=np.int64), [RIGHT]
    for versions, into in ((two, two[:1]), (two[:1], two)):
        with pytest.raises(ValueError, match="as many versions and places as answers"):
            native.marks(versions, one, into)
    with pytest.raises(BufferError):
        native.marks(np.zeros(1, dtype=np.int32), one, two[:1])
