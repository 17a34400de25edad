"""fio with its engine that does no input or output: the floor of the suite volume, what fio itself costs."""

from __future__ import annotations

from functools import partial

from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.engines.blockio import volumes

ENGINE = EngineSpec(
    name="fio_null",
    title="Nothing: fio and dd on no volume, the floor of the suite volume",
    opener=partial(volumes.Opened, null=True),
    ports={"volume": PortSpec(volumes.Volume)},
    tiers={},
    packages=("fio",),
    needs=lambda options: volumes.missing(),
    floor=True,
)
