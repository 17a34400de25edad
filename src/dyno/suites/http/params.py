"""The parameters, presets and phases of the suite http."""

from __future__ import annotations

from dyno.contracts.model import Phase, Preset
from dyno.contracts.settings import Setting, choice, integer
from dyno.http.stages import STAGES

MOST_UNDER_WAY = 10_000
PARAMS = (
    Setting("inflight", integer(1, MOST_UNDER_WAY), 1, "requests under way at once, all from one process"),
    Setting("body", integer(0, 1_000_000_000), 1_000, "bytes of each body, of a server of Dyno's own"),
    Setting("targets", integer(1, 10_000), 8, "files that are asked for in random order, of a server of Dyno's own"),
    Setting("requests", integer(1), 20_000, "requests of a phase"),
    Setting("protocol", choice("1.1", "2"), "1.1", "version of HTTP"),
    Setting("patience", integer(1, 3_600), 60, "seconds after which a request is an error"),
    Setting(
        "bodies", choice("same", "any"), "same", "of your own server: whether an address always has the same body"
    ),
)

PRESETS = {
    "quick": Preset({"inflight": (1, 8, 64), "requests": 10_000}, samples=3, budget=2, timeout=120),
    "standard": Preset(
        {"inflight": (1, 8, 64, 512), "body": (1_000, 100_000), "requests": 100_000},
        samples=5,
        budget=20,
        timeout=600,
    ),
    "full": Preset(
        {
            "inflight": (1, 8, 64, 512, 10_000),
            "body": (1_000, 100_000, 10_000_000, 100_000_000),
            "targets": 2,
            "requests": 1_000_000,
        },
        samples=10,
        budget=60,
        timeout=3_600,
    ),
}

KEPT, FRESH = "kept", "fresh"
_CHECKED = "status, and every body by its size and digest"
PHASES = (
    Phase(KEPT, "GET, on connections that are there", "request", False, checked=_CHECKED, parts=STAGES),
    Phase(FRESH, "GET, each on a connection of its own", "request", False, checked=_CHECKED, parts=STAGES),
)
