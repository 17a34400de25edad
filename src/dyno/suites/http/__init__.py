"""HTTP: how long do the parts of a request take, with one or many requests in flight?"""

from __future__ import annotations

from types import MappingProxyType

from dyno.contracts.model import Phase, Preset
from dyno.contracts.settings import Setting, choice, integer
from dyno.contracts.suite import Suite
from dyno.http.stages import STAGES

KEPT, FRESH = "kept", "fresh"
_CHECKED = "status, and every body by its size and digest"


class HttpSuite(Suite):
    name = "http"
    title = "HTTP requests, one or many under way at once, part by part"
    ports = ("requests",)
    engines = ("nginx",)
    params = (
        Setting("inflight", integer(1, 10_000), 1, "requests in flight at once, all from one process"),
        Setting("body", integer(0, 1_000_000_000), 1_000, "bytes of each body, on a server of Dyno's own"),
        Setting("targets", integer(1, 10_000), 8, "files to request in random order, on a server of Dyno's own"),
        Setting("requests", integer(1), 20_000, "requests of a phase"),
        Setting("protocol", choice("1.1", "2"), "1.1", "version of HTTP"),
        Setting("patience", integer(1, 3_600), 60, "seconds after which a request is an error"),
        Setting(
            "bodies", choice("same", "any"), "same", "on your own server: whether an address always has the same body"
        ),
    )
    presets = MappingProxyType(
        {
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
    )
    phases = (
        Phase(KEPT, "GET, on connections that are there", "request", False, checked=_CHECKED, parts=STAGES),
        Phase(FRESH, "GET, each on a connection of its own", "request", False, checked=_CHECKED, parts=STAGES),
    )


SUITE = HttpSuite()
