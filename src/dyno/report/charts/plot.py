"""Charts of a run as pictures: what of the run is shown, and the picture of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from dyno.contracts.model import UsageError
from dyno.contracts.settings import unknown
from dyno.report import charts as every
from dyno.report.charts import draw, ratios, sheet, sweep
from dyno.report.charts.chart import Chart, Record
from dyno.report.charts.rows import Panel, panels, place, rows
from dyno.report.tables import display_limits
from dyno.report.tables.table import BY, Row
from dyno.results import Run
from dyno.stats.compare import Table, check_baseline

ONE, SEVERAL = 800, 1160
"""Width in pixels of a single panel, and of a grid of them."""


@dataclass(frozen=True)
class Choice:
    """What of a run is to be shown: all of it by default."""

    phases: Sequence[str] = ()
    tier: str | None = None
    params: Mapping[str, Sequence[str]] = field(default_factory=dict)
    engines: Sequence[str] = ()
    baseline: str | None = None
    """Of ratios; None for the best row of each panel."""

    def has(self, record: Record) -> bool:
        varying = record["params"]
        return (
            (not self.phases or record["phase"].partition(BY)[0] in self.phases)
            and self.tier in (None, record["tier"])
            and (not self.engines or record["engine"] in self.engines)
            # One that does not vary has the value that was asked for, or that would have been refused.
            and all(str(varying[name]) in values for name, values in self.params.items() if name in varying)
        )


class Drawing(NamedTuple):
    """A picture that is yet to be drawn. The run, which may be large, need not be there any more."""

    file: str
    """The chart's name as that of a file."""
    spec: dict[str, Any]
    """Of Vega-Lite."""
    width: int

    def svg(self, dark: bool = False) -> str:
        return draw.svg(self.spec, self.width, dark)


def chart(run: Run, name: str, by: str | None = None) -> Chart:
    """`by`: the metric or the fact of a sweep. Raises UsageError."""
    found = {chart.name: chart for chart in every.of(run, by)}
    parameter = name.removeprefix(sweep.PREFIX)
    swept = parameter in run.cells[0].params and name == sweep.name_of(parameter)
    if swept:
        # Also of one value: what it takes for the chart is then said.
        found.setdefault(name, sweep.chart(run, parameter, by))
    elif name not in found:
        raise UsageError(unknown(f"{run.path}: chart", name, found))
    if by is not None and not swept:
        raise UsageError(f"--metric is for sweeps, and {name} is none")
    return found[name]


def drawings(run: Run, choice: Choice, width: int | None = None) -> list[Drawing]:
    """Of every chart that has something to draw. Raises UsageError where none has."""
    made = [
        _made(run, chart, choice, found, width) for chart in every.of(run) if (found := _chosen(run, chart, choice))
    ]
    if not made:
        raise UsageError(f"{run.path} has nothing of what was chosen for any chart")
    return made


def check(run: Run, choice: Choice) -> Choice:
    """The same, with each engine as tables call it, and the baseline as it was asked for. Raises UsageError for what
    the run does not have."""
    called = {name: cell.label for cell in run.cells for name in (cell.asked, cell.label)}
    tiers = list(dict.fromkeys(cell.tier_name for cell in run.cells if cell.tier_name))
    values = {name: list(dict.fromkeys(str(cell.params[name]) for cell in run.cells)) for name in run.cells[0].params}
    given = (
        *(("phase", phase, run.plan["phases"]) for phase in choice.phases),
        *(("tier", tier, tiers) for tier in [choice.tier] if tier is not None),
        *(("engine", engine, called) for engine in choice.engines),
        *(("parameter", name, values) for name in choice.params),
        *((f"{name} of", value, values.get(name, ())) for name, asked in choice.params.items() for value in asked),
    )
    for what, word, names in given:
        if word not in names:
            raise UsageError(unknown(f"{run.path}: {what}", word, dict.fromkeys(names)))
    engines = [called[engine] for engine in choice.engines]
    return replace(choice, engines=engines, baseline=check_baseline(run, choice.baseline))


