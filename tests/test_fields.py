"""Tests that samples, merging, JSON and columns follow from the table of measured quantities."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from shell import TESTS

from dyno import results
from dyno.contracts.histogram import Recorder
from dyno.fields import CELLS, COUNTED, FIELDS, JSON, SAMPLES, SUM, Field, Sample, plain
from dyno.measure.tally import Tally
from dyno.report import export
from dyno.results import read

RUN = TESTS / "data" / "run-schema-3.json"


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_field_appears_in_sample_and_declared_outputs(field: Field) -> None:
    assert field.name in {each.name for each in dataclasses.fields(Sample)}
    assert field.type
    data: Any = export.as_data(results.load(RUN))
    cell = data["cells"][0]
    assert JSON not in field.shown or field.key in cell
    for table, columns in ((CELLS, export.CELLS), (SAMPLES, export.SAMPLES)):
        assert field.columns_of(table).items() <= columns.items()
        assert bool(field.columns_of(table)) == (table in field.shown)


@pytest.mark.parametrize("field", [each for each in FIELDS if each.merge], ids=lambda field: field.name)
def test_a_field_that_clients_measure_is_merged(field: Field) -> None:
    one, other = Tally(), Tally()
    assert hasattr(one, field.tally)
    if field.merge == SUM and field.name in COUNTED:
        setattr(one, field.name, 2)
        setattr(other, field.name, 3)
        one.merge(other)
        assert getattr(one, field.name) == 5
    one.merge(Tally())


def test_a_sample_is_read_as_it_was_written() -> None:
    recorder = Recorder()
    recorder.add([1_000])
    sample = next(sample for attempt in results.load(RUN).attempts for sample in attempt.samples)
    changed = dataclasses.replace(sample, by_kind={"get": recorder.encode()}, late=recorder.encode(), due=7)
    written = plain(changed)
    assert set(written) == {field.name for field in FIELDS}
    assert read.sample(written) == changed


def test_a_sample_without_a_required_field_is_damaged() -> None:
    written = plain(next(sample for attempt in results.load(RUN).attempts for sample in attempt.samples))
    del written["operations"]
    with pytest.raises(ValueError, match="operations"):
        read.sample(written)
