"""Charts of a run as self-contained pictures: the chosen panels on a sheet, with the run, the machine and the doubts.
The library vl-convert draws Vega-Lite specifications as SVG or PNG, without a browser."""

import re
import resource
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import NamedTuple

from dyno.contracts.model import UsageError
from dyno.contracts.settings import unknown_name_message
from dyno.contracts.value_types import JsonObject
from dyno.host import installation
from dyno.report import charts
from dyno.report.charts import bars, lines, vega
from dyno.report.charts.chart import Chart, Panel, Record, panels, place, rows, unit_of
from dyno.report.tables import display, notes, wording
from dyno.report.tables.notes import caveats
from dyno.report.tables.table import BY, Row
from dyno.results import Run
from dyno.stats.compare import Table, check_baseline
from dyno.stats.costs import Prices
from dyno.stats.doubts import MEANINGS
from dyno.stats.summary import group_values

ONE, SEVERAL = 800, 1160
"""Width in pixels of a single panel, and of a grid of several."""
TITLE = 18
SUBTITLE = 12
REMARK = 11
"""Font sizes in pixels."""
LETTER = 0.56
"""Estimated width of a letter as a share of its font size. It is rather too wide, because a long line would widen the
sheet."""
MARGIN, AXIS = 24, 80
PANEL_WIDTH = 460
"""Minimum width in pixels of a panel with its axes, if several are in a line."""


@dataclass(frozen=True)
class Choice:
    """The part of a run to show; all of it by default."""

    phases: Sequence[str] = ()
    tier: str | None = None
    params: Mapping[str, Sequence[str]] = field(default_factory=dict)
    engines: Sequence[str] = ()
    baseline: str | None = None
    """Baseline of ratios; None for the best row of each panel."""

    def includes(self, record: Record) -> bool:
        varying = record["params"]
        return (
            (not self.phases or record["phase"].partition(BY)[0] in self.phases)
            and self.tier in (None, record["tier"])
            and (not self.engines or record["engine"] in self.engines)
            # A parameter that does not vary has the chosen value, because `check` refuses other values.
            and all(str(varying[name]) in values for name, values in self.params.items() if name in varying)
        )


class Drawing(NamedTuple):
    """A picture to draw. It does not refer to the run, so that a large run can be freed."""

    file: str
    """The chart's name as a file name."""
    spec: JsonObject
    """Vega-Lite specification without a config."""
    width: int

    def svg(self, dark: bool = False) -> str:
        return svg(self.spec, self.width, dark)


def chart(run: Run, name: str, by: str | None = None, prices: Prices | None = None) -> Chart:
    """Returns the chart of this name. `by`: the metric or fact of a sweep. Raises UsageError."""
    by_name = {chart.name: chart for chart in charts.list_charts(run, by, prices)}
    parameter = name.removeprefix(lines.PREFIX)
    is_sweep = parameter in run.cells[0].params and name == lines.name_of(parameter)
    if is_sweep:
        # A parameter with a single value has a chart too, so that the error can say that several values are needed.
        by_name.setdefault(name, lines.sweep(run, parameter, by))
    elif name not in by_name:
        raise UsageError(unknown_name_message(f"{run.path}: chart", name, by_name))
    if by is not None and not is_sweep:
        raise UsageError(f"--metric is for sweeps: {name} is not a sweep")
    return by_name[name]


def drawings(run: Run, choice: Choice, width: int | None = None, prices: Prices | None = None) -> list[Drawing]:
    """Returns the drawings of all charts that have something to show. Raises UsageError if there are none."""
    by_chart = ((chart, _panels(run, chart, choice)) for chart in charts.list_charts(run, prices=prices))
    pictures = [_draw_panels(run, chart, choice, panels, width) for chart, panels in by_chart if panels]
    if not pictures:
        raise UsageError(f"{run.path} has nothing of what was chosen for any chart")
    return pictures


def draw_chart(run: Run, chart: Chart, choice: Choice, width: int | None = None) -> Drawing:
    """Returns the drawing of one chart. Raises UsageError if it has nothing to show."""
    chosen = _panels(run, chart, choice)
    if not chosen:
        if _panels(run, chart, Choice()):
            some = "of what was chosen "
        else:
            some = ""
        raise UsageError(f"{run.path} has nothing {some}for the chart {chart.name}, which takes {chart.needs}")
    return _draw_panels(run, chart, choice, chosen, width)


