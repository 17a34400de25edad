"""Records: how fast does a Python application store, index, find and change small records?

After David Wilson, acid (its performance page and examples/benchy.py), 2013; mixed workloads after Cooper et
al., Benchmarking Cloud Serving Systems with YCSB, 2010.
"""

from __future__ import annotations

from dyno.contracts.suite import History, Job, Proof, Suite, Workload
from dyno.suites.records.params import PARAMS, PHASES, PRESETS


def history(job: Job) -> History:
    """See `dyno.contracts.suite.Proof`."""
    from dyno.suites.records.history import RecordsHistory

    return RecordsHistory(job)


class RecordsSuite(Suite):
    """See `dyno.contracts.suite.Suite`."""

    name = "records"
    title = "indexed records in a key-value, SQL or document store"
    ports = ("records", "ordered-kv")
    params = PARAMS
    presets = PRESETS
    phases = PHASES
    proof = Proof("insert-blind-noindices", count="records", params={"txn": 1}, history=history)

    def workload(self, job: Job) -> Workload:
        # The parent reads declarations without importing the dataset.
        from dyno.suites.records.workload import RecordsWorkload

        return RecordsWorkload(job)


SUITE = RecordsSuite()
