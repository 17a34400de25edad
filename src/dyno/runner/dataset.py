"""Where the loaded stores of a run's cells are kept, sealed, for their trials to begin with a copy: see `OnStore`.

A worker seals; this side says where, and throws away what no trial will need, or what none should.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from dyno.results import Attempt
from dyno.runner.plan import Plan

SEALED = "sealed"


class Datasets:
    """Those of a run, in its work directory, with which they go. A cell has its own: all that makes up the cell may
    make a difference to a store."""

    def __init__(self, plan: Plan, home: Path) -> None:
        self._plan, self._home = plan, home / SEALED

    def of(self, cell: int) -> Path:
        """Where that of the cell is, or is to be."""
        return self._home / str(cell)

    def ended(self, attempt: Attempt) -> None:
        """After a trial that did not end well the next one loads again; after a cell's last one it is not needed."""
        well = attempt.outcome == "ok" and not any(sample.void for sample in attempt.samples)
        last = self._plan.until is None and attempt.block + 1 >= self._plan.samples
        if last or not well:
            shutil.rmtree(self.of(attempt.cell), ignore_errors=True)
