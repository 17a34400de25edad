"""NEO: ZODB's storage over several servers. Declared, so that who looks for it reads why it is not run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dyno.contracts.engine import Engine, EngineSpec, PortSpec
from dyno.contracts.model import Refused, Tier, Value
from dyno.engines.zodb import databases

WHY = "its newest release, neoppod 1.12 of 2019, runs on Python 2.7 only, and Dyno's trials run on 3.10 and later"


def refused(home: Path, tier: Tier, options: Mapping[str, Value]) -> Engine:
    raise Refused(f"can't be run: {WHY}")


def _needs(options: Mapping[str, Value]) -> str:
    return f"can't be run: {WHY}"


ENGINE = EngineSpec(
    name="neo",
    title="NEO, ZODB distributed over servers",
    opener=refused,
    ports={"objects": PortSpec(databases.Objects)},
    tiers={Tier.POWER: {}},
    default_tier=Tier.POWER,
    needs=_needs,
    clients="processes",
    by_default=False,
    untested=WHY,
)
