"""Volumes: how fast does a disk read and write, when does a new one become steady, and what does a flush cost?

After Cloud Mercato, Do you warm up volumes ? and dd is not a benchmarking tool.
"""

from __future__ import annotations

from dyno.contracts.suite import Job, Suite, Workload
from dyno.suites.volume.params import LAYOUT, LOADED, PARAMS, PHASES, PRESETS


class VolumeSuite(Suite):
    """The declaration; the work is in `workload`."""

    name = "volume"
    title = "a file or a device, read and written by fio; its warm-up, its flushes, and dd beside it"
    ports = ("volume",)
    engines = ("fio",)
    params = PARAMS
    presets = PRESETS
    phases = PHASES
    layout = LAYOUT
    charts = (LOADED,)

    def workload(self, job: Job) -> Workload:
        # Imported here: the parent needs only the declaration.
        from dyno.suites.volume.workload import VolumeWorkload

        return VolumeWorkload(job)


SUITE = VolumeSuite()
