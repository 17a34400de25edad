"""The clock of the processors now. Unknown is None."""

from __future__ import annotations

import statistics
from pathlib import Path

from dyno.host.filesystem import ROOT
from dyno.host.procfs import read_lines, read_text, to_float, to_int


def mean_mhz(*, root: Path = ROOT) -> float | None:
    """Of all processors: as /proc/cpuinfo has it, or cpufreq where that does not; a virtual machine's may be what its
    host says once for all."""
    told = [
        to_float(line.partition(":")[2].strip()) for line in read_lines(root / "proc/cpuinfo") if "cpu MHz" in line
    ]
    if not told:
        files = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq")
        told = [None if (khz := to_int(read_text(file))) is None else khz / 1000 for file in files]
    known = [mhz for mhz in told if mhz is not None]
    return round(statistics.mean(known), 1) if known else None