def check(run: Run, choice: Choice) -> Choice:
    """Returns the choice with the engines' labels in tables, and the baseline's name in the plan. Raises UsageError
    for names that the run does not have."""
    labels = {name: cell.label for cell in run.cells for name in (cell.asked, cell.label)}
    tiers = list(dict.fromkeys(cell.tier_name for cell in run.cells if cell.tier_name))
    values = {name: list(dict.fromkeys(str(cell.params[name]) for cell in run.cells)) for name in run.cells[0].params}
    chosen = (
        *(("phase", phase, run.plan.phases) for phase in choice.phases),
        *(("tier", tier, tiers) for tier in [choice.tier] if tier is not None),
        *(("engine", engine, labels) for engine in choice.engines),
        *(("parameter", name, values) for name in choice.params),
        *((f"{name} of", value, values.get(name, ())) for name, given in choice.params.items() for value in given),
    )
    for what, name, names in chosen:
        if name not in names:
            raise UsageError(unknown_name_message(f"{run.path}: {what}", name, dict.fromkeys(names)))
    engines = [labels[engine] for engine in choice.engines]
    return replace(choice, engines=engines, baseline=check_baseline(run, choice.baseline))


def _panels(run: Run, chart: Chart, choice: Choice) -> list[Panel]:
    """Returns the panels with something to draw."""

    def baseline(table: Table) -> str | None:
        # The default is the best of the chosen engines.
        chosen = (row.cell.row for row, _ in table.rows if row.cell.label in choice.engines)
        return choice.baseline or next(chosen, None)

    if chart.name == "ratios":
        chosen: Iterable[Record] = filter(choice.includes, bars.ratios_against(run, baseline))
    else:
        chosen = chart.select_records(run, choice.includes)
    return [panel for panel in panels(chart, chosen) if any(not one["floor"] for one in panel.records)]


def _engines(panel: Panel) -> list[str]:
    return list(dict.fromkeys(record["engine"] for record in panel.records))


def _draw_panels(run: Run, chart: Chart, choice: Choice, every: Sequence[Panel], width: int | None) -> Drawing:
    many = len(every) > display.PANELS or sum(len(panel.records) for panel in every) > display.MARKS
    most = display.FEW_PANELS if many else display.PANELS
    shown, left_out = display.take_first(every, most, "panels", "--phase, --tier and -p choose others")
    widest = max(len(_engines(panel)) for panel in shown)
    cut = []
    for panel in shown:
        engines = set(_engines(panel)[: display.ROWS])
        cut.append(replace(panel, records=[record for record in panel.records if record["engine"] in engines]))
    if widest > display.ROWS:
        # The order of a panel that spans a parameter is not a ranking.
        which = "first" if chart.spans else "best"
        rest = f"The {which} {display.ROWS} of up to {widest:,} engines in a panel: -e chooses others."
        left_out = f"{left_out} {rest}".strip()
    pixels = width or (ONE if len(cut) == 1 else SEVERAL)
    return Drawing(chart.file, _sheet(run, chart, choice, cut, pixels, left_out), pixels)


