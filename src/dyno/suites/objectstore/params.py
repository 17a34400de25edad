"""The parameters, presets, phases and charts of the suite objectstore."""

from __future__ import annotations

from dyno.contracts.model import Phase, Preset
from dyno.contracts.settings import Setting, integer
from dyno.contracts.suite import Axis, Curve

MOST_UNDER_WAY = 2_000
MOST_BYTES = 1 << 28
"""Bytes that a phase moves at most, unless a few requests already move more."""
FEW = 8
TENTHS = 10
PUT, HEAD, GET, RANGE, LIST, COPY = "put", "head", "get", "range-get", "list", "copy"
MULTIPART, VISIBLE, BURST, COLD, DELETE = "multipart-put", "visible", "burst", "get-cold", "delete"
# The number of requests of a burst is the parameter `burst`.
NOT_BURST = (PUT, HEAD, GET, RANGE, LIST, COPY, MULTIPART, VISIBLE, COLD, DELETE)

PARAMS = (
    Setting("size", integer(1, 1_000_000_000), 1_000, "bytes of an object"),
    Setting(
        "inflight",
        integer(1, MOST_UNDER_WAY),
        1,
        "requests under way at once, all from one process",
        phases=NOT_BURST,
    ),
    Setting("objects", integer(1, 10_000_000), 200, "objects in the bucket: those of `size`, and others of 1 kB"),
    Setting("targets", integer(1, 100_000), 50, "objects of `size`, which are requested"),
    Setting("prefixes", integer(1, 10_000), 1, "prefixes over which the objects are spread"),
    Setting("requests", integer(1), 500, "requests of a phase", phases=NOT_BURST),
    Setting("range", integer(1, 100), 10, "percent of an object that range-get asks for", phases=(RANGE,)),
    Setting("part", integer(1, 1_000_000_000), 5 << 20, "bytes of a part of multipart-put", phases=(MULTIPART,)),
    Setting("burst", integer(1, MOST_UNDER_WAY), 50, "requests of a burst, all at once", phases=(BURST,)),
    Setting("silence", integer(0, 3_600), 1, "seconds without a request before a burst", phases=(BURST,)),
    Setting("patience", integer(1, 3_600), 60, "seconds after which a request is an error"),
)

PRESETS = {
    "quick": Preset({"size": (1_000, 100_000), "inflight": (1, 8)}, samples=3, budget=0.5, timeout=120),
    "standard": Preset(
        {
            "size": (1_000, 100_000, 10_000_000),
            "inflight": (1, 8, 32),
            "objects": (1_000, 10_000),
            "targets": 20,
            "requests": 2_000,
            "burst": 500,
        },
        samples=3,
        budget=1,
        timeout=600,
    ),
    "full": Preset(
        {
            "size": (1_000, 100_000, 10_000_000, 1_000_000_000),
            "inflight": (1, 8, 32, 128),
            "objects": (1_000, 10_000, 100_000),
            "prefixes": (1, 100),
            "targets": 8,
            "requests": 10_000,
            "burst": 1_000,
            "silence": 30,
        },
        samples=5,
        budget=20,
        timeout=7_200,
    ),
}

PARTS = ("first-byte", "body")
TENTH = tuple(f"tenth-{at + 1}" for at in range(TENTHS))
_READ = "every body, by its size and digest"
_WRITTEN = "a sample is read back, by size and digest, and the list of all"
PHASES = (
    Phase(PUT, "new objects", "object", True, checked=_WRITTEN, metric="bandwidth"),
    Phase(HEAD, "the size of an object", "object", False, checked="every size"),
    Phase(GET, "whole objects", "object", False, checked=_READ, parts=PARTS, metric="bandwidth"),
    Phase(RANGE, "a piece of an object", "object", False, checked=_READ, parts=PARTS, metric="bandwidth"),
    Phase(LIST, "up to 1,000 names of one prefix, from a random one on", "request", False, checked="every name"),
    Phase(COPY, "an object to another name, by the store itself", "object", True, checked=_WRITTEN),
    Phase(
        MULTIPART,
        "new objects in parts: one request to open, one for each part, one to join",
        "object",
        True,
        checked=_WRITTEN,
        metric="bandwidth",
    ),
    Phase(
        VISIBLE,
        "write, read, list, overwrite, read, delete, read and list one name",
        "object",
        True,
        checked="each answer: stale ones are counted, and are not errors",
    ),
    Phase(
        BURST,
        "all requests at once after silence, each on a connection of its own",
        "object",
        False,
        checked=_READ,
        parts=TENTH,
    ),
    Phase(COLD, "whole objects, once each", "object", False, "cold", checked=_READ, parts=PARTS, metric="bandwidth"),
    Phase(DELETE, "objects that are there", "object", True, checked="none is listed afterwards"),
)

CHARTS = (
    Curve(
        name="latency-by-size",
        title="Latency by the size of an object",
        reading="The median latency of a request, against the size of the object, both by powers of ten: the median"
        " over trials, with its 95 % interval. Flat is a cost of the request, rising is a cost of its bytes.",
        x=Axis("param", "size", "bytes of an object", "bytes", "log"),
        y=Axis("metric", "p50", scale="log"),
        line="inflight",
        phases=(GET, PUT),
    ),
    Curve(
        name="bandwidth-by-concurrency",
        title="Bandwidth by requests under way",
        reading="Bytes a second, all requests together, against how many are under way at once: the median over"
        " trials, with its 95 % interval. Where a line stops rising, something is at its limit.",
        x=Axis("param", "inflight", "requests under way", "count", "log"),
        y=Axis("metric", "bandwidth", scale="log"),
        line="size",
        phases=(GET, PUT),
    ),
)