def _chosen(run: Run, chart: Chart, choice: Choice) -> list[Panel]:
    """The panels to be drawn; none where there is nothing to draw in any."""

    def baseline(table: Table) -> str | None:
        # The best of those that were chosen.
        wanted = (row.cell.asked for row, _ in table.rows if row.cell.label in choice.engines)
        return choice.baseline or next(wanted, None)

    if chart.name == "ratios":
        found = panels(chart, filter(choice.has, ratios.against(run, baseline)))
    else:
        found = panels(chart, _needed(run, chart, choice) if chart.some else chart.chosen(run, choice.has))
    return [panel for panel in found if any(not record["floor"] for record in panel.records)]


def _needed(run: Run, chart: Chart, choice: Choice) -> Iterator[Record]:
    """Of panels for which there is no room, the first record alone: only their number is said."""
    known: set[tuple[object, ...]] = set()

    def wanted(record: Record) -> bool:
        return choice.has(record) and (len(known) <= display_limits.PANELS or place(chart, record) not in known)

    # Those of one panel come one after the other.
    for record in chart.chosen(run, wanted):
        known.add(place(chart, record))
        yield record


def _few(chart: Chart, found: Sequence[Panel]) -> tuple[list[Panel], list[str]]:
    """What a picture has room for, and what is to be said of the rest."""
    many = len(found) > display_limits.PANELS or sum(len(panel.records) for panel in found) > display_limits.MARKS
    most = display_limits.FEW_PANELS if many else display_limits.PANELS
    shown, said = display_limits.first(found, most, "panels", "--phase, --tier and -p choose others")
    widest = max(len(_engines(panel)) for panel in shown)
    cut = []
    for panel in shown:
        engines = set(_engines(panel)[: display_limits.ROWS])
        records = [record for record in panel.records if record["engine"] in engines]
        cut.append(Panel(panel.phase, panel.tier, panel.params, records))
    if widest > display_limits.ROWS:
        # Where a chart shows all values of a parameter there is no best.
        which = "first" if chart.spans else "best"
        said = f"{said} The {which} {display_limits.ROWS} of up to {widest:,} engines in a panel: -e chooses others."
        said = said.strip()
    return cut, [said] if said else []


def _engines(panel: Panel) -> list[str]:
    return list(dict.fromkeys(record["engine"] for record in panel.records))


def drawing(run: Run, chart: Chart, choice: Choice, width: int | None = None) -> Drawing:
    """Of one chart. Raises UsageError where there is nothing to draw."""
    found = _chosen(run, chart, choice)
    if not found:
        some = "of what was chosen " if _chosen(run, chart, Choice()) else ""
        raise UsageError(f"{run.path} has nothing {some}for the chart {chart.name}, which takes {chart.needs}")
    return _made(run, chart, choice, found, width)


def _made(run: Run, chart: Chart, choice: Choice, found: Sequence[Panel], width: int | None) -> Drawing:
    found, said = _few(chart, found)
    wide = width or (ONE if len(found) == 1 else SEVERAL)
    return Drawing(chart.file, sheet.spec(run, chart, found, _shown(run, chart, found, choice), wide, said), wide)


def _shown(run: Run, chart: Chart, found: Sequence[Panel], choice: Choice) -> list[Row]:
    """The rows that the panels are of, those without a number too."""
    floors = any(record["floor"] for panel in found for record in panel.records)
    places = {place(chart, record) for panel in found for record in panel.records}
    engines = {record["engine"] for panel in found for record in panel.records}
    cut = any(len(_engines(panel)) == display_limits.ROWS for panel in found)
    return [
        row
        for row, record in rows(run)
        if choice.has(record)
        and record["floor"] <= floors
        and place(chart, record) in places
        and (not cut or record["engine"] in engines)
    ]
