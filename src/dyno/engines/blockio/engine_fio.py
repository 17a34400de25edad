"""fio: reads and writes of a file in the trial's directory, or of a block device that the user gives up."""

from __future__ import annotations

from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.settings import Setting, boolean, choice
from dyno.engines.blockio import volumes

ENGINE = EngineSpec(
    name="fio",
    title="fio, the flexible I/O tester, on a file or a device",
    opener=volumes.Fio,
    ports={"volume": PortSpec(volumes.Volume)},
    tiers={},
    packages=("fio",),
    options=(
        Setting("ioengine", choice("libaio", "io_uring", *volumes.SYNCHRONOUS), "libaio", "how fio asks the kernel"),
        Setting("direct", boolean, True, "past the page cache (O_DIRECT)"),
        Setting("destroy", str, "", "a block device to use; all its data will be destroyed", hold=volumes.hold),
    ),
    needs=volumes.needs,
)
