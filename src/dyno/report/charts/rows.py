"""What all charts share: which rows of a run are drawn, what every record has, and the panels that they fill."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dyno.contracts.sample import Cell
from dyno.report.charts.chart import Chart, Record
from dyno.report.tables.table import Row, groups, reported, varying
from dyno.results import Run
from dyno.stats.doubts import MEANINGS
from dyno.stats.summary import cached


@cached
def rows(run: Run) -> tuple[tuple[Row, Record], ...]:
    """Every row, the best of its group first, with what all its records have."""
    changing = varying(run)
    return tuple(
        (row, {**common(row.summary.cell, row.place, changing), "remarks": remarks(row)})
        for group in groups(run)
        for row in group.rows
    )


def measured(run: Run) -> Iterator[tuple[Row, Record]]:
    """The valid ones, without null engines."""
    return ((row, record) for row, record in rows(run) if row.summary.valid and not row.summary.cell.floor)


def common(cell: Cell, phase: str, changing: Sequence[str]) -> Record:
    return {
        "engine": cell.label,
        "phase": phase,
        "tier": cell.tier_name,
        "params": {name: cell.params[name] for name in changing},
        "floor": cell.floor,
    }


def remarks(row: Row, concerning: Collection[str] = MEANINGS) -> str:
    """Doubts in short, of these codes, and caveats by code: they stand beside the number. That a floor is one is in
    its name."""
    codes = [caveat.code for caveat in row.summary.caveats if caveat.code != "floor"]
    tool = [reported(row.summary)] if row.summary.reported_by else []
    return ", ".join(tool + [doubt.short for doubt in row.doubts if doubt.code in concerning] + codes)


@dataclass(frozen=True)
class Panel:
    """The records that one picture shows: of one phase, at one tier, of one value of each parameter."""

    phase: str
    tier: str | None
    params: dict[str, Any]
    """Those that vary in the run and that the chart does not span."""
    records: list[Record]


def panels(chart: Chart, records: Iterable[Record]) -> list[Panel]:
    """In the order of the records."""
    found: dict[tuple[object, ...], Panel] = {}
    for record in records:
        key = place(chart, record)
        if key not in found:
            params = {name: value for name, value in record["params"].items() if name not in chart.spans}
            found[key] = Panel(record["phase"], record["tier"], params, [])
        found[key].records.append(record)
    return list(found.values())


def place(chart: Chart, record: Record) -> tuple[object, ...]:
    """What records of one panel have in common."""
    params = (repr(value) for name, value in record["params"].items() if name not in chart.spans)
    return record["phase"], record["tier"], *params
