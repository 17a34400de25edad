"""HTTP: requests, one or many under way at once, timed part by part. The declaration; the work is in `workload`."""

from __future__ import annotations

from types import MappingProxyType

from dyno.contracts.suite import Job, Workload
from dyno.suites.http.params import PARAMS, PHASES, PRESETS


class HttpSuite:
    """See `dyno.contracts.suite.Suite`."""

    name = "http"
    title = "HTTP requests, one or many under way at once, part by part"
    ports = ("requests",)
    engines = ("nginx",)
    params = PARAMS
    presets = MappingProxyType(PRESETS)
    phases = PHASES
    layout = None
    charts = ()
    proof = None

    def workload(self, job: Job) -> Workload:
        from dyno.suites.http.workload import HttpWorkload

        return HttpWorkload(job)


SUITE = HttpSuite()
