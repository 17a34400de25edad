"""Object stores: latency, bandwidth, growth and bursts of buckets. The declaration; the work is in `workload`."""

from __future__ import annotations

from types import MappingProxyType

from dyno.contracts.suite import Job, Proof, Workload
from dyno.suites.objectstore.params import CHARTS, COPY, PARAMS, PHASES, PRESETS, PUT


class ObjectStoreSuite:
    """See `dyno.contracts.suite.Suite`."""

    name = "objectstore"
    title = "object stores: latency, bandwidth, growth of a bucket, bursts"
    ports = ("bucket",)
    engines = ("directory",)
    params = PARAMS
    presets = MappingProxyType(PRESETS)
    phases = PHASES
    layout = None
    charts = CHARTS
    proof = Proof(PUT, "requests", {"objects": 1}, also=Proof(COPY, "requests"))

    def workload(self, job: Job) -> Workload:
        from dyno.suites.objectstore.workload import ObjectStoreWorkload

        return ObjectStoreWorkload(job)


SUITE = ObjectStoreSuite()
