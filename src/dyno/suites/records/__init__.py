"""Records: how fast does a Python application store, index, find and change small records?

Based on David Wilson, acid (its performance page and examples/benchy.py), 2013. Mixed workloads are based on Cooper
et al., Benchmarking Cloud Serving Systems with YCSB, 2010.
"""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from dyno.contracts.declarations import deferred
from dyno.contracts.model import Phase, Preset, Value
from dyno.contracts.settings import MOST_COUNT, Setting, choice, integer
from dyno.contracts.suite import Proof, Suite
from dyno.suites.records.port import VERSION_DIGITS

SCAN_LENGTH = 100
"""Number of records in each scan: the maximum of YCSB's workload E."""


class Mix(NamedTuple):
    """A mixed workload: the fraction of reads, the kind of read, the kind of write, and the key distribution."""

    reads: float
    read: str  # "get" or "scan"
    write: str  # "update", "insert" or "modify"
    distribution: str


# Cooper et al., Benchmarking Cloud Serving Systems with YCSB, 2010, table 2.
YCSB = {
    "a": Mix(0.5, "get", "update", "zipfian"),
    "b": Mix(0.95, "get", "update", "zipfian"),
    "c": Mix(1.0, "get", "update", "zipfian"),
    "d": Mix(0.95, "get", "insert", "latest"),
    "e": Mix(0.95, "scan", "insert", "zipfian"),
    "f": Mix(0.5, "get", "modify", "zipfian"),
}


def mix_of(text: str) -> Mix:
    """Parses the parameter `mix`: a YCSB letter, or reads:updates in percent, as 80:20. Raises ValueError."""
    if text in YCSB:
        return YCSB[text]
    reads, colon, updates = text.partition(":")
    if colon and reads.isdigit() and updates.isdigit() and int(reads) + int(updates) == 100:
        return Mix(int(reads) / 100, "get", "update", "zipfian")
    raise ValueError("expected a to f (YCSB's workloads), or reads:updates that add up to 100, as 80:20")


def _mix(text: str) -> Value:
    mix_of(text)
    return text


def _or_all(text: str) -> Value:
    try:
        return text if text == "all" else integer(1)(text)
    except ValueError:
        raise ValueError(f"expected a whole number from 1 to {MOST_COUNT}, or all") from None


INSERTS = ("insert-blind-noindices", "insert-blind-indices", "insert-noblind-noindices", "insert-noblind-indices")
SINGLE_READS = ("rand-key", "rand-index", "rand-key-cold")
READS = (*SINGLE_READS, "scan", "scan-cold")
NOT_MIXED = (*INSERTS, *READS, "update", "delete")
# Phases that draw their keys from `distribution`, or from the distribution of `mix`.
DRAWN = ("update", "mixed")

_drawn = partial(Setting, phases=DRAWN)
_distribution = choice("mix", "uniform", "zipfian", "latest")
_OPERATIONS = "operations of update, delete and mixed; all is one per record"

PARAMS = (
    Setting("records", integer(1), 235_886, "records in the collection"),
    Setting("value_size", integer(VERSION_DIGITS + 1), 150, "characters in a record's stub"),
    Setting("encoder", choice("msgpack", "json", "raw"), "msgpack", "how a key-value engine's records become bytes"),
    Setting("txn", _or_all, "all", "operations in a transaction, 1 to all; mixed always uses 1", phases=NOT_MIXED),
    Setting("batch", integer(1, 10_000), 1, "keys per operation of rand-key", phases=("rand-key", "rand-key-cold")),
    _drawn("mix", _mix, "a", "the mixed phase: YCSB's a to f, or reads:updates in percent, as 80:20"),
    _drawn("distribution", _distribution, "mix", "keys of update and mixed; mix: the distribution of the mix"),
    Setting("operations", _or_all, "all", _OPERATIONS, phases=(*DRAWN, "delete")),
)

_MAIN_STEPS = ("insert-noblind-indices", "rand-key", "scan", "rand-key-cold", "update")
"""The main steps in the life of a store."""
_FULL = {"records": 10_000_000, "txn": 10_000, "operations": 1_000_000}
PRESETS = {
    # Samples are added until a verdict is possible, but for at most a minute.
    "quick": Preset({"records": 20_000}, 3, budget=0.3, timeout=120, phases=_MAIN_STEPS, until="10%", within=60),
    "standard": Preset({"records": 235_886}, samples=5, budget=20, timeout=1_800),
    "full": Preset(_FULL, samples=3, budget=900, timeout=36_000),
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
        checked="every record read back in key order, and a sample by key and by index",
        alias=alias,
        one_call=ONE_CALL,
    )


# Kinds of operations in a mix, and whether each of them writes.
KINDS = {"get": False, "scan": False, "update": True, "modify": True, "insert": True}
_STRETCHES = "every record, their order and number"
SCANS = 1 / 20
"""Number of scans for each record. Every record is read five times."""
# Fractions of the records for cold phases. Reading warms a cold cache, so these phases read only one page in ten and
# one record in twenty.
COLD_KEYS, COLD_SCANS = 1 / 100, 1 / 2_000

# With all records in one transaction, all writes are part of one call.
ONE_CALL = "txn=all"

_REMAINING = "every answer, then the remaining records"
_read = partial(Phase, unit="op", writes=False, temperature="hot", checked="every record")
_write = partial(Phase, unit="op", writes=True)

PHASES = (
    _insert("insert-blind-noindices", "insert all records, without indexes, without looking first", "load"),
    _insert("insert-blind-indices", "insert all records with two indexes, without looking first", "load-indexed"),
    _insert(
        "insert-noblind-noindices", "insert all records, without indexes, observing the old value", "insert-plain"
    ),
    _insert("insert-noblind-indices", "insert all records with two indexes, observing the old value", "insert"),
    _read("rand-key", "get every record by its key, in random order", alias="get"),
    _read("rand-index", "find every record by an index, in random order", alias="find"),
    _read("scan", f"read {SCAN_LENGTH} records in key order from a random one on", checked=_STRETCHES),
    _read("rand-key-cold", "rand-key of few records, from the device", temperature="cold", alias="get-cold"),
    _read("scan-cold", "scan from few places, from the device", temperature="cold", checked=_STRETCHES),
    _write("update", "replace records, observing each old one", checked="every old record", one_call=ONE_CALL),
    _write("mixed", "reads and writes, each its own transaction", checked="every answer, in order", kinds=KINDS),
    _write("delete", "delete records and their index entries", checked=_REMAINING, one_call=ONE_CALL),
)


class RecordsSuite(Suite):
    name = "records"
    title = "indexed records in a key-value, SQL or document store"
    ports = ("records", "ordered-kv")
    params, presets, phases = PARAMS, PRESETS, PHASES
    native = True

    def natively(self, phase: str, params: Mapping[str, Value]) -> bool:
        """Returns whether each operation of the phase is a single statement or command, which excludes scans: some
        servers need two requests for a scan."""
        if phase == "mixed":
            return mix_of(str(params["mix"])).read != "scan"
        if phase in SINGLE_READS:
            return str(params["txn"]) in ("1", "all") and (phase == "rand-index" or params["batch"] == 1)
        return phase not in READS and str(params["txn"]) == "1"

    proof = Proof(
        "insert-blind-noindices",
        count="records",
        params={"txn": 1},
        history=deferred("dyno.suites.records.workload:RecordsHistory"),
    )


SUITE = RecordsSuite()
