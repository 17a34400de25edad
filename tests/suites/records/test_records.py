"""Tests every engine of the records suite by the whole conformance suite, at each tier, with each encoder and journal
mode, and by long random histories; a declared gap must fail.

Also tests the conformance suite itself: every check fails on a store that is broken in its way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from needed import require
from stores import Store, engines, journals, stores

from dyno import registry
from dyno.contracts.engine import EngineSpec, Gap, PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Tier, Wrong
from dyno.suites._shared import ordered_kv
from dyno.suites._shared.store import brief
from dyno.suites.records.conformance import BRIEF, CHECKS, model
from dyno.suites.records.layer import ENCODERS
from dyno.suites.records.port import Key, Reader, Record

pytestmark = pytest.mark.usefixtures("processes")

LAYERED = "lmdb"


def encoded() -> list[Store]:
    spec = registry.engine(LAYERED)
    return [Store(spec, Tier.PROCESS, encoder=name) for name in ENCODERS]


def everywhere() -> list[Store]:
    every = [*stores(*Tier), *journals(*Tier), *encoded()]
    return list({str(store): store for store in every}.values())


def hold(store: Store, check: str, home: Path) -> None:
    """Runs one check. A declared gap must fail, everything else must pass."""
    gap = next((gap for gap in store.spec.gaps if gap.check == check), None)
    try:
        CHECKS[check](store.opened(home), store.tier)
    except Exception:
        if gap is None:
            raise
        return
    if gap is not None:
        pytest.fail(f"gap {check} of engine {store.spec.name} works now: unmark it")


@pytest.mark.claim("Every engine passes the whole conformance suite")
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("store", everywhere(), ids=str)
def test_a_store_passes_the_check_of_records(store: Store, check: str, tmp_path: Path) -> None:
    require(store.spec)
    hold(store, check, tmp_path)


@pytest.mark.parametrize("spec", engines(), ids=lambda spec: spec.name)
def test_store_equals_dict_after_a_long_random_history(spec: EngineSpec) -> None:
    require(spec)
    tier = next((tier for tier in (Tier.PROCESS, Tier.VOLATILE) if tier in spec.tiers), Tier.POWER)
    if any(gap.check == "model" for gap in spec.gaps):
        pytest.skip(f"engine {spec.name} has a gap there")

    # Hypothesis draws `steps`, so that a failure shrinks to the shortest history that shows it.
    @settings(max_examples=6, deadline=None)
    @given(seed=st.integers(2, 2**32), steps=st.integers(100, 500))
    def run(seed: int, steps: int) -> None:
        with TemporaryDirectory() as home:
            model(Store(spec, tier).opened(Path(home)), tier, steps, seed)

    run()


@pytest.mark.parametrize("spec", engines(), ids=lambda spec: spec.name)
def test_every_gap_names_a_check_and_a_reason(spec: EngineSpec) -> None:
    ports = {"records", "ordered-kv"} & spec.ports.keys()
    for gap in (gap for port in ports for gap in spec.reduce_to_port(port).gaps):
        assert gap.check in {**CHECKS, **ordered_kv.CHECKS, **ordered_kv.TWO_CLIENT_CHECKS}
        assert gap.kind in ("unsupported", "upstream", "todo")
        assert gap.reason


# -- the suite itself -------------------------------------------------------------------------------------


class Table(Reader):
    """A correct `records` port over a dict; the broken ports derive from it."""

    def __init__(self, engine: Any, indexed: bool) -> None:
        self.rows: dict[Key, Record] = engine.rows

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        yield self

    def reader(self) -> Reader:
        return self

    def get(self, key: Key) -> Record | None:
        return self.rows.get(key)

    def get_many(self, keys: Sequence[Key]) -> list[Record | None]:
        return [self.get(key) for key in keys]

    def finder(self, index: str) -> Callable[[str], Record | None]:
        field = index.removeprefix("rev_")
        return lambda value: next((row for row in self.rows.values() if row[field] == value[::-1]), None)

    def scanner(self, count: int) -> Callable[[Key], list[Record]]:
        return lambda key: [self.rows[k] for k in self.in_order() if k >= key][:count]

    def in_order(self) -> list[Key]:
        return sorted(self.rows, key=lambda key: (key[0].encode(), key[1].encode()))

    def insert(self, records: Iterable[Record]) -> None:
        self.replace(records)

    def replace(self, records: Iterable[Record]) -> list[Record | None]:
        # A transaction: consumes all records before it stores the first.
        return [self.store(record) for record in list(records)]

    def store(self, record: Record) -> Record | None:
        key = record["name"], record["location"]
        old, self.rows[key] = self.rows.get(key), record
        return old

    def delete(self, keys: Iterable[Key]) -> list[bool]:
        return [self.rows.pop(key, None) is not None for key in keys]

    def close(self) -> None:
        pass


class Rows:
    """The engine of `Table`."""

    kept: dict[Path, dict[Key, Record]]

    def __init__(self, home: Path, tier: Tier, options: Any) -> None:
        self.rows = self.kept.setdefault(home, {})

    def close(self) -> None:
        pass


class Forgets(Rows):
    def close(self) -> None:
        self.rows.clear()


class MatchesPrefixes(Table):
    def finder(self, index: str) -> Callable[[str], Record | None]:
        field = index.removeprefix("rev_")
        return lambda value: next((r for r in self.rows.values() if r[field][::-1].startswith(value)), None)


class KeepsInsertionOrder(Table):
    def in_order(self) -> list[Key]:
        return list(self.rows)


class SortsByLength(Table):
    def in_order(self) -> list[Key]:
        return sorted(self.rows, key=lambda key: (len(key[0]), key))


class ReplacesBlindly(Table):
    def replace(self, records: Iterable[Record]) -> list[Record | None]:
        return [self.store(record) and None for record in list(records)]


class LooksOnceForAll(Table):
    def replace(self, records: Iterable[Record]) -> list[Record | None]:
        news = list(records)
        olds = [self.rows.get((new["name"], new["location"])) for new in news]
        super().replace(news)
        return olds


class DeletesWhatIsNotThere(Table):
    def delete(self, keys: Iterable[Key]) -> list[bool]:
        return [bool(super(DeletesWhatIsNotThere, self).delete([key])) for key in keys]


class LeavesHalfATransaction(Table):
    def replace(self, records: Iterable[Record]) -> list[Record | None]:
        return [self.store(record) for record in records]


class NeedsItsIndexes(Table):
    def __init__(self, engine: Any, indexed: bool) -> None:
        super().__init__(engine, indexed)
        self.indexed = indexed

    def delete(self, keys: Iterable[Key]) -> list[bool]:
        return super().delete(keys if self.indexed else ())


class AnswersByOrderOfKeys(Table):
    def get_many(self, keys: Sequence[Key]) -> list[Record | None]:
        return super().get_many(sorted(keys))


class LeavesOutWhatIsNotThere(Table):
    def get_many(self, keys: Sequence[Key]) -> list[Record | None]:
        return [found for found in super().get_many(keys) if found]


class FindsEachOnce(Table):
    def get_many(self, keys: Sequence[Key]) -> list[Record | None]:
        return [self.get(key) if key not in keys[:at] else None for at, key in enumerate(keys)]


class StopsStoringAfterAWhile(Table):
    stored = 0

    def store(self, record: Record) -> Record | None:
        self.stored += 1
        return super().store(record) if self.stored < 200 else self.rows.get((record["name"], record["location"]))


def table(port: type[Table] = Table, engine: type[Rows] = Rows, gaps: tuple[Gap, ...] = ()) -> Store:
    opener: Any = type("Opener", (engine,), {"kept": {}})
    tiers: dict[Tier, dict[str, Any]] = {Tier.PROCESS: {}}
    ports = {"records": PortSpec(port, gaps=gaps)}
    spec = EngineSpec(port.__name__, "a fake", opener, ports, tiers, Tier.PROCESS)
    return Store(spec, Tier.PROCESS)


BROKEN = {
    "absence": table(MatchesPrefixes),
    "order": table(KeepsInsertionOrder),
    "many": table(AnswersByOrderOfKeys),
    "overwrite": table(ReplacesBlindly),
    "delete": table(DeletesWhatIsNotThere),
    "atomicity": table(LeavesHalfATransaction),
    "noindices": table(NeedsItsIndexes),
    "persistence": table(engine=Forgets),
    "model": table(StopsStoringAfterAWhile),
}


@pytest.mark.claim("The conformance suite finds broken engines")
@pytest.mark.parametrize("check", CHECKS)
def test_check_passes_correct_and_fails_broken_store(check: str, tmp_path: Path) -> None:
    hold(table(), check, tmp_path / "correct")
    with pytest.raises(Wrong):
        hold(BROKEN[check], check, tmp_path / "broken")


SUBTLER = [
    ("order", SortsByLength),
    ("many", LeavesOutWhatIsNotThere),
    ("many", FindsEachOnce),
    ("overwrite", LooksOnceForAll),
]


@pytest.mark.parametrize(("check", "port"), SUBTLER)
def test_the_check_fails_subtler_breaks(check: str, port: type[Table], tmp_path: Path) -> None:
    with pytest.raises(Wrong):
        hold(table(port), check, tmp_path)


def test_a_declared_gap_that_works_fails(tmp_path: Path) -> None:
    gap = Gap("order", "todo", "not yet")
    hold(table(KeepsInsertionOrder, gaps=(gap,)), "order", tmp_path / "gap")
    with pytest.raises(pytest.fail.Exception, match="gap order of engine Table works now: unmark it"):
        hold(table(gaps=(gap,)), "order", tmp_path / "works")


def test_brief_check_names_the_failure_and_skips_gaps(tmp_path: Path) -> None:
    store = table(ReplacesBlindly)
    with pytest.raises(Wrong, match="conformance, overwrite: "):
        brief(BRIEF, store.opened(tmp_path / "a"), Tier.PROCESS)
    with pytest.raises(Wrong, match="conformance, delete: "):
        brief(BRIEF, table(DeletesWhatIsNotThere).opened(tmp_path / "b"), Tier.PROCESS)
    brief(BRIEF, table(DeletesWhatIsNotThere).opened(tmp_path / "c"), Tier.PROCESS, gaps={"delete"})


def test_missing_engine_skips_locally_and_fails_under_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = replace(table().spec, installation=Installation(modules=("no_such_module_of_dyno",)))
    monkeypatch.setenv("CI", "false")
    with pytest.raises(pytest.skip.Exception):
        require(absent)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception):
        require(absent)
