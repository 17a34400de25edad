"""Records: how fast does a Python application store, index, find and change small records?

Based on David Wilson, acid (its performance page and examples/benchy.py), 2013. Mixed workloads are based on Cooper
et al., Benchmarking Cloud Serving Systems with YCSB, 2010.
"""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from dyno.contracts.declarations import defer_import
from dyno.contracts.model import Phase, Preset, Value
from dyno.contracts.roles import NativeSuite, RemoteSuite
from dyno.contracts.settings import MOST_COUNT, Setting, choice, integer
from dyno.contracts.suite import Proof, Suite
from dyno.suites.records.port import VERSION_DIGITS

SCAN_LENGTH = 100
"""Number of records in each scan, and in the longest one of a mix: the maximum of YCSB's workload E."""
THETA = 0.99
"""YCSB's exponent of the zipfian distribution."""

# Kinds of operations in a mix, and whether each of them writes.
KINDS = {"get": False, "scan": False, "update": True, "modify": True, "insert": True}


class Mix(NamedTuple):
    """A mixed workload: the percentage of each kind of operation, the key distribution, and the length of the
    shortest scan. Lengths are uniform up to SCAN_LENGTH."""

    percent: Mapping[str, int]
    distribution: str
    shortest_scan: int = SCAN_LENGTH


# Cooper et al., Benchmarking Cloud Serving Systems with YCSB, 2010, table 2.
YCSB = {
    "a": Mix({"get": 50, "update": 50}, "zipfian"),
    "b": Mix({"get": 95, "update": 5}, "zipfian"),
    "c": Mix({"get": 100}, "zipfian"),
    "d": Mix({"get": 95, "insert": 5}, "latest"),
    "e": Mix({"scan": 95, "insert": 5}, "zipfian"),
    "f": Mix({"get": 50, "modify": 50}, "zipfian"),
}


def mix_of(text: str) -> Mix:
    """Parses the parameter `mix`: a YCSB letter; reads:updates in percent, as 80:20; or the percentage of each kind,
    as get:70+update:30. Raises ValueError."""
    if text in YCSB:
        return YCSB[text]
    parts = [part.partition(":") for part in text.split("+")]
    if len(parts) == 1 and parts[0][0] not in KINDS:
        ((reads, _, updates),) = parts
        parts = [("get", ":", reads), ("update", ":", updates)]
        distribution, shortest = "zipfian", SCAN_LENGTH
    else:
        distribution, shortest = f"zipfian:{THETA}", 1
    percent = {kind: int(number) for kind, _, number in parts if number.isdecimal()}
    if len(percent) == len(parts) and percent.keys() <= KINDS.keys() and sum(percent.values()) == 100:
        return Mix(percent, distribution, shortest)
    raise ValueError(
        "expected a to f (YCSB's workloads), reads:updates that add up to 100, as 80:20, or percentages of"
        f" {', '.join(KINDS)} that add up to 100, as get:70+update:20+scan:5+insert:5"
    )


def _mix(text: str) -> Value:
    mix = mix_of(text)
    if text.partition(":")[0] in KINDS:
        return _mix_text(mix)
    return text


def _mix_text(mix: Mix) -> str:
    """Returns the percentages of the kinds, in a fixed order, since the inputs depend on it."""
    return "+".join(f"{kind}:{mix.percent[kind]}" for kind in KINDS if mix.percent.get(kind))


def distribution_of(text: str) -> tuple[str, tuple[float, ...]]:
    """Parses a key distribution: its name, and its numbers, which are theta, or the percentages of hot records and of
    their operations. Raises ValueError."""
    name, *texts = text.split(":")
    try:
        numbers = tuple(map(float, texts))
    except ValueError:
        numbers = (0.0,)
    counts = {"uniform": (0,), "zipfian": (0, 1), "latest": (0, 1), "hotspot": (2,)}.get(name, ())
    if len(numbers) in counts and all(0 < number <= (100 if name == "hotspot" else 10) for number in numbers):
        return name, numbers
    raise ValueError(
        "expected mix, uniform, zipfian or latest (or with theta, up to 10: zipfian:0.99), or"
        " hotspot:RECORDS:OPERATIONS in percent (hotspot:20:80)"
    )


def _distribution(text: str) -> Value:
    if text == "mix":
        return text
    name, numbers = distribution_of(text)
    return ":".join([name, *(f"{number:g}" for number in numbers)])


def _or_all(text: str) -> Value:
    try:
        if text == "all":
            return text
        return integer(1)(text)
    except ValueError:
        raise ValueError(f"expected a whole number from 1 to {MOST_COUNT}, or all") from None


INSERTS = ("insert-blind-noindices", "insert-blind-indices", "insert-noblind-noindices", "insert-noblind-indices")
SINGLE_READS = ("rand-key", "rand-index", "rand-key-cold")
READS = (*SINGLE_READS, "scan", "scan-cold")
NOT_MIXED = (*INSERTS, *READS, "update", "delete")
# Phases that draw their keys from `distribution`, or from the distribution of `mix`.
DRAWN = ("update", "mixed")

_drawn = partial(Setting, phases=DRAWN)
_OPERATIONS = "operations of update, delete and mixed; all is one per record"

