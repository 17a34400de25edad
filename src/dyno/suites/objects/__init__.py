"""Objects: how long does a transaction take that writes or reads N persistent objects, on each storage of ZODB?

Based on Shane Hathaway, RelStorage 1.0 and Measurements, 2008; and his zodbshootout, which has the same phases.
"""

from functools import partial

from dyno.contracts.declarations import defer_import
from dyno.contracts.model import Phase, Preset
from dyno.contracts.settings import Setting, choice, integer
from dyno.contracts.suite import Proof, Suite
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

# The published sizes, and the size between them.
_ALL = {"objects": (100, 1_000, 10_000)}
PRESETS = {
    "quick": Preset({"objects": 1_000}, samples=3, budget=2, timeout=120),
    "standard": Preset(_ALL, samples=5, budget=30, timeout=1_800),
    "full": Preset({**_ALL, "transactions": 50, "min_objects": 1_000_000}, samples=5, budget=300, timeout=14_400),
}

_EVERY, _RETRY = "the content of every object, in order", "and retry on a conflict"
_ATTEMPTS = ("conflicting", "committed")
_AGAIN = "afterwards, in a process of its own"
_STORE = f"{_AGAIN}: which containers exist, and the content of 100,000 objects"

_COUNTED, _REST = f"{_AGAIN}: each object was changed as often as was acknowledged", "everything else is still there"
_write = partial(Phase, unit="object", writes=True, checked=_STORE)
_read = partial(Phase, unit="object", writes=False, checked=_EVERY)

PHASES = (
    _write(
        "write", "write N objects in a container of their own, and commit", says="{figure} objects written a second"
    ),
    _read("read", "read N objects that another connection of the database wrote"),
    _write("add", "replace N objects by new ones, and commit"),
    _write(
        "update",
        "read and change N objects, and commit",
        checked=f"{_EVERY}, before; {_STORE}",
        says="{figure} objects changed a second",
    ),
    _read("read-warm", "read N objects for the first time, by a database just opened"),
    _read(
        "read-cold", "read N objects, ZODB's caches empty", says="{figure} objects read a second with empty caches"
    ),
    _read("read-cold-prefetch", "the same, prefetched together"),
    _read(
        "read-hot",
        "read N objects, the storage's cache full",
        temperature="hot",
        says="{figure} objects read a second with a full cache",
    ),
    _read("read-steamin", "read N objects that the connection has in memory", temperature="hot"),
    _read("read-device", "read N objects from the device", temperature="cold"),
    _write("conflicts", f"all clients change the same N objects, {_RETRY}", checked=_COUNTED, parts=_ATTEMPTS),
    _write("blob-write", "write blobs and commit", unit="blob"),
    _read("blob-read", "read blobs that were written", unit="blob", checked="every byte"),
    _write("pack", "remove old states and unreachable objects", unit="pack", checked=f"{_AGAIN}: {_REST}"),
)


class ObjectsSuite(Suite):
    name = "objects"
    title = "persistent objects of Python in a ZODB storage"
    ports = ("objects",)
    params = PARAMS
    presets = PRESETS
    phases = PHASES
    proof = Proof(
        "write",
        count="transactions",
        params={"objects": 1},
        history=defer_import("dyno.suites.objects.workload:ObjectsHistory"),
    )


SUITE = ObjectsSuite()
