"""Tests that answers are compared by exact types and values, without calling any method of an answer."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clockwork import the_loop
from hypothesis import given
from hypothesis import strategies as st
from plugins.vain.vain import Bytes, Dict, List, Number, Object, String
from shell import TESTS

import dyno
from dyno.contracts.equality import difference, is_list, positions, positions_by_type, same
from dyno.contracts.suite import Failure

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text() | st.binary()
KEYS = st.none() | st.booleans() | st.integers() | st.text() | st.binary()
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(KEYS, inner), max_leaves=20
)


def typed(value: Any) -> Any:
    """Converts a value so that `==` also compares exact types: an independent check of `same`."""
    if isinstance(value, dict):
        return "dict", frozenset((typed(key), typed(inner)) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return type(value).__name__, tuple(map(typed, value))
    return type(value).__name__, repr(value)


@given(VALUES)
def test_a_copy_is_the_same(value: Any) -> None:
    assert same(copy.deepcopy(value), value)


@given(VALUES, VALUES)
def test_same_compares_types_and_values(one: Any, other: Any) -> None:
    assert same(one, other) == (typed(one) == typed(other))


DIFFERENT: list[tuple[Any, Any]] = [
    (1, True),
    (1, 1.0),
    (True, 1.0),
    (0, None),
    ("a", b"a"),
    ((1,), [1]),
    ([1], [True]),
    ([1, "a"], [1]),
    ({1: "a"}, {True: "a"}),
    ({"a": 1}, {"a": 1.0}),
    ({"a": "b"}, {"a": "c"}),
    ({"a": "b"}, {"c": "b"}),
    ({"a": "b", "c": "d"}, {"a": "b"}),
    ({"a": [1]}, {"a": [1.0]}),
    ({"a": None}, {"b": None}),
    (0.0, -0.0),
    (bytearray(b"a"), b"a"),
    (np.int64(1), 1),
    (np.float64(1.0), 1.0),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_equal_values_of_other_types_differ(one: Any, other: Any) -> None:
    assert not same(one, other) and not same(other, one)


RIGHT: list[Any] = [
    *(None, 0, 1, True, 1.5, "a", b"a", [], ["a"], (), {}),
    {"name": "a", "location": "A", "stub": "0"},
    np.arange(3),
]


@pytest.mark.claim("Answers are compared by exact type; their own comparison methods are never called")
@pytest.mark.parametrize("right", RIGHT, ids=repr)
@pytest.mark.parametrize("claims", [Object(), Dict(), String("a"), Bytes(b"a"), Number(1), List()], ids=type)
def test_object_equal_to_everything_is_never_the_same(claims: Any, right: Any) -> None:
    assert not same(claims, right) and not same(right, claims)
    # Such an object is not the same inside an equal container either.
    for outer in (lambda v: [v], lambda v: (v,), lambda v: {"a": v}, lambda v: {"a": "b", "c": [v]}):
        assert not same(outer(claims), outer(right))
        assert same(outer(right), outer(right))


def test_dict_key_equal_to_everything_never_matches() -> None:
    class Key(str):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = str.__hash__

    assert {Key("a"): "b"} == {"a": "b"}, "Python is taken in"
    assert not same({Key("a"): "b"}, {"a": "b"})
    assert not same({Key("a"): 1}, {"a": 1})
    assert not same({(Key("a"),): 1}, {("a",): 1})


def test_same_ignores_dict_order_but_not_list_order() -> None:
    assert same({"a": 1, "b": "c"}, {"b": "c", "a": 1})
    assert same({"a": "x", "b": "c"}, {"b": "c", "a": "x"})
    assert not same([1, 2], [2, 1])


def test_arrays_are_compared_by_type_shape_and_bytes() -> None:
    right = np.arange(12, dtype=np.int32).reshape(3, 4)
    assert same(right.copy(), right) and same(np.asfortranarray(right), right)
    assert not same(right.astype(np.int64), right)
    assert not same(right.astype(">i4"), right)
    assert not same(right.reshape(4, 3), right)
    assert not same(right + 1, right)
    assert not same(right.tolist(), right)
    assert not same(np.ma.masked_array(right, mask=True), right)
    assert same(np.array([np.nan]), np.array([np.nan])) and not same(np.array([0.0]), np.array([-0.0]))
    assert same(np.array(1), np.array(1)) and not same(np.array(1), np.array([1]))
    assert same(np.zeros((0, 3)), np.zeros((0, 3))) and not same(np.zeros((0, 3)), np.zeros((3, 0)))
    claims = np.array([Object()], dtype=object)
    assert not same(claims, claims)


class Child(Failure):
    """Subclass of Failure, which `positions` must not find."""


@given(st.lists(st.sampled_from([Failure("raised"), Child("raised"), Object(), None, 1, "Failure"])))
def test_positions_finds_answers_of_exactly_one_type(answers: list[Any]) -> None:
    right = [at for at, answer in enumerate(answers) if type(answer) is Failure]
    assert positions(answers, Failure) == positions(tuple(answers), Failure) == right
    assert positions_by_type(answers, Failure) == right


def test_answers_are_searched_by_type_natively() -> None:
    """A search in Python takes as long as the measuring loop, so it must be native."""
    the_loop("native")
    assert positions is not positions_by_type


def test_is_list_checks_type_and_length() -> None:
    assert is_list([1, 2], 2)
    assert not is_list([1, 2], 3) and not is_list((1, 2), 2) and not is_list(List([1, 2]), 2)


def test_a_difference_names_the_types() -> None:
    assert difference(1, 2) == "got 1, expected 2"
    assert difference(String("a"), "a") == "got 'a', expected 'a', of other types"

    class Silent:
        def __repr__(self) -> str:
            raise OSError("no")

    assert "Silent object at" in difference(Silent(), 1) and "\n" not in difference("a\nb" * 100, 1)


# -- where answers are compared -----------------------------------------------------------------------------------

ANSWERS = {"answer", "answers", "got", "right", "expected", "wanted", "olds"}
SOURCES = [
    *Path(dyno.__file__).parent.glob("suites/**/*.py"),
    *(TESTS.parent / "examples/plugin-suite").glob("**/*.py"),
]


def compared(source: str) -> Iterator[int]:
    """Yields the lines that compare an answer by its own methods or by isinstance. Answers are recognised by name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare) and any(
            isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for op in node.ops
        ):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "np.array_equal"):
            sides = node.args
        else:
            continue
        if any(isinstance(side, ast.Name) and side.id in ANSWERS for side in sides):
            yield node.lineno


@pytest.mark.claim("Answers are compared by exact type; their own comparison methods are never called")
def test_suites_never_compare_answers_by_their_methods() -> None:
    assert len(SOURCES) > 20
    assert [f"{path}:{line}" for path in SOURCES for line in compared(path.read_text())] == []
    taken_in = "if got != 1: pass\nx = answer == right\nisinstance(answer, dict)\n'a' in got\nlen(got) == 1"
    assert list(compared(taken_in)) == [1, 2, 3, 4]
