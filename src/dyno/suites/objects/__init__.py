"""Objects: how long does a transaction take that writes or reads N persistent objects, on each storage of ZODB?

After Shane Hathaway, RelStorage 1.0 and Measurements, 2008; and his zodbshootout, whose phases these are.
"""

from __future__ import annotations

from dyno.contracts.suite import History, Job, Proof, Suite, Workload
from dyno.suites.objects.params import PARAMS, PHASES, PRESETS, TRANSACTION


def history(job: Job) -> History:
    """See `dyno.contracts.suite.Proof`."""
    from dyno.suites.objects.history import ObjectsHistory

    return ObjectsHistory(job)


class ObjectsSuite(Suite):
    """See `dyno.contracts.suite.Suite`."""

    name = "objects"
    title = "persistent objects of Python in a ZODB storage"
    ports = ("objects",)
    params = PARAMS
    presets = PRESETS
    phases = PHASES
    charts = (TRANSACTION,)
    proof = Proof("write", count="transactions", params={"objects": 1}, history=history)

    def workload(self, job: Job) -> Workload:
        # The parent reads declarations without importing the dataset.
        from dyno.suites.objects.workload import ObjectsWorkload

        return ObjectsWorkload(job)


SUITE = ObjectsSuite()
