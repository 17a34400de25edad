"""OLTP: how many short transactions does a SQL server do, by the tools that the field trusts?

After Cloud Mercato, Why you should use sysbench, which names sysbench's OLTP tests as one of the three parts it uses.
"""

from __future__ import annotations

from dyno.contracts.suite import Job, Workload
from dyno.suites.oltp.params import PARAMS, PHASES, PRESETS


class OltpSuite:
    """The declaration; the work is in `workload`."""

    name = "oltp"
    title = "short transactions on a SQL server, by sysbench and pgbench"
    ports = ("transactions",)
    engines = ()
    params = PARAMS
    presets = PRESETS
    phases = PHASES
    layout = None
    charts = ()
    proof = None

    def workload(self, job: Job) -> Workload:
        # Imported here: the parent reads declarations and needs no workload.
        from dyno.suites.oltp.workload import OltpWorkload

        return OltpWorkload(job)


SUITE = OltpSuite()
