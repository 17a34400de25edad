"""Tests how the suite objectstore treats answers: stale ones are counted, throttled requests are retried. Runs on
real stores are in tests/suites/objectstore/test_objectstore_run.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from dyno import registry
from dyno.contracts.model import Wrong
from dyno.suites._shared.digest import new_digest
from dyno.suites.objectstore import NoObject, StoreError, StoreRequest, StoreResponse, Throttled
from dyno.suites.objectstore.requests import (
    STALE_CHECKS,
    Bodies,
    Names,
    ScriptRunner,
    run_all,
    visibility_script,
)

OLD, NEW = b"older", b"newer"


class Store:
    """A store in a dict, which gives prepared answers."""

    def __init__(self, instead: Callable[[int, StoreRequest], Any] = lambda number, ask: None) -> None:
        self._instead, self._held = instead, dict[str, bytes]()
        self._done: list[tuple[int, Any]] = []
        self.asked: list[StoreRequest] = []

    def begin(self, place: int, argument: StoreRequest) -> None:
        self.asked.append(argument)
        told = self._instead(len(self.asked), argument)
        right = self._answer(argument)
        self._done.append((place, right if told is None else told))

    def _answer(self, ask: StoreRequest) -> Any:
        if ask.verb == "put":
            self._held[ask.key] = bytes(ask.body)
        elif ask.verb == "delete":
            self._held.pop(ask.key, None)
        elif ask.verb == "list":
            names = [key for key in self._held if key.startswith(ask.key)]
            return StoreResponse(names=lambda: names)
        elif ask.key not in self._held:
            return NoObject(ask.key)
        else:
            return StoreResponse(len(self._held[ask.key]), None, self._held[ask.key])
        return StoreResponse()

    def ended(self, wait_ns: int) -> Sequence[tuple[int, Any]]:
        done, self._done = self._done, []
        return done

    def close(self) -> None:
        pass


def seen(store: Store) -> Any:
    """Returns the result of one visibility script."""
    chain = ScriptRunner(store)
    chain.begin(0, lambda: visibility_script("a", (OLD, NEW), (new_digest(OLD).digest(), new_digest(NEW).digest())))
    for _ in range(20):
        for _, answer in chain.ended(0):
            return answer
    raise AssertionError("it did not end")


def body(of: bytes) -> StoreResponse:
    return StoreResponse(len(of), None, of)


# The requests in order: put, get, list, put, get, delete, get, list.
@pytest.mark.parametrize(
    ("number", "told", "stale"),
    [
        (0, None, ()),
        (2, NoObject("a"), ("stale_reads",)),
        (2, body(NEW), ("stale_reads",)),
        (3, StoreResponse(names=list), ("stale_lists",)),
        (5, body(OLD), ("stale_overwrites",)),
        (7, body(NEW), ("stale_deletes",)),
        (8, StoreResponse(names=lambda: ["a"]), ("stale_delete_lists",)),
    ],
)
def test_stale_answers_are_counted_by_kind(number: int, told: Any, stale: tuple[str, ...]) -> None:
    store = Store(lambda at, ask: told if at == number else None)
    assert seen(store) == list(stale) and len(store.asked) == 8
    assert set(stale) <= set(STALE_CHECKS)


def test_a_failed_request_is_not_a_stale_answer() -> None:
    error = StoreError("HTTP 500")
    assert seen(Store(lambda at, ask: error if at == 3 else None)) is error
    # A write that fails with NoObject is not a stale answer either.
    missing = NoObject("a")
    assert seen(Store(lambda at, ask: missing if at == 4 else None)) is missing


def test_fill_retries_throttled_and_raises_on_failed_requests() -> None:
    asks = [StoreRequest("put", f"a/{at}", b"x") for at in range(7)]
    store = Store(lambda at, ask: Throttled("HTTP 503 SlowDown") if at in (2, 3) else None)
    assert {ask.key for ask, _ in run_all(store, 3, asks)} == {ask.key for ask in asks}
    again = {key: count for key, count in Counter(ask.key for ask in store.asked).items() if count > 1}
    assert len(store.asked) == 9 and sum(again.values()) == 4
    with pytest.raises(Wrong, match=r"put a/1: .*HTTP 500"):
        list(run_all(Store(lambda at, ask: StoreError("HTTP 500") if at == 2 else None), 1, asks))


def test_bodies_differ_and_ranges_have_the_right_digests() -> None:
    for size in (1, 1_000, 3_000_000):
        bodies = Bodies(7, size)
        found = [bytes(bodies.body(at)) for at in range(bodies.count)]
        assert {len(each) for each in found} == {size}
        assert len(set(found)) == bodies.count or size == 1
        assert bodies.right(1) == new_digest(found[1]).digest()
        assert bodies.right(1, size // 3, size // 2) == new_digest(found[1][size // 3 : size // 2]).digest()


def test_names_spread_over_prefixes_and_list_in_order() -> None:
    names = Names(10, 3)
    assert Counter(name.rpartition("/")[0] for name in names.every) == {
        "objects/0000": 4,
        "objects/0001": 3,
        "objects/0002": 3,
    }
    for at in range(10):
        below = [name for name in sorted(names.every) if name.startswith(names.prefix(at))]
        assert names.names_after(at, 2) == [name for name in below if name > names.every[at]][:2]


def test_presets_have_few_cells() -> None:
    """The number of cells is limited because each cell fills a bucket."""
    cells = {}
    for name, preset in registry.suite("objectstore").presets.items():
        count = 1
        for value in preset.params.values():
            count *= len(value) if isinstance(value, tuple) else 1
        cells[name] = count
    assert cells["quick"] == 4 and cells["standard"] == 18