PARAMS = (
    Setting("records", integer(1), 235_886, "records in the collection"),
    Setting("value_size", integer(VERSION_DIGITS + 1), 150, "characters in a record's stub"),
    Setting("encoder", choice("msgpack", "json", "raw"), "msgpack", "how a key-value engine's records become bytes"),
    Setting("txn", _or_all, "all", "operations in a transaction, 1 to all; mixed always uses 1", phases=NOT_MIXED),
    Setting("batch", integer(1, 10_000), 1, "keys per operation of rand-key", phases=("rand-key", "rand-key-cold")),
    _drawn("mix", _mix, "a", "operations of the mixed phase"),
    _drawn("distribution", _distribution, "mix", "keys of update and mixed; mix: the distribution of the mix"),
    Setting("operations", _or_all, "all", _OPERATIONS, phases=(*DRAWN, "delete")),
)

_MAIN_STEPS = ("insert-noblind-indices", "rand-key", "scan", "rand-key-cold", "update")
"""The main steps in the life of a store."""
_FULL = {"records": 10_000_000, "txn": 10_000, "operations": 1_000_000}
# YCSB's ten fields of 100 bytes are one value here.
_YCSB = {"records": 1_000_000, "value_size": 1_000, "txn": 1_000}
PRESETS = {
    "quick": Preset({"records": 20_000}, 3, budget=0.3, timeout=120, phases=_MAIN_STEPS),
    "standard": Preset({"records": 235_886}, samples=5, budget=20, timeout=1_800),
    "full": Preset(_FULL, samples=3, budget=900, timeout=36_000),
    **{
        f"ycsb-{letter}": Preset(
            {**_YCSB, "mix": _mix_text(mix), "distribution": f"{mix.distribution}:{THETA}"},
            samples=3,
            budget=30,
            timeout=3_600,
            phases=("insert-blind-indices", "mixed"),
        )
        for letter, mix in YCSB.items()
    },
}

KEYS_PER_RECORD = MappingProxyType(dict(zip(INSERTS, (1, 3, 1, 3), strict=True)))


def _insert(name: str, title: str, alias: str) -> Phase:
    count = KEYS_PER_RECORD[name]
    noun = "keys" if count > 1 else "key"
    return Phase(
        name,
        f"{title}; {count} {noun} a record",
        unit="key",
        writes=True,
        checked="every record read back in key order, in a row's first trial; a sample by key and by index",
        alias=alias,
        one_call=ONE_CALL,
        says="{figure} keys inserted a second",
    )


_STRETCHES = "every record, their order and number"
SCANS = 1 / 20
"""Number of scans for each record. Every record is read five times."""
# Fractions of the records for cold phases. Reading warms a cold cache, so these phases read only one page in ten and
# one record in twenty.
COLD_KEYS, COLD_SCANS = 1 / 100, 1 / 2_000

# With all records in one transaction, all writes are part of one call.
ONE_CALL = "txn=all"

_GETS, _SCANS = "{figure} gets a second, p99 {p99}", f"{{figure}} scans of {SCAN_LENGTH} records a second"
_REMAINING = "every answer; in a row's first trial, the remaining records"
_read = partial(Phase, unit="op", writes=False, temperature="hot", checked="every record")
_write = partial(Phase, unit="op", writes=True)

PHASES = (
    _insert("insert-blind-noindices", "insert all records, without indexes, without looking first", "load"),
    _insert("insert-blind-indices", "insert all records with two indexes, without looking first", "load-indexed"),
    _insert(
        "insert-noblind-noindices", "insert all records, without indexes, observing the old value", "insert-plain"
    ),
    _insert("insert-noblind-indices", "insert all records with two indexes, observing the old value", "insert"),
    _read("rand-key", "get every record by its key, in random order", alias="get", says=_GETS),
    _read(
        "rand-index",
        "find every record by an index, in random order",
        alias="find",
        says="{figure} records found by an index a second",
    ),
    _read("scan", f"read {SCAN_LENGTH} records in key order from a random one on", checked=_STRETCHES, says=_SCANS),
    _read("rand-key-cold", "rand-key of few records, from the device", temperature="cold", alias="get-cold"),
    _read("scan-cold", "scan from few places, from the device", temperature="cold", checked=_STRETCHES),
    _write(
        "update",
        "replace records, observing each old one",
        checked="every old record",
        one_call=ONE_CALL,
        says="{figure} records replaced a second",
    ),
    _write(
        "mixed",
        "reads and writes, each its own transaction",
        checked="every answer, in order",
        kinds=KINDS,
        says="{figure} operations of the mix a second, p99 {p99}",
    ),
    _write("delete", "delete records and their index entries", checked=_REMAINING, one_call=ONE_CALL),
)


class RecordsSuite(Suite, NativeSuite, RemoteSuite):
    name = "records"
    title = "indexed records in a key-value, SQL or document store"
    ports = ("records", "ordered-kv")
    params = PARAMS
    presets = PRESETS
    phases = PHASES

    def can_load_natively(self, phase: str, params: Mapping[str, Value]) -> bool:
        """Returns whether each operation of the phase is a single statement or command, which excludes scans: some
        servers need two requests for a scan."""
        if phase == "mixed":
            return "scan" not in mix_of(str(params["mix"])).percent
        if phase in SINGLE_READS:
            return str(params["txn"]) in ("1", "all") and (phase == "rand-index" or params["batch"] == 1)
        return phase not in READS and str(params["txn"]) == "1"

    proof = Proof(
        "insert-blind-noindices",
        count="records",
        params={"txn": 1},
        history=defer_import("dyno.suites.records.workload:RecordsHistory"),
    )


SUITE = RecordsSuite()
