"""Arrays: how fast is an array that is larger than one wants to load written, and reduced, cold and hot, and what
does it take on disk?

After Douglas Camata, Wendelin: core version 0.5 upgrade and performance tests, 2015.
"""

from __future__ import annotations

from dyno.contracts.suite import History, Job, Proof, Workload
from dyno.suites.arrays.params import PARAMS, PHASES, PRESETS


def history(job: Job) -> History:
    """See `dyno.contracts.suite.Proof`."""
    # Imported here, as the workload is.
    from dyno.suites.arrays.history import ArraysHistory

    return ArraysHistory(job)


class ArraysSuite:
    """The declaration; the work is in `workload`."""

    name = "arrays"
    title = "a table of numbers and short texts, out of core: written, reduced and sliced, cold and hot"
    ports = ("arrays",)
    engines = ()
    params = PARAMS
    presets = PRESETS
    phases = PHASES
    layout = None
    charts = ()
    # Every update is a transaction of its own, and what is added at the end goes another way than what is changed.
    proof = Proof(
        "append",
        count="appends",
        params={"rows": 20_000, "slice_rows": 10},
        history=history,
        also=Proof("update-slice", count="updates"),
    )

    def workload(self, job: Job) -> Workload:
        # Imported here: the parent reads declarations and needs no dataset.
        from dyno.suites.arrays.workload import ArraysWorkload

        return ArraysWorkload(job)


SUITE = ArraysSuite()
