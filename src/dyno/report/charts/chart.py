"""A chart: one definition, which the page draws in a browser and `dyno plot` draws without one.

A chart is a Vega-Lite specification without its data and its colours, and the records to put into it. No chart
computes statistics: its records come from the summaries, comparisons and histograms of a run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dyno.contracts.cell import Cell
from dyno.report.tables.table import Row, groups, reported, varying
from dyno.results import Run
from dyno.stats.doubts import MEANINGS
from dyno.stats.summary import cached

Record = dict[str, Any]
"""Plain JSON. Every record has `engine` (as tables call it), `phase`, `tier`, `params` (a dict of the parameters
that vary in the run) and `floor`; other keys belong to the chart."""
Selector = Callable[[Record], bool]
"""Selects records by the keys that every record has."""


@dataclass(frozen=True)
class Column:
    """One column of a chart's table view."""

    key: str
    title: str
    kind: str = "text"
    """How a value is written: 'text', 'rate', 'bandwidth', 'ns', 'bytes', 'count', 'ratio', 'seconds' or 'percent';
    'own': by the kind in the record's `write`."""


ENGINE, REMARKS, TRIALS = (
    Column("engine", "engine"),
    Column("remarks", "remarks"),
    Column("trials", "trials", "count"),
)


@dataclass(frozen=True)
class Chart:
    name: str
    """As in `dyno plot --chart`."""
    title: str
    reading: str
    """What the chart shows and how to read it, in a sentence or two."""
    needs: str
    """What a run must contain for this chart."""
    columns: tuple[Column, ...]
    """Of the table view, which has all figures of the chart."""
    records: Callable[[Run], list[Record]]
    """Every record of a run, of all phases, tiers and parameters."""
    spec: Callable[[Sequence[str], str], dict[str, Any]]
    """From the run's engines, in order, and the unit of a phase ('key') to the Vega-Lite specification of one panel:
    one phase, tier and value of each parameter. Its data is {"name": "records"}."""
    spans: tuple[str, ...] = ()
    """Parameters whose values are all in one panel."""
    brief: Callable[[Run], list[Record]] | None = None
    """Records with fewer points, for pages of large runs."""
    select: Callable[[Run, Selector], Iterator[Record]] | None = None
    """Yields the selected `records` one at a time, panel by panel, where computing a record is slow."""
    says: Callable[[Run], list[Record]] = lambda run: []
    """Sentences to print below the chart: each a `text` with the `phase`, `tier` and `params` of its panel and the
    `engines` that it names."""

    def selected(self, run: Run, selector: Selector) -> Iterable[Record]:
        return self.select(run, selector) if self.select else filter(selector, self.records(run))

    @property
    def file(self) -> str:
        """The name as a file name: names of suites' charts and of parameters may be any text."""
        return re.sub(r"[^\w.-]+", "-", self.name).lstrip(".")


def unit_of(record: Record) -> str:
    """The unit to pass to `Chart.spec`."""
    return str(record.get("unit", "op/s")).removesuffix("/s")


@cached
def rows(run: Run) -> tuple[tuple[Row, Record], ...]:
    """Every row with what all its records have, the best of each group first."""
    changing = varying(run)
    return tuple(
        (row, {**common(row.summary.cell, row.place, changing), "remarks": remarks(row)})
        for group in groups(run)
        for row in group.rows
    )


def valid_rows(run: Run) -> Iterator[tuple[Row, Record]]:
    """Rows with a figure, without null engines."""
    return ((row, record) for row, record in rows(run) if row.summary.valid and not row.summary.cell.floor)


def common(cell: Cell, phase: str, changing: Sequence[str]) -> Record:
    params = {name: cell.params[name] for name in changing}
    return {"engine": cell.label, "phase": phase, "tier": cell.tier_name, "params": params, "floor": cell.floor}


def remarks(row: Row, codes: Collection[str] = MEANINGS) -> str:
    """Short names of the row's doubts with these codes, and codes of its caveats."""
    # The name of a floor says already that it is one.
    caveats = [caveat.code for caveat in row.summary.caveats if caveat.code != "floor"]
    tool = [reported(row.summary)] if row.summary.reported_by else []
    return ", ".join([*tool, *(doubt.short for doubt in row.doubts if doubt.code in codes), *caveats])


@dataclass(frozen=True)
class Panel:
    """Records of one picture: of one phase, tier and value of each parameter."""

    phase: str
    tier: str | None
    params: dict[str, Any]
    """Parameters that vary in the run and are not spanned by the chart."""
    records: list[Record]


def panels(chart: Chart, records: Iterable[Record]) -> list[Panel]:
    """In the order of the records."""
    by_place: dict[tuple[object, ...], Panel] = {}
    for record in records:
        params = {name: value for name, value in record["params"].items() if name not in chart.spans}
        panel = Panel(record["phase"], record["tier"], params, [])
        by_place.setdefault(place(chart, record), panel).records.append(record)
    return list(by_place.values())


def place(chart: Chart, record: Record) -> tuple[object, ...]:
    """Key of the record's panel."""
    params = (repr(value) for name, value in record["params"].items() if name not in chart.spans)
    return record["phase"], record["tier"], *params
