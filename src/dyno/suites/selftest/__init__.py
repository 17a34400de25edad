"""Self-test: operations with a configurable cost, for `dyno selftest` and for trying out Dyno itself.

Nothing is stored. Every operation gets a number and returns it, so that each answer can be checked.
"""

from types import MappingProxyType

from dyno.contracts.model import Phase, Preset
from dyno.contracts.settings import Setting, integer
from dyno.contracts.suite import Suite


class SelftestSuite(Suite):
    name = "selftest"
    title = "operations that cost what they are told to: for trying out the harness itself"
    ports = ("synthetic",)
    params = (
        Setting("operations", integer(1), 20_000, "operations of a round"),
        Setting("work", integer(0), 300, "units of work in each operation: about 10 ns each"),
    )
    presets = MappingProxyType(
        {
            "quick": Preset({}, samples=3, budget=5, timeout=60, until=None),
            "standard": Preset({"operations": 200_000}, samples=5, budget=20, timeout=300, until=None),
            "full": Preset({"operations": 2_000_000}, samples=10, budget=60, timeout=1_800, until=None),
        }
    )
    phases = (Phase("work", "operations of the same cost", "op", False, checked="every answer"),)


SUITE = SelftestSuite()
