"""OLTP: how many short transactions per second does a SQL server do, measured by established tools?

After Cloud Mercato, Why you should use sysbench, which uses sysbench's OLTP tests as one of three parts.
"""

from __future__ import annotations

from dyno.contracts.suite import Job, Suite, Workload
from dyno.suites.oltp.params import PARAMS, PHASES, PRESETS


class OltpSuite(Suite):
    """See `dyno.contracts.suite.Suite`."""

    name = "oltp"
    title = "short transactions on a SQL server, by sysbench and pgbench"
    ports = ("transactions",)
    params = PARAMS
    presets = PRESETS
    phases = PHASES

    def workload(self, job: Job) -> Workload:
        # The parent reads declarations without importing the workload.
        from dyno.suites.oltp.workload import OltpWorkload

        return OltpWorkload(job)


SUITE = OltpSuite()