def _sheet(run: Run, chart: Chart, choice: Choice, panels: Sequence[Panel], width: int, left_out: str) -> JsonObject:
    """Returns the specification of a sheet that is `width` pixels wide. The width of its panels is set by the config.
    `left_out`: a sentence about the parts that are not shown."""
    facts = []
    for panel in panels:
        first = panel.records[0]
        fact = {"phase": panel.phase, "tier": display.tier(panel.tier)}
        fact |= {name: f"{name}={value}" for name, value in panel.params.items()}
        fact |= {"baseline": f"{first['by']} against {first['baseline']}"} if "baseline" in first else {}
        facts.append(fact)
    # Facts that distinguish panels are in the panels' titles, the others in the sheet's title.
    varying = [name for name in facts[0] if any(other.get(name) != facts[0][name] for other in facts)]
    titles = [display.join_parts(*(fact[name] for name in varying if name in fact)) for fact in facts]
    same = display.join_parts(*(text for name, text in facts[0].items() if name not in varying))
    engines = notes.engines(run)
    # Titles are aligned with the group rather than the axes: otherwise a panel with longer names would have its title
    # elsewhere.
    views = [chart.spec(engines, unit_of(panel.records[0])) for panel in panels]
    for view, title in zip(views, titles, strict=True):
        view |= {"title": {"text": title, "frame": "group"}} if title else {}
    shown = {record["engine"] for panel in panels for record in panel.records}
    named = [engine for engine in engines if engine in shown]
    vega.limit_legends(views, named, vega.legend_columns(named, width - MARGIN - AXIS))
    views = [{**view, "data": {"values": panel.records}} for view, panel in zip(views, panels, strict=True)]
    columns = max(1, min(len(panels), width // PANEL_WIDTH))
    grid: JsonObject = {"concat": views, "columns": columns, "spacing": {"row": 32, "column": 40}}
    remarks = [
        *([left_out] if left_out else []),
        *_sentences(run, chart, panels, titles),
        *_doubts(_rows(run, chart, choice, panels)),
    ]
    if len(remarks) > display.NOTES:
        rest = f"And {len(remarks) - display.NOTES:,} more remarks: `dyno show` has all."
        remarks = [*remarks[: display.NOTES], rest]
    if remarks:
        style = {"orient": "bottom", "anchor": "start", "fontSize": REMARK, "fontWeight": 400, "lineHeight": 15}
        grid["title"] = {"text": _wrap_lines(remarks, width, REMARK), "offset": 16, "style": "remark", **style}
    if any("ratio" in r for panel in panels for r in panel.records):
        interval = f", of ratios {wording.LEVEL}"
    else:
        interval = ""
    trials = f"{notes.trials(run)}{interval}; {notes.length(run)}; seed {run.plan.seed}"
    machine = "; ".join(filter(None, (notes.machine(run), notes.maker(run))))
    about = [f"{run.plan.suite}: {notes.fixed_params(run)}", trials, machine]
    title = f"{chart.title}: {same}" if same else chart.title
    subtitle = _wrap_lines(about, width, SUBTITLE)
    return {"title": {"text": title, "fontSize": TITLE, "subtitle": subtitle, "offset": 18}, "vconcat": [grid]}


def _rows(run: Run, chart: Chart, choice: Choice, panels: Sequence[Panel]) -> list[Row]:
    """Returns the rows of the panels, including those without a figure."""
    records = [record for panel in panels for record in panel.records]
    floors = any(record["floor"] for record in records)
    places, engines = {place(chart, record) for record in records}, {record["engine"] for record in records}
    cut = any(len(_engines(panel)) == display.ROWS for panel in panels)
    return [
        row
        for row, record in rows(run)
        if choice.includes(record)
        and record["floor"] <= floors
        and place(chart, record) in places
        and (not cut or record["engine"] in engines)
    ]


def _doubts(rows: Sequence[Row]) -> list[str]:
    """Returns a line for each doubt and caveat with the rows that have it, and for each row without a number."""
    by_doubt = group_values((MEANINGS[doubt.code], row.name) for row in rows for doubt in row.doubts)
    valid = {row.name for row in rows if row.summary.valid}
    doubts = (
        f"{meaning} ({'all' if len(names) > 2 and valid <= names.keys() else ', '.join(names)})"
        for meaning, names in ((meaning, dict.fromkeys(of)) for meaning, of in by_doubt.items())
    )
    missing = (f"no number for {r.name} in {r.summary.phase}: {r.summary.why}" for r in rows if not r.summary.valid)
    return [*doubts, *caveats(rows), *dict.fromkeys(missing)]


def _sentences(run: Run, chart: Chart, panels: Sequence[Panel], titles: Sequence[str]) -> list[str]:
    """Returns the chart's sentences about its panels, each with the panel's title if there is one."""
    by_place = group_values((repr((one["phase"], one["tier"], one["params"])), one) for one in chart.says(run))
    lines = []
    for panel, title in zip(panels, titles, strict=True):
        shown = {record["engine"] for record in panel.records}
        for sentence in by_place.get(repr((panel.phase, panel.tier, panel.params)), ()):
            if shown >= set(sentence["engines"]):
                lines.append(f"{title}: {sentence['text']}" if title else sentence["text"])
    return lines


def _wrap_lines(lines: Sequence[str], width: int, size: int) -> list[str]:
    letters = int((width - MARGIN) / (size * LETTER))
    return [part for line in lines for part in textwrap.wrap(line, letters)]


# -- drawing ------------------------------------------------------------------------------------------------

NARROWEST, CRAMPED = 120, 260
"""Minimum width of a panel without its axes, in pixels. The first is for a panel alone in its line, the second for a
panel beside others."""
TRIES = 5
NEEDS = "pictures need vl-convert-python"
GIB = 1 << 30
ADDRESS_SPACE = 66 * GIB
"""Address space that vl-convert's V8 reserves at start. With 38 GiB it aborts the process; 67 GiB are enough."""


def load(purpose: str) -> ModuleType:
    """Returns the module vl_convert. Raises UsageError; if the module is missing, its text begins with `purpose`."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < ADDRESS_SPACE:
        raise UsageError(
            f"charts need {ADDRESS_SPACE // GIB} GiB of address space, and the limit is {limit / GIB:.1f} GiB:"
            " raise it by `ulimit -v unlimited`"
        )
    try:
        import vl_convert
    except ModuleNotFoundError:
        raise UsageError(f"{purpose}: {installation.extra_command('report')}") from None
    except ImportError as error:
        raise UsageError(f"vl-convert can't be loaded: {' '.join(str(error).split())}") from None
    return vl_convert


def svg(sheet: JsonObject, width: int, dark: bool = False) -> str:
    """Draws a sheet exactly `width` pixels wide. The panels share the width that axes and figures leave. If that is
    too little, the sheet gets fewer columns. Raises UsageError if even a single column is too wide."""
    (grid,) = sheet["vconcat"]
    for columns in range(grid["columns"], 0, -1):
        drawn, needed = _fit_width({**sheet, "vconcat": [{**grid, "columns": columns}]}, width, columns, dark)
        if drawn is not None:
            return drawn
    raise UsageError(f"--width {width} is too narrow for this chart: it needs at least {needed}")


def png(drawn: str, scale: float) -> bytes:
    content: bytes = load(NEEDS).svg_to_png(drawn, scale=scale)
    return content


def _fit_width(sheet: JsonObject, width: int, columns: int, dark: bool) -> tuple[str | None, int]:
    """Returns the drawing, or None if its panels would be too narrow, and the width that it needs."""

    def longest(view: JsonObject) -> int:
        records = view["data"]["values"]
        return max(sum(len(str(v)) for v in record.values() if not isinstance(v, list)) for record in records)

    (grid,) = sheet["vconcat"]
    narrowest = NARROWEST if columns == 1 else CRAMPED
    panel = max(narrowest, width // columns - 200)
    right = 0
    trial = sheet
    if len(grid["concat"]) > 2 * columns:
        # Drawing is slow. First draw only the panel with the longest record of each column, which usually gives the
        # right width.
        widest = [max(grid["concat"][at::columns], key=longest) for at in range(columns)]
        trial = {**sheet, "vconcat": [{**grid, "concat": widest}]}
    config = {**vega.config(dark), "background": vega.DARK if dark else vega.LIGHT}
    for _ in range(TRIES):
        config["padding"] = dict.fromkeys(("left", "top", "bottom"), vega.PADDING) | {"right": vega.PADDING + right}
        config["view"] = {**config["view"], "continuousWidth": panel, "discreteWidth": panel}
        drawn: str = load(NEEDS).vegalite_to_svg({**trial, "config": config})
        match = re.search(r'<svg[^>]* width="(\d+)', drawn)
        assert match, "an SVG has a width"
        taken = int(match[1]) - right
        needed = taken + (narrowest - panel) * columns
        rest = width - taken
        if rest == right and trial is sheet:
            return drawn, needed
        # Rounded down, also below zero, because the drawing must not be too wide.
        panel = panel + rest // columns
        right = rest % columns
        trial = sheet
        if panel < narrowest:
            break
    return None, needed
