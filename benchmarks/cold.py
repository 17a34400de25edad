"""Cold phases of a large SQLite file: how much of it was in the page cache before, and how much came from the device.

    python benchmarks/cold.py [--records N] [--engine NAME]

A run of the records suite. `asked` is the number of bytes that the engine read by system calls, from cache or device
(an engine that maps its file reads none this way). `read` is the number of bytes that the kernel fetched from the
device for the engine, readahead included. Exit status 1: over 1 % of the file was resident, or less than 90 % of
`asked` came from the device.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from dyno.cli.progress import observer
from dyno.options import RunRequest
from dyno.runner import parent, plan

MOST_PERCENT, LEAST = 1.0, 0.9
MIB = 1 << 20


def main() -> int:
    parser = argparse.ArgumentParser(description="Cold phases of a large file.")
    parser.add_argument("--records", type=int, default=1_700_000, metavar="N", help="default: 1700000, some 500 MB")
    parser.add_argument("--engine", default="sqlite", help="default: sqlite")
    args = parser.parse_args()
    run_plan = plan.make(
        RunRequest(
            "records",
            engines=[args.engine],
            params={"records": [args.records]},
            phases=["rand-key-cold", "scan-cold"],
            samples=1,
            budget=300,
            timeout=3_600,
        )
    )
    with tempfile.TemporaryDirectory(dir=".") as place, observer() as watching:
        work = Path(place).absolute()
        run = parent.execute(run_plan, work / "run.json", work, watching, resume=False, overwrite=False)
    good = True
    for attempt in run.final():
        for sample in attempt.samples:
            if run.cells[attempt.cell].floor:
                continue
            client, device = sample.client or {}, sample.device or {}
            assert sample.residency is not None
            size = sample.residency["file_bytes"]
            resident = sample.residency["resident_bytes"]
            assert resident is not None
            wanted, read = client["asked_bytes"] or 0, client["read_bytes"] or 0
            print(f"{args.engine}, {sample.phase}: {sample.operations:,} operations, {sample.temperature}")
            print(f"  files            {size / MIB:>10.1f} MiB, {resident / size * 100:.2f} % resident before")
            print(f"  asked            {wanted / MIB:>10.1f} MiB")
            print(f"  read             {read / MIB:>10.1f} MiB", end="")
            print(f", {read / wanted * 100:.0f} % of what was asked for" if wanted else "")
            print(f"  read, by anybody {(device['read_bytes'] or 0) / MIB:>10.1f} MiB")
            good = good and resident <= size * MOST_PERCENT / 100 and read >= LEAST * wanted
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
