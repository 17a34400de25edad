"""Compression: what does compressing records in batches before they are stored cost, and what does it gain?

After David Wilson, acid (its performance page and examples/batch.py), 2013.
"""

from __future__ import annotations

from dyno.contracts.suite import Job, Suite, Workload
from dyno.suites.compression.params import LAYOUT, PARAMS, PHASES, PRESETS, TRADEOFF


class CompressionSuite(Suite):
    """See `dyno.contracts.suite.Suite`."""

    name = "compression"
    title = "records compressed in batches, in an ordered key-value store"
    ports = ("ordered-kv",)
    # The engine of the published table. The suite compares packers rather than engines.
    engines = ("lmdb",)
    params = PARAMS
    presets = PRESETS
    phases = PHASES
    layout = LAYOUT
    charts = (TRADEOFF,)

    def workload(self, job: Job) -> Workload:
        # The parent reads declarations without importing the dataset.
        from dyno.suites.compression.workload import CompressionWorkload

        return CompressionWorkload(job)


SUITE = CompressionSuite()
