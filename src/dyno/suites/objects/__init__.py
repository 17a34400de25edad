"""Objects: how long does a transaction take that writes or reads N persistent objects, on each storage of ZODB?

Based on Shane Hathaway, RelStorage 1.0 and Measurements, 2008; and his zodbshootout, which has the same phases.
"""

from __future__ import annotations

from dyno.contracts.declarations import deferred
from dyno.contracts.model import Phase, Preset
from dyno.contracts.settings import Setting, choice, integer
from dyno.contracts.suite import Axis, Curve, Proof, Suite
from dyno.suites.objects.transactions import HEAD_BYTES

CONTAINERS = ("mapping", "btree")

BLOBS = ("blob-write", "blob-read")

PARAMS = (
    Setting("objects", integer(1, 1_000_000), 1_000, "objects of a transaction"),
    Setting("object_size", integer(HEAD_BYTES, 1 << 20), 128, "bytes that an object holds"),
    Setting("transactions", integer(1, 100_000), 10, "transactions of a phase, of each client"),
    Setting("container", choice(*CONTAINERS), CONTAINERS[0], "what holds the objects: PersistentMapping, or IOBTree"),
    Setting("min_objects", integer(0), 0, "other objects in the database, at least"),
    Setting("blobs", integer(1, 1_000), 1, "blobs of a transaction", phases=BLOBS),
    Setting("blob_size", integer(HEAD_BYTES, 1 << 30), 1 << 20, "bytes of a blob", phases=BLOBS),
)

PRESETS = {
    "quick": Preset({"objects": 1_000}, samples=3, budget=2, timeout=120),
    # The published sizes, and the size between them.
    "standard": Preset({"objects": (100, 1_000, 10_000)}, samples=5, budget=30, timeout=1_800),
    "full": Preset(
        {"objects": (100, 1_000, 10_000), "transactions": 50, "min_objects": 1_000_000},
        samples=5,
        budget=300,
        timeout=14_400,
    ),
}

_EVERY = "the content of every object, in order"
_STORE = "afterwards, in a process of its own: which objects exist, and the content of each"

PHASES = (
    Phase("write", "write N objects in a container of their own, and commit", "object", True, checked=_STORE),
    Phase("read", "read N objects that another connection of the database wrote", "object", False, checked=_EVERY),
    Phase("add", "replace N objects by new ones, and commit", "object", True, checked=_STORE),
    Phase("update", "read and change N objects, and commit", "object", True, checked=f"{_EVERY}, before; {_STORE}"),
    Phase(
        "read-warm", "read N objects for the first time, by a database just opened", "object", False, checked=_EVERY
    ),
    Phase("read-cold", "read N objects, ZODB's caches empty", "object", False, checked=_EVERY),
    Phase("read-cold-prefetch", "the same, prefetched together", "object", False, checked=_EVERY),
    Phase("read-hot", "read N objects, the storage's cache full", "object", False, "hot", checked=_EVERY),
    Phase("read-steamin", "read N objects that the connection has in memory", "object", False, "hot", checked=_EVERY),
    Phase("read-device", "read N objects from the device", "object", False, "cold", checked=_EVERY),
    Phase(
        "conflicts",
        "all clients change the same N objects, and retry on a conflict",
        "object",
        True,
        checked="afterwards, in a process of its own: each object was changed as often as was acknowledged",
        parts=("conflicting", "committed"),
    ),
    Phase("blob-write", "write blobs and commit", "blob", True, checked=_STORE),
    Phase("blob-read", "read blobs that were written", "blob", False, checked="every byte"),
    Phase(
        "pack",
        "remove old states and unreachable objects",
        "pack",
        True,
        checked="afterwards, in a process of its own: everything else is still there",
    ),
)

TRANSACTION = Curve(
    name="transaction",
    title="Time of a transaction by clients",
    reading="How long a transaction takes as the number of clients grows: the median latency of each trial, of these"
    " the median, with its 95 % interval. Down is faster. Where a line stays level, no client waits for another.",
    x=Axis("param", "clients", "clients"),
    y=Axis("metric", "p50"),
)


class ObjectsSuite(Suite):
    name = "objects"
    title = "persistent objects of Python in a ZODB storage"
    ports = ("objects",)
    params, presets, phases = PARAMS, PRESETS, PHASES
    charts = (TRANSACTION,)
    proof = Proof(
        "write",
        count="transactions",
        params={"objects": 1},
        history=deferred("dyno.suites.objects.workload:ObjectsHistory"),
    )


SUITE = ObjectsSuite()
