"""NEO: a ZODB storage on several servers. It is only declared, so that `dyno list` says why it can't run."""

from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.model import Tier
from dyno.engines.zodb import databases

WHY = "its newest release, neoppod 1.12 of 2019, runs on Python 2.7 only, and Dyno's trials run on 3.10 and later"

ENGINE = EngineSpec(
    name="neo",
    title="NEO, ZODB distributed over servers",
    opener=databases.Database,
    ports={"objects": PortSpec(databases.Objects)},
    tiers={Tier.POWER: {}},
    needs=lambda options: f"can't be run: {WHY}",
    clients="processes",
    by_default=False,
    untested=WHY,
)
