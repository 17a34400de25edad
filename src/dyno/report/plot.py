"""Charts of a run as pictures: what of the run is shown, and the picture of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dyno.model import UsageError
from dyno.report import charts as every
from dyno.report.charts import draw, sheet, sweep
from dyno.report.charts.chart import Chart, Record
from dyno.report.charts.rows import Panel, panels, rows
from dyno.report.table import BY, Row
from dyno.results import Run
from dyno.settings import unknown
from dyno.stats.compare import check_baseline

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
        # One that does not vary has the value that was asked for, or that would have been refused.
        varying = {name: str(value) for name, value in record["params"].items()}
        return (
            (not self.phases or record["phase"].partition(BY)[0] in self.phases)
            and self.tier in (None, record["tier"])
            and (not self.engines or record["engine"] in self.engines)
            and all(varying[name] in values for name, values in self.params.items() if name in varying)
        )


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


def charts(run: Run, choice: Choice) -> list[Chart]:
    """Those that have something to draw. Raises UsageError where none has."""
    found = [chart for chart in every.of(run) if chosen(run, chart, choice)]
    if not found:
        raise UsageError(f"{run.path} has nothing of what was chosen for any chart")
    return found


def check(run: Run, choice: Choice) -> None:
    """Raises UsageError for what the run does not have."""
    tiers = list(dict.fromkeys(cell.tier_name for cell in run.cells if cell.tier_name))
    values = {name: list(dict.fromkeys(str(cell.params[name]) for cell in run.cells)) for name in run.cells[0].params}
    given = (
        *(("phase", phase, run.plan["phases"]) for phase in choice.phases),
        *(("tier", tier, tiers) for tier in [choice.tier] if tier is not None),
        *(("engine", engine, [cell.asked for cell in run.cells]) for engine in choice.engines),
        *(("parameter", name, values) for name in choice.params),
        *((f"{name} of", value, values.get(name, ())) for name, asked in choice.params.items() for value in asked),
    )
    for what, word, names in given:
        if word not in names:
            raise UsageError(unknown(f"{run.path}: {what}", word, dict.fromkeys(names)))
    check_baseline(run, choice.baseline)


def chosen(run: Run, chart: Chart, choice: Choice) -> list[Panel]:
    """The panels to be drawn; none where there is nothing to draw in any."""
    found = panels(chart, filter(choice.has, chart.records(run)))
    if chart.name == "ratios":
        found = [_against(panel, choice) for panel in found]
    return [panel for panel in found if any(not record["floor"] for record in panel.records)]


def _against(panel: Panel, choice: Choice) -> Panel:
    """The records of one baseline; without one that was asked for, the first, since the best stands first."""
    bases = [record["baseline"] for record in panel.records]
    wanted = [base for base in bases if not choice.engines or base in choice.engines]
    base = choice.baseline or next(iter(wanted), None)
    records = [record for record in panel.records if record["baseline"] == base]
    return Panel(panel.phase, panel.tier, panel.params, records)


def picture(run: Run, chart: Chart, choice: Choice, width: int | None = None, dark: bool = False) -> str:
    """The chart as SVG. Raises UsageError where there is nothing to draw."""
    found = chosen(run, chart, choice)
    if not found:
        some = "of what was chosen " if chosen(run, chart, Choice()) else ""
        raise UsageError(f"{run.path} has nothing {some}for the chart {chart.name}, which takes {chart.needs}")
    wide = width or (ONE if len(found) == 1 else SEVERAL)
    return draw.svg(sheet.spec(run, chart, found, _shown(run, chart, found, choice), wide), wide, dark)


def _shown(run: Run, chart: Chart, found: Sequence[Panel], choice: Choice) -> list[Row]:
    """The rows that the panels are of, those without a number too."""
    floors = any(record["floor"] for panel in found for record in panel.records)
    places = [(panel.phase, panel.tier, panel.params) for panel in found]
    return [
        row
        for row, record in rows(run)
        if choice.has(record) and record["floor"] <= floors and _place(chart, record) in places
    ]


def _place(chart: Chart, record: Record) -> tuple[str, str | None, dict[str, object]]:
    params = {name: value for name, value in record["params"].items() if name not in chart.spans}
    return record["phase"], record["tier"], params
