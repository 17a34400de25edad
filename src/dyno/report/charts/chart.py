"""What a chart is: one definition, which the page draws in a browser and `dyno plot` draws without one.

A chart is a Vega-Lite specification without its data and without its colours, and the records to put into it. No
chart computes statistics: its records come from the summaries, the comparisons and the histograms of a run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dyno.results import Run

Record = dict[str, Any]
"""Plain JSON. Every record has `engine` (as tables call it), `phase`, `tier`, `params` (a dict of the parameters
that vary in the run) and `floor`; the others are the chart's own."""
Wanted = Callable[[Record], bool]
"""Of a record, by what every record has."""


@dataclass(frozen=True)
class Column:
    """One column of a chart's table view."""

    key: str
    title: str
    kind: str = "text"
    """How a value is written: 'text', 'rate', 'bandwidth', 'ns', 'bytes', 'count', 'ratio', 'seconds' or 'percent';
    'own': as the record's `write` says."""


@dataclass(frozen=True)
class Chart:
    name: str
    """As in `dyno plot --chart`."""
    title: str
    reading: str
    """What is shown and how to read it, in a sentence or two."""
    needs: str
    """What a run must have had for it."""
    columns: tuple[Column, ...]
    """Of the table view, which says all that the chart says."""
    records: Callable[[Run], list[Record]]
    """Every record of a run, of all phases, tiers and parameters."""
    spec: Callable[[Sequence[str], str], dict[str, Any]]
    """From the run's engines, in their order, and the unit of a phase ('key') to a Vega-Lite specification for the
    records of one phase at one tier (and one value of each parameter), whose data is {"name": "records"}."""
    spans: tuple[str, ...] = ()
    """Parameters of which the chart shows all values, so that none is to be chosen."""
    brief: Callable[[Run], list[Record]] | None = None
    """The same with fewer points, for a page of very many."""
    some: Callable[[Run, Wanted], Iterator[Record]] | None = None
    """Of `records` those that are wanted, one at a time and in their order, panel by panel: where making one takes
    long, and few are shown."""
    says: Callable[[Run], list[Record]] = lambda run: []
    """What there is to say below it: each a `text`, with the `phase`, `tier` and `params` of its panel and the
    `engines` that it is of."""

    def chosen(self, run: Run, wanted: Wanted) -> Iterable[Record]:
        """Those records that are wanted."""
        return self.some(run, wanted) if self.some else filter(wanted, self.records(run))

    @property
    def file(self) -> str:
        """Its name as that of a file: a suite's, or a parameter's, may be any text."""
        return re.sub(r"[^\w.-]+", "-", self.name).lstrip(".")


def unit_of(record: Record) -> str:
    """What a chart's specification is asked for by."""
    return str(record.get("unit", "op/s")).removesuffix("/s")
