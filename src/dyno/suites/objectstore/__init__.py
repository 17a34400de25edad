"""Object stores: latency, bandwidth, growth and bursts of buckets."""

from __future__ import annotations

from types import MappingProxyType

from dyno.contracts.suite import Job, Proof, Suite, Workload
from dyno.suites.objectstore.params import CHARTS, COPY, PARAMS, PHASES, PRESETS, PUT


class ObjectStoreSuite(Suite):
    """See `dyno.contracts.suite.Suite`."""

    name = "objectstore"
    title = "object stores: latency, bandwidth, growth of a bucket, bursts"
    ports = ("bucket",)
    engines = ("directory",)
    params = PARAMS
    presets = MappingProxyType(PRESETS)
    phases = PHASES
    charts = CHARTS
    proof = Proof(PUT, "requests", {"objects": 1}, also=Proof(COPY, "requests"))

    def workload(self, job: Job) -> Workload:
        # The parent reads declarations without importing the workload.
        from dyno.suites.objectstore.workload import ObjectStoreWorkload

        return ObjectStoreWorkload(job)


SUITE = ObjectStoreSuite()
