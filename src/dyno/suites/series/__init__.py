"""Series: how many samples per second does an archive of process variables take in, how fast does it give one
variable or all of them back, and how does that hold as it grows?

After Mauro Giacchini and Robert Petkus, Performance tests of Hypertable, 2009.
"""

from __future__ import annotations

from dyno.contracts.suite import History, Job, Proof, Workload
from dyno.suites.series.params import PARAMS, PHASES, PRESETS


def history(job: Job) -> History:
    """See `dyno.contracts.suite.Proof`."""
    # Imported here, as the workload is.
    from dyno.suites.series.history import SeriesHistory

    return SeriesHistory(job)


class SeriesSuite:
    """The declaration; the work is in `workload`."""

    name = "series"
    title = "an archive of process variables: samples taken in and given back, as it grows"
    ports = ("series",)
    engines = ()
    params = PARAMS
    presets = PRESETS
    phases = PHASES
    layout = None
    charts = ()
    # Every batch is a transaction of its own.
    proof = Proof(
        "insert",
        count="per_half_hour",
        params={"variables": 10, "batch": 10, "late_ppm": 0, "resent_ppm": 0},
        history=history,
    )

    def workload(self, job: Job) -> Workload:
        # Imported here: the parent reads declarations and needs no dataset.
        from dyno.suites.series.workload import SeriesWorkload

        return SeriesWorkload(job)


SUITE = SeriesSuite()
