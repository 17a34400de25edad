"""Tests the record layer: packed keys sort like their tuples and are unique, encoders lose nothing, and a store with
arbitrary strings answers like a dict."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from clockwork import the_loop
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dyno import registry
from dyno.contracts.model import Tier
from dyno.suites.records import PARAMS, layer
from dyno.suites.records.layer import ENCODERS, LayeredRecords
from dyno.suites.records.port import INDEXES, Key, Record

try:
    from dyno import _native
except ImportError:
    # Without the native module its tests are skipped, or fail in CI: see `the_loop`.
    pass

# Difficult characters: NUL and the byte after it, the first and last characters of each length in UTF-8, and one
# letter for near-duplicates.
HARD = st.text(st.sampled_from("\0\x01a\x7f\x80\u07ff\u0800\uffff\U00010000\U0010ffff"), max_size=4)
STRINGS = st.one_of(HARD, st.text(max_size=8))
TUPLES = st.lists(STRINGS, max_size=4).map(tuple)
RECORDS = st.fixed_dictionaries({"name": STRINGS, "location": STRINGS, "stub": STRINGS})


def utf8(parts: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(part.encode() for part in parts)


Pack = Callable[[bytes, tuple[Any, ...]], bytes]


@pytest.fixture(scope="module", params=["python", "native"])
def pack(request: pytest.FixtureRequest) -> Pack:
    """The packing function: first the one in Python, then the native one."""
    if request.param == "python":
        return layer.python_pack
    the_loop("native")
    native: Pack = _native.pack
    return native


@pytest.mark.claim("Native packing of keys gives the same bytes and the same errors as Python's")
@settings(max_examples=200)
@given(one=TUPLES, other=TUPLES)
def test_packed_keys_sort_like_their_tuples(pack: Pack, one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert (pack(b"", one) < pack(b"", other)) == (utf8(one) < utf8(other))
    assert (pack(b"", one) == pack(b"", other)) == (one == other)


@given(tuples=st.lists(TUPLES, max_size=30))
def test_sorting_packed_tuples_sorts_the_tuples(pack: Pack, tuples: list[tuple[str, ...]]) -> None:
    packed = {pack(b"", parts): parts for parts in tuples}
    assert len(packed) == len(set(tuples)), "two tuples share a key"
    assert [packed[key] for key in sorted(packed)] == sorted(set(tuples), key=utf8)


def test_packed_bytes_match_examples(pack: Pack) -> None:
    assert pack(b"", ()) == b""
    assert pack(b"r", ()) == b"r"
    assert pack(b"", ("ab", "c")) == b"ab\0c\0"
    assert pack(b"\0n", ("a\0b",)) == b"\0na\0\xffb\0"
    assert pack(b"", ("\0", "")) == b"\0\xff\0\0"
    assert pack(b"", ("é",)) == b"\xc3\xa9\0"


@given(prefix=st.binary(max_size=3), before=TUPLES, after=TUPLES)
def test_packed_tuple_concatenates_its_packed_parts(
    pack: Pack, prefix: bytes, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    assert pack(prefix, before + after) == prefix + pack(b"", before) + pack(b"", after)


ANYTHING = st.one_of(HARD, st.text(st.characters(), max_size=3), st.none(), st.binary(max_size=2), st.integers())
"""Strings, halves of surrogate pairs among them, and values that are not strings."""


def outcome(pack: Pack, prefix: bytes, parts: tuple[Any, ...]) -> bytes | type[Exception]:
    try:
        return pack(prefix, parts)
    except Exception as error:
        return type(error)


@pytest.mark.claim("Native packing of keys gives the same bytes and the same errors as Python's")
@settings(max_examples=300)
@given(prefix=st.binary(max_size=3), parts=st.lists(ANYTHING, max_size=4).map(tuple))
@example(prefix=b"", parts=("a\ud800",))
@example(prefix=b"", parts=("\udfff\0",))
@example(prefix=b"", parts=("\ud800", None))
def test_native_and_python_packing_agree(prefix: bytes, parts: tuple[Any, ...]) -> None:
    the_loop("native")
    in_python = outcome(layer.python_pack, prefix, parts)
    # If several parts are wrong, either error may be raised.
    faults = [outcome(layer.python_pack, prefix, (part,)) for part in parts]
    errors = {fault for fault in faults if not isinstance(fault, bytes)}
    in_rust = outcome(_native.pack, prefix, parts)
    assert in_rust in errors if errors else in_rust == in_python


def test_packing_refuses_surrogate_halves_and_numbers(pack: Pack) -> None:
    assert outcome(pack, b"", ("a", "\ud800")) is UnicodeEncodeError
    assert outcome(pack, b"", ("a", 1)) is TypeError
    assert outcome(pack, b"", (b"a",)) is TypeError


def test_packing_leaks_no_reference(pack: Pack) -> None:
    """Neither references to its input nor memory leak, even if it raises."""
    given_ = ("a\0" * 3, "é" * 2)
    prefix = bytes([1, 2, 3])
    before = [sys.getrefcount(thing) for thing in (prefix, given_, *given_)]
    for _ in range(100):
        pack(prefix, given_)
        outcome(pack, prefix, (*given_, 1))
        outcome(pack, prefix, (*given_, "\ud800"))
    assert [sys.getrefcount(thing) for thing in (prefix, given_, *given_)] == before


def test_layer_packs_natively_if_module_is_built() -> None:
    the_loop("native")
    assert layer.pack is _native.pack


WITHOUT = """
import sys
from pathlib import Path
if "without" in sys.argv:
    sys.modules["dyno._native"] = None
