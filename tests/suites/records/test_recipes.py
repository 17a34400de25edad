"""Tests that `PHASE_WORK` alone decides what a phase of the records suite does, not the phase's name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from dyno import registry
from dyno.contracts.model import Tier
from dyno.contracts.suite import Bulk, Job, Operations
from dyno.suites.records import PARAMS, PHASES, workload
from dyno.suites.records.workload import PHASE_WORK, RecordsWorkload

NAMED = {phase.name: phase for phase in PHASES}


def test_phase_work_has_entry_for_every_phase() -> None:
    assert list(PHASE_WORK) == list(NAMED)


def test_phase_behaviour_depends_on_table_not_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A phase with another phase's entry in `PHASE_WORK` does the work of the other, whatever its name."""
    spec = registry.reduce_to_suite(registry.suite("records"), registry.engine("memory"))
    assert spec is not None
    params = {**{setting.name: setting.default for setting in PARAMS}, "records": 60}
    whole = RecordsWorkload(Job(spec, tmp_path, Tier.VOLATILE, spec.resolve({}), params, seed=1, clients=1))
    swapped = {"scan": PHASE_WORK["insert-noblind-noindices"], "insert-blind-indices": PHASE_WORK["scan"]}
    monkeypatch.setattr("dyno.suites.records.workload.PHASE_WORK", {**PHASE_WORK, **swapped})
    scan, insert = NAMED["scan"], NAMED["insert-blind-indices"]
    whole.prepare(scan)
    with whole.connect() as port:
        (work,) = whole.work(scan, port, 0, 1, 0)
        assert isinstance(work, Bulk) and (work.items_per_record, work.call) == (1, port.replace)
        assert list(whole.work(scan, port, 0, 1, 1)) == []
    assert whole.payload_bytes(scan, 60) == whole.payload_bytes(NAMED["update"], 60)
    whole.prepare(insert)
    with whole.connect() as port:
        slices = list(whole.work(insert, port, 0, 1, 1))
        assert slices and all(isinstance(work, Operations) and work.weights is None for work in slices)
    assert whole.payload_bytes(insert, 60) is None
    whole.close()


def test_phase_names_are_only_in_the_tables() -> None:
    # These names also have other meanings in the suite: kinds of operations, checks.
    names = set(NAMED) - {"scan", "update", "delete"}
    parts = {part for name in names for part in (name.partition("-")[0] + "-", f"-{name.rpartition('-')[2]}")}
    parts |= {"-blind-", "-noblind-"}
    modules = {
        path.name
        for path in Path(workload.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names | parts
    }
    assert modules == {"__init__.py", "workload.py"}
