"""A chart as a sheet that can be sent alone: its panels, of what run and machine they are, and what is doubted.

One Vega-Lite specification without a config. `charts.draw` makes a picture of it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from dyno.report.charts import curves
from dyno.report.charts.chart import Chart, Record, unit_of
from dyno.report.charts.rows import Panel
from dyno.report.tables import display_limits, heading, row_titles, wording
from dyno.report.tables.notes import caveats
from dyno.report.tables.table import Row
from dyno.results import Run
from dyno.stats.doubts import MEANINGS
from dyno.stats.summary import cached

TITLE, SUBTITLE, REMARK = 18, 12, 11
"""Sizes of letters in pixels."""
LETTER = 0.56
"""Width of a letter as a share of its size, rather too wide than too narrow: a long line would widen the sheet."""
MARGIN, AXIS = 24, 80
NARROWEST = 460
"""Of a panel, with its axes, where there are several in a line."""


def spec(
    run: Run, chart: Chart, panels: Sequence[Panel], rows: Sequence[Row], width: int, said: Sequence[str] = ()
) -> dict[str, Any]:
    """For a picture of that width in pixels; that of the panels is the config's. `rows`: those that are shown.
    `said`: of others."""
    varying, engines = _varying(panels), heading.engines(run)
    views = [_view(chart, engines, panel, varying) for panel in panels]
    shown = {record["engine"] for panel in panels for record in panel.records}
    # One legend for all panels.
    _tell(views, [engine for engine in engines if engine in shown], width)
    views = [{**view, "data": {"values": panel.records}} for view, panel in zip(views, panels, strict=True)]
    columns = max(1, min(len(panels), width // NARROWEST))
    grid: dict[str, Any] = {"concat": views, "columns": columns, "spacing": {"row": 32, "column": 40}}
    notes = [*said, *_says(run, chart, panels), *_against(rows)]
    if len(notes) > display_limits.NOTES:
        notes = [
            *notes[: display_limits.NOTES],
            f"And {len(notes) - display_limits.NOTES:,} more remarks: `dyno show` has all.",
        ]
    if against := _wrapped(notes, width, REMARK):
        foot = {"orient": "bottom", "anchor": "start", "fontSize": REMARK, "fontWeight": 400, "lineHeight": 15}
        grid["title"] = {"text": against, "offset": 16, "style": "remark", **foot}
    subtitle = _wrapped(_about(run, panels), width, SUBTITLE)
    title = {"text": _title(chart, panels), "fontSize": TITLE, "subtitle": subtitle, "offset": 18}
    return {"title": title, "vconcat": [grid]}


def _view(chart: Chart, engines: Sequence[str], panel: Panel, varying: Sequence[str]) -> dict[str, Any]:
    """Without its records."""
    view = chart.spec(engines, unit_of(panel.records[0]))
    if not (text := _named(panel, varying)):
        return view
    # From where the panel itself begins, or panels with longer names would have theirs elsewhere.
    return {**view, "title": {"text": text, "frame": "group"}}


def _tell(spec: Any, engines: Sequence[str], width: int) -> None:
    """Leaves out of a specification's legends the engines that are not shown, whose colours stay theirs."""
    for part in spec.values() if isinstance(spec, dict) else spec if isinstance(spec, list) else ():
        _tell(part, engines, width)
    if isinstance(spec, dict) and spec.get("field") == "engine" and spec.get("legend"):
        columns = curves.columns(engines, width - MARGIN - AXIS)
        spec["legend"] = {**spec["legend"], "values": list(engines), "columns": columns}


def _facts(panel: Panel) -> dict[str, str]:
    """What tells a panel from others."""
    against = {f"{record['by']} against {record['baseline']}" for record in panel.records if "baseline" in record}
    facts = {
        "phase": panel.phase,
        "tier": row_titles.tier(panel.tier),
        **{n: f"{n}={v}" for n, v in panel.params.items()},
    }
    return {**facts, **({"baseline": against.pop()} if against else {})}


def _varying(panels: Sequence[Panel]) -> list[str]:
    every = [_facts(panel) for panel in panels]
    return [name for name in every[0] if any(facts.get(name) != every[0][name] for facts in every)]


def _named(panel: Panel, names: Sequence[str]) -> str:
    facts = _facts(panel)
    return row_titles.named(*(facts[name] for name in names if name in facts))


def _title(chart: Chart, panels: Sequence[Panel]) -> str:
    """The chart's, and what is the same in all panels."""
    varying = _varying(panels)
    same = _named(panels[0], [name for name in _facts(panels[0]) if name not in varying])
    return f"{chart.title}: {same}" if same else chart.title


def _about(run: Run, panels: Sequence[Panel]) -> list[str]:
    return _made(run, any("ratio" in record for panel in panels for record in panel.records))


@cached
def _made(run: Run, ratios: bool) -> list[str]:
    interval = f", of ratios {wording.LEVEL}" if ratios else ""
    trials = f"{heading.trials(run)}{interval}; {heading.length(run)}; seed {run.plan['seed']}"
    made = heading.maker(run)
    asked = f"{run.plan['suite']}: {heading.fixed(run)}"
    return [asked, trials, f"{heading.machine(run)}{f'; {made}' if made else ''}"]


def _against(rows: Sequence[Row]) -> list[str]:
    """A line for each doubt and caveat of the rows, with the names, and for each row without a number."""
    doubted: dict[str, dict[str, None]] = {}
    for row in rows:
        for doubt in row.doubts:
            doubted.setdefault(MEANINGS[doubt.code], {})[row.name] = None
    missing = {
        f"no number for {row.name} in {row.summary.phase}: {row.summary.why}": None
        for row in rows
        if not row.summary.valid
    }
    measured = {row.name for row in rows if row.summary.valid}
    doubts = (
        f"{meaning} ({'all' if len(names) > 2 and measured <= set(names) else ', '.join(names)})"
        for meaning, names in doubted.items()
    )
    return [*doubts, *caveats(rows), *missing]


def _says(run: Run, chart: Chart, panels: Sequence[Panel]) -> list[str]:
    """What the chart says of its panels; of several, with their names."""
    names = _varying(panels)
    every: dict[str, list[Record]] = {}
    for said in chart.says(run):
        every.setdefault(repr((said["phase"], said["tier"], said["params"])), []).append(said)
    lines = []
    for panel in panels:
        shown = {record["engine"] for record in panel.records}
        where = _named(panel, names)
        for said in every.get(repr((panel.phase, panel.tier, panel.params)), ()):
            if shown >= set(said["engines"]):
                lines.append(f"{where}: {said['text']}" if where else said["text"])
    return lines


def _wrapped(lines: Sequence[str], width: int, size: int) -> list[str]:
    letters = int((width - MARGIN) / (size * LETTER))
    return [part for line in lines for part in textwrap.wrap(line, letters)]
