"""Arrays: how fast are arrays larger than memory written and reduced, cold and hot, and how large are they on disk?

After Douglas Camata, Wendelin: core version 0.5 upgrade and performance tests, 2015.
"""

from __future__ import annotations

from dyno.contracts.suite import History, Job, Proof, Suite, Workload
from dyno.suites.arrays.params import PARAMS, PHASES, PRESETS


def history(job: Job) -> History:
    """See `dyno.contracts.suite.Proof`."""
    from dyno.suites.arrays.history import ArraysHistory

    return ArraysHistory(job)


class ArraysSuite(Suite):
    """The declaration; the work is in `workload`."""

    name = "arrays"
    title = "a table of numbers and short texts, out of core: written, reduced and sliced, cold and hot"
    ports = ("arrays",)
    params = PARAMS
    presets = PRESETS
    phases = PHASES
    # Two phases, since engines append rows in another way than they update them.
    proof = Proof(
        "append",
        count="appends",
        params={"rows": 20_000, "slice_rows": 10},
        history=history,
        also=Proof("update-slice", count="updates"),
    )

    def workload(self, job: Job) -> Workload:
        # Imported here: the parent reads declarations without NumPy.
        from dyno.suites.arrays.workload import ArraysWorkload

        return ArraysWorkload(job)


SUITE = ArraysSuite()
