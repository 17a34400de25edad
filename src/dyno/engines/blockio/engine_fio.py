"""fio: a file in the trial's directory, or a device that the user gives up, read and written."""

from __future__ import annotations

from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.settings import Setting, boolean, choice
from dyno.engines.blockio import volumes

ENGINE = EngineSpec(
    name="fio",
    title="fio, the flexible I/O tester, on a file or a device",
    opener=volumes.Opened,
    ports={"volume": PortSpec(volumes.Volume)},
    tiers={},
    packages=("fio",),
    options=(
        Setting("ioengine", choice("libaio", "io_uring", *volumes.WAITING), "libaio", "how fio asks the kernel"),
        Setting("direct", boolean, True, "past the page cache (O_DIRECT)"),
        Setting(
            "destroy",
            str,
            "",
            "a block device, all of whose data will be destroyed, in place of a file",
            hold=volumes.hold,
        ),
    ),
    needs=lambda options: volumes.missing(),
)