from dyno import registry
from dyno.contracts.model import Tier
from dyno.contracts.suite import Job
from dyno.suites.records import layer
print(layer.pack is layer.python_pack, layer.pack(b"r", ("a", "b")))
suite = registry.suite("records")
params = {setting.name: setting.default for setting in suite.params} | {"records": 1}
for spec in (registry.engine("memory"), registry.engine("sqlite")):
    workload = suite.workload(Job(spec, Path(), Tier.VOLATILE, spec.resolve({}), params, seed=1, clients=1))
    print([caveat.code for caveat in workload.caveats()])
"""


@pytest.mark.claim("Rows measured without native packing have a caveat")
@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("way", ["with", "without"])
def test_rows_have_caveat_only_with_python_packing(way: str) -> None:
    if way == "with":
        the_loop("native")
    ended = subprocess.run([sys.executable, "-c", WITHOUT, way], capture_output=True, text=True, timeout=60)
    python = way == "without"
    assert ended.stdout.splitlines() == [
        f"{python} b'ra\\x00b\\x00'",
        "['python-keys']" if python else "[]",
        "[]",
    ], ended.stderr


@pytest.mark.parametrize("name", ["msgpack", "json"])
@given(record=RECORDS)
def test_encoders_round_trip_records(name: str, record: Record) -> None:
    encoder = ENCODERS[name]
    encoded = encoder.encode(record)
    assert isinstance(encoded, bytes)
    assert encoder.decode(encoded) == record


@given(record=RECORDS.map(lambda record: {field: text.replace("\0", "") for field, text in record.items()}))
def test_raw_encoder_round_trips_records_without_nul(record: Record) -> None:
    raw = ENCODERS["raw"]
    assert raw.decode(raw.encode(record)) == record
    assert len(raw.encode(record)) == sum(len(text.encode()) for text in record.values()) + 2


def test_every_declared_encoder_is_tested() -> None:
    assert set(ENCODERS) == {"msgpack", "json", "raw"}
    wanted = next(setting for setting in PARAMS if setting.name == "encoder")
    assert [wanted.parse(name) for name in ENCODERS] == list(ENCODERS)
    with pytest.raises(ValueError, match=", ".join(ENCODERS)):
        wanted.parse("none")


@contextmanager
def layered(indexed: bool = True) -> Iterator[LayeredRecords]:
    spec = registry.engine("memory")
    engine = spec.opener(Path(), Tier.VOLATILE, {})
    yield LayeredRecords(spec.ports["ordered-kv"].open(engine), ENCODERS["msgpack"], indexed)
    engine.close()


def key(record: Record) -> Key:
    return record["name"], record["location"]


@given(records=st.lists(RECORDS, max_size=12), others=st.lists(RECORDS, max_size=4), count=st.integers(1, 15))
def test_store_with_arbitrary_strings_answers_like_a_dict(
    records: list[Record], others: list[Record], count: int
) -> None:
    held = {key(record): record for record in records}
    in_order = [held[k] for k in sorted(held, key=utf8)]
    with layered() as port:
        port.replace(records)
        reader = port.reader()
        for target in records + others:
            assert reader.get(key(target)) == held.get(key(target))
            wanted = [record for record in in_order if utf8(key(record)) >= utf8(key(target))][:count]
            assert reader.scanner(count)(key(target)) == wanted
            for index, function in INDEXES.items():
                result = reader.finder(index)(function(target))
                sharing = [record for record in in_order if function(record) == function(target)]
                assert result in sharing if sharing else result is None


@given(records=st.lists(RECORDS, min_size=1, max_size=8))
def test_deleting_every_record_deletes_all_index_entries(records: list[Record]) -> None:
    spec = registry.engine("memory")
    engine = spec.opener(Path(), Tier.VOLATILE, {})
    kv = spec.ports["ordered-kv"].open(engine)
    port = LayeredRecords(kv, ENCODERS["msgpack"], indexed=True)
    port.replace(records)
    every = {key(record) for record in records}
    assert len(list(kv.seek(b""))) == 3 * len(every)
    assert port.delete([*every, *every]) == [True] * len(every) + [False] * len(every)
    assert list(kv.seek(b"")) == []


def test_two_records_may_share_an_indexed_value() -> None:
    with layered() as port:
        port.insert([{"name": "a", "location": place, "stub": ""} for place in ("X", "Y")])
        assert port.reader().finder("rev_name")("a") is not None
        port.delete([("a", "X")])
        result = port.reader().finder("rev_name")("a")
        assert result is not None and result["location"] == "Y"


def test_store_without_indexes_finds_records_only_by_key() -> None:
    with layered(indexed=False) as port:
        port.insert([{"name": "a", "location": "A", "stub": "s"}])
        assert port.reader().get(("a", "A")) is not None
        assert port.reader().finder("rev_name")("a") is None
