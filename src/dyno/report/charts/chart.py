"""A chart: one definition, which the page draws in a browser and `dyno plot` draws without one.

A chart has a Vega-Lite specification without data and colours, and records as its data. No chart computes statistics:
its records come from the summaries, comparisons and histograms of a run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from dyno.contracts.cell import Cell
from dyno.contracts.value_types import JsonObject
from dyno.report.tables.table import Row, groups, reported_by_text, varying_params
from dyno.results import Run
from dyno.stats.cache import cache_by_run
from dyno.stats.doubts import MEANINGS
from dyno.stats.summary import group_values

Record = JsonObject
"""A data point of a chart, as plain JSON. Every record has `engine` (the label in tables), `phase`, `tier`, `params`
(a dict of the parameters that vary in the run) and `floor`; other keys depend on the chart."""
Selector = Callable[[Record], bool]
"""Selects records by the keys that every record has."""


@dataclass(frozen=True)
class Column:
    """A column of a chart's table view."""

    key: str
    title: str
    kind: str = "text"
    """Format of a value: 'text', 'rate', 'bandwidth', 'ns', 'bytes', 'count', 'ratio' or 'seconds'. With 'own',
    the record's `write` has the format."""


ENGINE, REMARKS = Column("engine", "engine"), Column("remarks", "remarks")
TRIALS = Column("trials", "trials", "count")


@dataclass(frozen=True)
class Chart:
    name: str
    """Name for `dyno plot --chart`."""
    title: str
    reading: str
    """Text of a sentence or two that says what the chart shows and how to read it."""
    needs: str
    """Text that names the content that a run needs for this chart."""
    columns: tuple[Column, ...]
    """Columns of the table view, which has all figures of the chart."""
    records: Callable[[Run], list[Record]]
    """Returns all records of a run, for all phases, tiers and parameters."""
    spec: Callable[[Sequence[str], str], JsonObject]
    """Returns the Vega-Lite specification of one panel, which has one phase, tier and value of each parameter. Called
    with the run's engines, in order, and the unit of the phase ('key'). The data of the specification is {"name":
    "records"}."""
    spans: tuple[str, ...] = ()
    """Parameters whose values are all in one panel."""
    zooms: bool = False
    """Whether the page's reader can zoom into its boxes, which are parallel lists in the records: see zoom.js."""
    brief: Callable[[Run], list[Record]] | None = None
    """Returns records with fewer points, for pages of large runs."""
    select: Callable[[Run, Selector], Iterator[Record]] | None = None
    """Yields the selected `records` one at a time, panel by panel. Set if computing a record is slow."""
    says: Callable[[Run], list[Record]] = lambda run: []
    """Returns sentences to print below the chart. Each has a `text`, the `phase`, `tier` and `params` of its panel,
    and the `engines` that it names."""

    def select_records(self, run: Run, selector: Selector) -> Iterable[Record]:
        if self.select:
            return self.select(run, selector)
        return filter(selector, self.records(run))

    @property
    def file(self) -> str:
        """The name as a file name. Replaces other characters, because suites and parameters may have any name."""
        return re.sub(r"[^\w.-]+", "-", self.name).lstrip(".")


def unit_of(record: Record) -> str:
    """Returns the unit to pass to `Chart.spec`."""
    return str(record.get("unit", "op/s")).removesuffix("/s")


@cache_by_run
def rows(run: Run) -> tuple[tuple[Row, Record], ...]:
    """Returns every row with the keys that all of its records have, the best of each group first."""
    changing = varying_params(run)
    return tuple(
        (row, {**common(row.summary.cell, row.place, changing), "remarks": remarks(row)})
        for group in groups(run)
        for row in group.rows
    )


def valid_rows(run: Run) -> Iterator[tuple[Row, Record]]:
    """Yields the rows with a figure, without null engines."""
    return ((row, record) for row, record in rows(run) if row.summary.valid and not row.summary.cell.floor)


def common(cell: Cell, phase: str, changing: Sequence[str]) -> Record:
    params = {name: cell.params[name] for name in changing}
    return {"engine": cell.label, "phase": phase, "tier": cell.tier_name, "params": params, "floor": cell.floor}


def remarks(row: Row, codes: Collection[str] = MEANINGS) -> str:
    """Returns the short names of the row's doubts with these codes, and the codes of its caveats."""
    # The caveat `floor` is left out, because the name of a floor already says it.
    caveats = [caveat.code for caveat in row.summary.caveats if caveat.code != "floor"]
    doubts = (doubt.short for doubt in row.doubts if doubt.code in codes)
    return ", ".join(filter(None, [reported_by_text(row.summary.reported_by), *doubts, *caveats]))


@dataclass(frozen=True)
class Panel:
    """Records of one picture, all of one phase, tier and value of each parameter."""

    phase: str
    tier: str | None
    params: dict[str, object]
    """Parameters that vary in the run and that the chart does not span."""
    records: list[Record]


def panels(chart: Chart, records: Iterable[Record]) -> list[Panel]:
    """Groups records by panel, in the order of the records."""
    every = []
    for of in group_values((place(chart, record), record) for record in records).values():
        params = {name: value for name, value in of[0]["params"].items() if name not in chart.spans}
        every.append(Panel(of[0]["phase"], of[0]["tier"], params, of))
    return every


def place(chart: Chart, record: Record) -> tuple[object, ...]:
    """Returns the key of the record's panel."""
    params = (repr(value) for name, value in record["params"].items() if name not in chart.spans)
    return record["phase"], record["tier"], *params
