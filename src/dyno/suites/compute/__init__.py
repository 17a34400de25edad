"""Compute: which way of computing an average, a maximum, sines, sums and a correlation of N floats is the fastest at
each N, and where does each of them stop?

After Cloud Mercato, Benchmark floating point computations with Python.
"""

from __future__ import annotations

from dyno.contracts.suite import Axis, Curve, Job, Workload
from dyno.suites.compute.params import PARAMS, PHASES, PRESETS


class ComputeSuite:
    """The declaration; the work is in `workload`."""

    name = "compute"
    title = "an average, a maximum, sines, sums and a correlation of N floats, from the interpreter to the cluster"
    ports = ("compute",)
    engines = ()
    params = PARAMS
    presets = PRESETS
    phases = PHASES
    layout = None
    charts = (
        Curve(
            name="memory-share",
            title="Share of the memory bandwidth",
            reading="How much of the rate at which this machine's memory can be read, all cores together, the numbers"
            " were gone through with. Where they fit into the processor's caches it can be more than the whole, and"
            " nothing is told of less than a million.",
            x=Axis("param", "size", "numbers", "count", "log"),
            y=Axis("fact", "memory_share", "share of the memory bandwidth", "ratio", "log"),
        ),
    )
    # Nothing is stored.
    proof = None

    def workload(self, job: Job) -> Workload:
        # Imported here: the parent reads declarations and needs no numbers.
        from dyno.suites.compute.workload import ComputeWorkload

        return ComputeWorkload(job)


SUITE = ComputeSuite()
