"""Series: how many samples per second does an archive of process variables take in, how fast does it return one
variable or all, and how does that change as it grows?

After Mauro Giacchini and Robert Petkus, Performance tests of Hypertable, 2009.
"""

from __future__ import annotations

from dyno.contracts.suite import History, Job, Proof, Suite, Workload
from dyno.suites.series.params import PARAMS, PHASES, PRESETS


def history(job: Job) -> History:
    """See `dyno.contracts.suite.Proof`."""
    from dyno.suites.series.history import SeriesHistory

    return SeriesHistory(job)


class SeriesSuite(Suite):
    """See `dyno.contracts.suite.Suite`."""

    name = "series"
    title = "an archive of process variables: samples taken in and given back, as it grows"
    ports = ("series",)
    params = PARAMS
    presets = PRESETS
    phases = PHASES
    # Every batch is a transaction.
    proof = Proof(
        "insert",
        count="per_half_hour",
        params={"variables": 10, "batch": 10, "late_ppm": 0, "resent_ppm": 0},
        history=history,
    )

    def workload(self, job: Job) -> Workload:
        # The parent reads declarations without importing the dataset.
        from dyno.suites.series.workload import SeriesWorkload

        return SeriesWorkload(job)


SUITE = SeriesSuite()
