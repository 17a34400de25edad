"""Compute: which library is fastest at averages, maxima, sines, sums and correlations of N floats, and up to which N?

After Cloud Mercato, Benchmark floating point computations with Python.
"""

from __future__ import annotations

from dyno.contracts.suite import Axis, Curve, Job, Suite, Workload
from dyno.suites.compute.params import PARAMS, PHASES, PRESETS


class ComputeSuite(Suite):
    """The declaration; the work is in `workload`."""

    name = "compute"
    title = "an average, a maximum, sines, sums and a correlation of N floats, from the interpreter to the cluster"
    ports = ("compute",)
    params = PARAMS
    presets = PRESETS
    phases = PHASES
    charts = (
        Curve(
            name="memory-share",
            title="Share of the memory bandwidth",
            reading="The rate at which the numbers were read, as a share of the rate at which all cores together can"
            " read this machine's memory. Numbers that fit into the processor's caches can exceed 100 %; sizes below"
            " a million are not shown.",
            x=Axis("param", "size", "numbers", "count", "log"),
            y=Axis("fact", "memory_share", "share of the memory bandwidth", "ratio", "log"),
        ),
    )

    def workload(self, job: Job) -> Workload:
        # Imported here: the parent reads declarations without NumPy.
        from dyno.suites.compute.workload import ComputeWorkload

        return ComputeWorkload(job)


SUITE = ComputeSuite()
