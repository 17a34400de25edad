"""Null engines, which store nothing and answer nothing. Their figure is the cost of the harness itself; that of
`nullkv` also has the cost of the record layer over the port `ordered-kv`."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TypeVar

from dyno.contracts.engine import Engine, EngineSpec, PortSpec
from dyno.contracts.model import Caveat, Tier, Value
from dyno.suites._shared.ordered_kv import Entry, KVReader, KVWriter, OrderedKV
from dyno.suites.arrays.port import Chunk
from dyno.suites.http import RequestOptions, Target
from dyno.suites.records.port import Key, Record
from dyno.suites.series.port import Buckets, SampleBatch, Samples

AWAKE_NS = 200_000
"""The last part of a wait. A sleep wakes up late, so the caller polls the clock during this time."""


class Null(Engine):
    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        pass

    def version(self) -> str:
        return "does nothing"

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("floor", "does nothing: the harness's own cost, which is inside every other figure")


T = TypeVar("T")


def do_nothing(self: object, argument: object = None) -> None:
    """Method that does nothing."""


def return_self(self: T, argument: object = None) -> T:
    """Method that returns the port, which also acts as its reader, requester, column and frame."""
    return self


class NullPort:
    """Base of the null engine's ports, which takes any arguments."""

    def __init__(self, engine: Null, *arguments: object) -> None:
        pass

    close = do_nothing


class Synthetic(NullPort):
    """The `synthetic` port: an operation returns the number without the work."""

    def operation(self) -> Callable[[int], int]:
        return int


class Records(NullPort):
    """The `records` port: accepts every record and stores none."""

    reader, get = return_self, do_nothing

    def reading(self) -> AbstractContextManager[Records]:
        return nullcontext(self)

    def get_many(self, keys: Sequence[Key]) -> list[Record | None]:
        return []

    def finder(self, index: str) -> Callable[[str], Record | None]:
        return lambda value: None

    def scanner(self, count: int) -> Callable[[Key], list[Record]]:
        return lambda key: []

    def insert(self, records: Iterable[Record]) -> None:
        deque(records, maxlen=0)

    def replace(self, records: Iterable[Record]) -> list[Record | None]:
        return [None for _ in records]

    def delete(self, keys: Iterable[Key]) -> list[bool]:
        return [False for _ in keys]


class Objects(NullPort):
    """The `objects` port, without a database."""

    database, forget = None, do_nothing


class Arrays(NullPort):
    """The ports `arrays` and `ndarrays`: accept every chunk and store none."""

    frame = return_self
    __getitem__ = return_self
    update = do_nothing
    write = do_nothing
    read = do_nothing

    def writing(self, rows: int) -> AbstractContextManager[Callable[[Chunk], None]]:
        return nullcontext(lambda chunk: None)

    def sum(self, column: str = "") -> float:
        return 0.0

    def stats(self, columns: Sequence[str]) -> list[tuple[float, float]]:
        return []

    def slice(self, rows: range) -> Chunk:
        return {}


class Compute(NullPort):
    """The `compute` port: its operations do nothing."""

    load, threads = do_nothing, do_nothing

    def operation(self, name: str) -> Callable[[object], object]:
        return bool


class Series(NullPort):
    """The `series` port: accepts every sample and stores none."""

    insert, settle = do_nothing, do_nothing

    def __init__(self, engine: Null, names: Sequence[str]) -> None:
        self._samples = Samples((), (), (), ())

    def seen(self, pv: int, ts: int) -> bool:
        return True

    def one(self, pv: int, start: int = 0, end: int = 0) -> Samples:
        return self._samples

    window = one

    def all(self) -> Iterator[SampleBatch]:
        return iter(())

    def latest(self) -> SampleBatch:
        return SampleBatch((), (), (), (), ())

    def downsample(self, pv: int, start: int, end: int, bucket: int) -> Buckets:
        return Buckets((), (), (), ())


class Sql(NullPort):
    """The `sql` port: its tables are empty."""

    define, rollback = do_nothing, do_nothing

    def load(self, table: str, columns: Mapping[str, Sequence[object]]) -> None:
        pass

    def statement(self, pieces: Sequence[str], named: bool = False) -> Callable[[Sequence[object]], object]:
        rows: list[tuple[object, ...]] = []
        if named:
            return lambda values: ([], rows)
        return lambda values: rows

    def aborted(self, error: Exception) -> bool:
        return False


class Requests(NullPort):
    """The `requests` port: sends nothing and returns every response at once."""

    def __init__(self, engine: Null, options: RequestOptions) -> None:
        self.codes = dict[int, int]()
        self._begun: list[tuple[int, None]] = []

    def publish(self, bodies: Sequence[bytes]) -> Sequence[Target]:
        return (Target("http://127.0.0.1/", None, None),)

    def asking(self, places: int, fresh: bool, library: bool = False) -> Requests:
        return self

    def begin(self, place: int, argument: object) -> None:
        self._begun.append((place, None))

    def ended(self, wait_ns: int) -> Sequence[tuple[int, None]]:
        if not self._begun and wait_ns > AWAKE_NS:
            time.sleep((wait_ns - AWAKE_NS) / 1e9)
        done, self._begun = self._begun, []
        return done


class Bucket(Requests):
    def __init__(self, engine: Null, large: bool, patience: float) -> None:
        self._begun = []


NULL = EngineSpec(
    name="null",
    title="Nothing: the floor, what the harness itself costs",
    opener=Null,
    ports={
        "arrays": PortSpec(Arrays),
        "bucket": PortSpec(Bucket, clients="one"),
        "compute": PortSpec(Compute, tiers={}),
        "ndarrays": PortSpec(Arrays),
        "objects": PortSpec(Objects),
        "records": PortSpec(Records),
        # A single process has all requests in flight.
        "requests": PortSpec(Requests, tiers={}, clients="one"),
        "series": PortSpec(Series),
        "sql": PortSpec(Sql),
        "synthetic": PortSpec(Synthetic, tiers={}),
    },
    tiers={Tier.VOLATILE: {}, Tier.PROCESS: {}, Tier.POWER: {}},
    default_tier=Tier.VOLATILE,
    clients="turns",
    floor=True,
)


class NullKV(Null):
    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("floor", "does nothing under the record layer: the harness's cost and the layer's")


class Keys(NullPort, OrderedKV, KVReader, KVWriter):
    """The `ordered-kv` port, with its reader and writer: accepts every entry and stores none. It returns no values,
    so the cost of decoding records is not included."""

    get = do_nothing  # type: ignore[assignment]
    delete = do_nothing  # type: ignore[assignment]
    first = do_nothing  # type: ignore[assignment]

    def put(self, key: bytes, value: bytes) -> None:
        pass

    def seek(self, key: bytes) -> Iterator[Entry]:
        return iter(())

    def stretch(self, key: bytes, count: int) -> list[Entry]:
        return []

    def reading(self) -> AbstractContextManager[Keys]:
        return nullcontext(self)

    single = writing = reading


NULLKV = EngineSpec(
    name="nullkv",
    title="Nothing, under the record layer: what the layer costs a key-value engine",
    opener=NullKV,
    ports={"ordered-kv": PortSpec(Keys)},
    tiers={Tier.VOLATILE: {}, Tier.PROCESS: {}, Tier.POWER: {}},
    default_tier=Tier.VOLATILE,
    clients="turns",
    floor=True,
)
