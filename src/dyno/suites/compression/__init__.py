"""Compression: what does it cost, and gain, to compress records in batches before they are stored?

After David Wilson, acid (its performance page and examples/batch.py), 2013.
"""

from __future__ import annotations

from dyno.contracts.suite import Job, Workload
from dyno.suites.compression.params import LAYOUT, PARAMS, PHASES, PRESETS, TRADEOFF


class CompressionSuite:
    """The declaration; the work is in `workload`."""

    name = "compression"
    title = "records compressed in batches, in an ordered key-value store"
    ports = ("ordered-kv",)
    # That of the published table: what is compared here is packers and not engines.
    engines = ("lmdb",)
    params = PARAMS
    presets = PRESETS
    phases = PHASES
    layout = LAYOUT
    charts = (TRADEOFF,)
    proof = None

    def workload(self, job: Job) -> Workload:
        # Imported here: the parent reads declarations and needs no dataset.
        from dyno.suites.compression.workload import CompressionWorkload

        return CompressionWorkload(job)


SUITE = CompressionSuite()
