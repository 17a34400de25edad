"""Guards the record layer: packed keys sort like the tuples they stand for and are never mixed up, encoders lose
nothing, and a store with any strings in it answers like a dict.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dyno import registry
from dyno.model import Tier
from dyno.suites.records.encoders import ENCODERS
from dyno.suites.records.layer import LayeredRecords, pack
from dyno.suites.records.port import INDEXES, Key, Record

# Mostly what is hard: NUL, the byte after it, the ends of UTF-8's lengths, and one letter to make near-doubles of.
HARD = st.text(st.sampled_from("\0\x01a\x7f\x80\u07ff\u0800\uffff\U00010000\U0010ffff"), max_size=4)
STRINGS = st.one_of(HARD, st.text(max_size=8))
TUPLES = st.lists(STRINGS, max_size=4).map(tuple)
RECORDS = st.fixed_dictionaries({"name": STRINGS, "location": STRINGS, "stub": STRINGS})


def utf8(parts: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(part.encode() for part in parts)


@settings(max_examples=500)
@given(TUPLES, TUPLES)
def test_packed_tuples_sort_as_their_strings_do(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert (pack(*one) < pack(*other)) == (utf8(one) < utf8(other))
    assert (pack(*one) == pack(*other)) == (one == other)


@given(st.lists(TUPLES, max_size=30))
def test_sorting_packed_tuples_sorts_the_tuples(tuples: list[tuple[str, ...]]) -> None:
    packed = {pack(*parts): parts for parts in tuples}
    assert len(packed) == len(set(tuples)), "two tuples share a key"
    assert [packed[key] for key in sorted(packed)] == sorted(set(tuples), key=utf8)


def test_packing_by_example() -> None:
    assert pack() == b""
    assert pack("ab", "c") == b"ab\0c\0"
    assert pack("a\0b") == b"a\0\xffb\0"
    assert pack("é") == b"\xc3\xa9\0"


@pytest.mark.parametrize("name", ["msgpack", "json"])
@given(record=RECORDS)
def test_a_record_comes_back_as_it_was_encoded(name: str, record: Record) -> None:
    encoder = ENCODERS[name]
    encoded = encoder.encode(record)
    assert isinstance(encoded, bytes)
    assert encoder.decode(encoded) == record


@given(record=RECORDS.map(lambda record: {field: text.replace("\0", "") for field, text in record.items()}))
def test_the_raw_encoder_returns_records_without_nul(record: Record) -> None:
    raw = ENCODERS["raw"]
    assert raw.decode(raw.encode(record)) == record
    assert len(raw.encode(record)) == sum(len(text.encode()) for text in record.values()) + 2


def test_every_encoder_is_tested_here() -> None:
    assert set(ENCODERS) == {"msgpack", "json", "raw"}


@contextmanager
def layered(indexed: bool = True) -> Iterator[LayeredRecords]:
    spec = registry.engine("memory")
    engine = spec.opener(Path(), Tier.VOLATILE, {})
    yield LayeredRecords(spec.ports["ordered-kv"].open(engine), ENCODERS["msgpack"], indexed)
    engine.close()


def key(record: Record) -> Key:
    return record["name"], record["location"]


@given(records=st.lists(RECORDS, max_size=12), others=st.lists(RECORDS, max_size=4), count=st.integers(1, 15))
def test_a_store_of_any_strings_answers_like_a_dict(records: list[Record], others: list[Record], count: int) -> None:
    held = {key(record): record for record in records}
    in_order = [held[k] for k in sorted(held, key=utf8)]
    with layered() as port:
        port.replace(records)
        reader = port.reader()
        for asked in records + others:
            assert reader.get(key(asked)) == held.get(key(asked))
            wanted = [record for record in in_order if utf8(key(record)) >= utf8(key(asked))][:count]
            assert reader.scanner(count)(key(asked)) == wanted
            for index, function in INDEXES.items():
                found = reader.finder(index)(function(asked))
                sharing = [record for record in in_order if function(record) == function(asked)]
                assert found in sharing if sharing else found is None


@given(records=st.lists(RECORDS, min_size=1, max_size=8))
def test_deleting_every_record_leaves_no_entry_of_any_index(records: list[Record]) -> None:
    spec = registry.engine("memory")
    engine = spec.opener(Path(), Tier.VOLATILE, {})
    kv = spec.ports["ordered-kv"].open(engine)
    port = LayeredRecords(kv, ENCODERS["msgpack"], indexed=True)
    port.replace(records)
    keys = {key(record) for record in records}
    assert len(list(kv.seek(b""))) == 3 * len(keys)
    assert port.delete([*keys, *keys]) == [True] * len(keys) + [False] * len(keys)
    assert list(kv.seek(b"")) == []


def test_two_records_may_share_an_indexed_value() -> None:
    with layered() as port:
        port.insert([{"name": "a", "location": place, "stub": ""} for place in ("X", "Y")])
        assert port.reader().finder("rev_name")("a") is not None
        port.delete([("a", "X")])
        found = port.reader().finder("rev_name")("a")
        assert found is not None and found["location"] == "Y"


def test_without_indexes_a_record_is_one_entry() -> None:
    with layered(indexed=False) as port:
        port.insert([{"name": "a", "location": "A", "stub": "s"}])
        assert port.reader().get(("a", "A")) is not None
        assert port.reader().finder("rev_name")("a") is None
