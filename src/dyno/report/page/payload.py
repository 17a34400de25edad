"""The data of a page. For its program: the choices in its filters, and the records of the charts. Drawn charts of the
first place, which are visible before any program runs, and without one; the program replaces them with its own.
Static tables: all results as text, with counts of their doubts; plan, machine and engines' settings in full.
"""

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial

from dyno.contracts.value_types import JsonMapping, JsonObject
from dyno.options import SEARCHED
from dyno.report.charts import bars, plot, vega
from dyno.report.charts.chart import Chart, Column, Record, unit_of
from dyno.report.charts.chart import common as common_keys
from dyno.report.tables import display, notes, units
from dyno.report.tables.overview import Place, Ranking, phase_aliases, place
from dyno.report.tables.table import Group, Row, cells, varying_params
from dyno.results import Run
from dyno.stats import answer
from dyno.stats.doubts import MEANINGS
from dyno.stats.summary import group_values


def common(charts: Iterable[Chart]) -> dict[str, object]:
    """Returns charts and looks, which are the same for all runs of the page."""
    keys = ("name", "file", "title", "spans", "needs", "zooms")
    return {
        "charts": [
            {**{key: getattr(chart, key) for key in keys}, "columns": [asdict(column) for column in chart.columns]}
            for chart in charts
        ],
        "config": {"light": vega.config(dark=False), "dark": vega.config(dark=True)},
        "paper": {"light": vega.LIGHT, "dark": vega.DARK},
        "unknown": units.UNKNOWN,
        "most": {"rows": display.ROWS, "lines": display.LINES},
    }


def of_run(
    run: Run, name: str, groups: Sequence[Group], ranked: Mapping[Place, Ranking], charts: Sequence[Chart]
) -> JsonObject:
    """Returns the choices, the rows with their remarks, and the records of every chart."""
    rows = [row for group in groups for row in group.rows]
    changing = varying_params(run)
    # Curves with all their points would be most of a large page.
    brief = len(rows) > display.CURVES
    packed, specs = JsonObject(), JsonObject()
    # One chart at a time: the records of all charts together would take most of the memory for a large page.
    for chart in charts:
        records = (chart.brief if brief and chart.brief else chart.records)(run)
        # Packed as rows of values, with the names stored once.
        names = list(dict.fromkeys(key for record in records for key in record))
        rows_of_values = [
            [*(record.get(key) for key in names), _format_figures(record, chart.columns)] for record in records
        ]
        packed[chart.name] = {"names": [*names, "texts"], "rows": rows_of_values}
        specs[chart.name] = {
            unit: chart.spec(notes.engines(run), unit) for unit in dict.fromkeys(map(unit_of, records))
        }
    row_data = []
    for row in rows:
        cell = row.summary.cell
        throughput = row.summary.throughput
        ranking = ranked.get(place(row))
        of_row = {
            **common_keys(cell, row.place, changing),
            "best": ranking is not None and ranking.best == cell.label,
            "rate": None if throughput is None else throughput.median,
            "why": row.summary.why,
            "doubts": [doubt.text for doubt in row.doubts],
            "caveats": [caveat.text for caveat in row.summary.caveats if not cell.floor],
        }
        row_data.append(of_row)
    return {
        "name": name,
        "engines": [
            {"name": engine, "floor": floor}
            for engine, floor in {cell.label: cell.floor for cell in run.cells}.items()
        ],
        "phases": list(dict.fromkeys(row.place for row in rows)),
        "names": phase_aliases(run),
        "tiers": list(dict.fromkeys(group.tier.value if group.tier else "" for group in groups)),
        "start": _start(run, rows, changing),
        "params": {param: list(dict.fromkeys(cell.params[param] for cell in run.cells)) for param in changing},
        "rows": row_data,
        "records": packed,
        "specs": specs,
        "brief": brief,
        "baselines": bars.has_all(run),
        "says": {chart.name: says for chart in charts if (says := chart.says(run))},
    }


def _format_figures(record: Record, columns: Iterable[Column]) -> dict[str, str]:
    """Returns the texts of the record's figures in the chart's table, by key. Unknown figures are left out."""
    texts = {}
    for column in columns:
        value = record.get(column.key)
        kind = record["write"] if column.kind == "own" else column.kind
        if kind != "text" and value is not None:
            texts[column.key] = _FORMATS[kind](value)
    return texts


def _format_number(value: float) -> str:
    return f"{value:,.6f}".rstrip("0").removesuffix(".")


_FORMATS: Mapping[str, Callable[[float], str]] = {
    "rate": units.rate,
    "bandwidth": units.bandwidth,
    "ns": units.duration,
    "bytes": units.size,
    "ratio": units.ratio,
    "count": _format_number,
    "seconds": lambda seconds: f"{seconds:.4g} s",
}
"""Formats of figures, by the kind of their column."""


def _start(run: Run, rows: Sequence[Row], changing: Sequence[str]) -> dict[str, object]:
    """Returns the place that the page shows first: that of the first answer, in a phase with latencies if there is
    one."""
    first = next(iter(answer.answers(run)), None)
    if first:
        tier = first.best.tier
        params = first.params
    else:
        tier = run.cells[0].tier
        params = run.cells[0].params
    places = {r.summary.phase: r.place for r in reversed(rows) if first is None or r.tool == first.reported_by}
    if first:
        phases = [places[phase] for phase in first.phases]
    else:
        phases = list(places.values())
    timed = {row.place for row in rows if row.summary.latency_ns["p50"] is not None}
    phase = next((phase for phase in phases if phase in timed), phases[0])
    return {"phase": phase, "tier": tier.value if tier else "", "params": {name: params[name] for name in changing}}


# -- drawn charts -------------------------------------------------------------------------------------------

WIDTH = 1_340
"""Width in pixels; narrower windows scale the drawing down."""
MOST_BYTES = 40_000
"""Maximum size of a drawing. Larger ones are left to the program, because pages of large runs would exceed 2 MB."""
CONCAT_MARGIN = 104
"""The same value as in figure.js."""
LIGHT = vega.config(dark=False)
# Colours that the page's style defines, so that they change in dark mode: see page.css.
TEXT, DIM, GRID = (LIGHT["axis"][name] for name in ("labelColor", "titleColor", "gridColor"))
COLOURS = {TEXT: "var(--ink)", DIM: "var(--dim)", GRID: "var(--line)"}


def choose_records(run: Run, charts: Sequence[Chart], payload: JsonMapping) -> list[tuple[Chart, list[Record]]]:
    """Returns the records to draw, by chart. `payload`: the run's data for the page's program."""
    start = payload["start"]
    best = next((row["engine"] for row in payload["rows"] if row["best"] and _is_here(row, start, ())), None)
    by_chart = []
    for chart in charts:
        here = partial(_is_here, start=start, spans=chart.spans)
        if payload["brief"] and chart.brief:
            records = list(chart.select_records(run, here))
        else:
            packed = payload["records"][chart.name]
            unpacked = (dict(zip(packed["names"], row, strict=True)) for row in packed["rows"])
            records = list(filter(here, unpacked))
        records = [record for record in records if record.get("baseline", best) == best]
        engines = list(dict.fromkeys(record["engine"] for record in records))[: display.ROWS]
        if records := [record for record in records if record["engine"] in engines]:
            by_chart.append((chart, records))
    return by_chart


def stills(run: Run, by_chart: Iterable[tuple[Chart, Sequence[Record]]]) -> dict[str, str]:
    """Returns SVGs by the charts' names, without those that are too large."""
    drawings = {chart.name: _draw_svg(chart, notes.engines(run), records) for chart, records in by_chart}
    return {name: svg for name, svg in drawings.items() if len(svg) <= MOST_BYTES}


def _is_here(record: JsonMapping, start: JsonMapping, spans: Sequence[str]) -> bool:
    """Returns whether the record belongs to the first place. It does the same as `isHere` in state.js, without
    floors."""
    params = {name: value for name, value in record["params"].items() if name not in spans}
    return (
        not record["floor"]
        and (record["phase"], record["tier"] or "") == (start["phase"], start["tier"])
        and all(start["params"][name] == value for name, value in params.items())
    )


def _draw_svg(chart: Chart, engines: Sequence[str], records: Sequence[Record]) -> str:
    vl_convert = plot.load("the report needs vl-convert; install it by")

    spec = chart.spec(engines, unit_of(records[0]))
    panels = spec.get("vconcat")
    for panel in panels or [spec]:
        if panels:
            panel["width"] = WIDTH - CONCAT_MARGIN
        else:
            panel["width"] = WIDTH
    shown = {record["engine"] for record in records}
    vega.limit_legends(spec, [engine for engine in engines if engine in shown])
    converted = vl_convert.vegalite_to_vega({**spec, "data": {"values": list(records)}, "config": LIGHT})
    if not panels:
        converted["autosize"] = {"type": "fit-x", "contains": "padding"}
    svg: str = vl_convert.vega_to_svg(converted)

    def on_page(tag: re.Match[str]) -> str:
        """Converts a tag for the page: with the page's colours, short numbers and unique ids."""
        text = tag[0]
        for colour, variable in COLOURS.items():
            text = text.replace(f'"{colour}"', f'"{variable}"')
        # The element around the drawing has the description for screen readers.
        text = re.sub(r' (aria-[a-z]+|role)="[^"]*"', "", text)
        text = re.sub(r"\d+\.\d{2,}", lambda number: f"{float(number[0]):.1f}", text)
        # All drawings of the page number their ids from the same start.
        return re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{chart.file}-", text)

    # Only tags are changed: the texts between them may contain versions, which look like numbers.
    return re.sub(r"<[^>]*>", on_page, svg)


# -- static tables ------------------------------------------------------------------------------------------

MOST_FLOORS = 4
FIGURES = {
    "rate": "{unit}/s",
    "each": "a {unit}",
    "bandwidth": "bandwidth",
    "interval": "95 % interval",
    "cpu": "CPU/{unit}",
    "client": "client CPU/{unit}",
    "server": "server CPU/{unit}",
    "trials": "trials",
    **{name: name for name in ("p50", "p99", "p99.99", "max")},
    "resp p50": "response p50",
    "resp p99": "response p99",
    **{name: name for name in ("memory", "client memory", "server memory", "on disk")},
}
"""Title of each figure, by the column of `table.cells`."""


@dataclass(frozen=True)
class Result:
    """A row of a table of results."""

    name: str
    best: bool
    params: tuple[str, ...]
    figures: tuple[str, ...]
    """Texts by `Results.heads`; empty for an invalid row."""
    why: str
    """Why the row is invalid."""
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Results:
    """The table of one phase at one tier."""

    group: Group
    heads: tuple[str, ...]
    """Titles of the figures that at least one row has."""
    rows: tuple[Result, ...]
    rest: str
    """Sentence about rows that are left out."""
    floors: str
    """Sentence with the figures of null engines."""


def results(
    group: Group,
    changing: Sequence[str],
    ranked: Mapping[Place, Ranking],
    apart: bool,
    most: int = display.RESULTS,
) -> Results:
    """Returns the table of a group. `apart`: whether clients and servers have separate columns.
    `most`: maximum number of rows."""
    engines = [row for row in group.rows if not row.summary.cell.floor]
    shown, rest = display.take_first(engines, most, "rows", "the CSV among the downloads has all")
    figures = [{**cells(row, None, changing, apart), "trials": str(len(row.summary.samples))} for row in shown]
    valid = [texts for row, texts in zip(shown, figures, strict=True) if row.summary.throughput is not None]
    known = [name for name in FIGURES if any(texts[name] not in ("", units.UNKNOWN) for texts in valid)]
    rows = []
    for row, texts in zip(shown, figures, strict=True):
        ranking, summary = ranked.get(place(row)), row.summary
        measured = summary.throughput is not None
        rows.append(
            Result(
                name=row.name,
                best=ranking is not None and bool(ranking.seen) and ranking.best == row.name,
                params=tuple(str(summary.cell.params[name]) for name in changing),
                figures=tuple(texts[name] or units.UNKNOWN for name in known) if measured else (),
                why="" if measured else summary.why or "not measured",
                remarks=tuple(row.remarks()),
            )
        )
    heads = tuple(FIGURES[name].format(unit=group.rows[0].summary.unit) for name in known)
    # The floors show the harness's own cost. Of many, only the first and the last are named.
    floors = [row.summary for row in group.rows if row.summary.cell.floor]
    floor_texts = []
    for floor in floors if len(floors) <= MOST_FLOORS else [floors[0], floors[-1]]:
        params = units.params(floor.cell.params, changing)
        figure = floor.why or "not measured"
        if floor.throughput is not None:
            figure = f"{units.rate(floor.throughput.median)} {floor.unit}/s"
        floor_texts.append(f"{floor.cell.label}{f' with {params}' if params else ''} {figure}")
    if len(floors) <= MOST_FLOORS:
        which = ""
    else:
        which = f", of {len(floors):,} the first and the last"
    if floor_texts:
        sentence = f"Floors, which do nothing{which}: {', '.join(floor_texts)}."
    else:
        sentence = ""
    return Results(group, heads, tuple(rows), rest, sentence)


def count_doubts(groups: Sequence[Group]) -> list[tuple[str, str]]:
    """Returns the doubts of all rows without null engines: how many rows have each, and its meaning."""
    rows = [row for group in groups for row in group.rows if not row.summary.cell.floor]
    missing = sum(not row.summary.valid for row in rows)
    if missing:
        lines = [(f"{missing} of {len(rows)}", "have no number: the results say why")]
    else:
        lines = []
    counts = Counter(code for row in rows for code in {doubt.code for doubt in row.doubts})
    return lines + [(f"{counts[code]} of {len(rows)}", text) for code, text in MEANINGS.items() if counts[code]]


# -- settings -----------------------------------------------------------------------------------------------

GIB = 1 << 30
# Keys of the plan that have a flag of the same name.
FLAGS = ("samples", "seed", "budget", "duration", "warmup", "arrivals", "loop", "timeout", "retries")
# Parameters of every suite, which have their own flags.
OWN_FLAGS = ("clients", "rate")

Facts = list[tuple[str, str]]


def plan(run: Run) -> Facts:
    """Returns the plan, and the parameters with all their values."""
    facts = [(name, format_by_unit(name, value)) for name, value in run.recorded["plan"].items()]
    return [*facts, *((f"parameter {name}", ", ".join(values)) for name, values in _params(run).items())]


def machine(run: Run) -> list[tuple[str, Facts]]:
    """Returns all facts of the host, by group."""
    host = run.recorded["host"]
    groups = {name: _flat(value) for name, value in host.items() if isinstance(value, Mapping)}
    if other := {name: value for name, value in host.items() if not isinstance(value, Mapping)}:
        groups["other"] = _flat(other)
    return list(groups.items())


def engines(run: Run) -> list[tuple[str, Facts]]:
    """Returns the version and effective settings of each engine's cells. If several cells of an engine have the same
    facts, only the first is listed."""
    by_engine: dict[str, list[tuple[str, Facts]]] = {}
    lasts = {attempt.cell: attempt for attempt in run.attempts if attempt.version is not None}
    known: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for at, cell in enumerate(run.cells):
        last = lasts.get(at)
        if cell.tier is None:
            facts = []
        else:
            facts = [("tier", f"{cell.tier_name}: {display.meaning(cell.tier)}")]
        facts.append(("version", "unknown: no trial got so far" if last is None else last.version or units.UNKNOWN))
        if last is not None:
            facts += [(name, format_by_unit(name, value)) for name, value in (last.settings or {}).items()]
            facts += [(f"fact {name}", format_by_unit(name, value)) for name, value in last.facts.items()]
            facts += [(f"caveat {caveat.code}", caveat.text) for caveat in last.caveats]
        entries = by_engine.setdefault(cell.label, [])
        if (cell.label, tuple(facts)) not in known:
            known.add((cell.label, tuple(facts)))
            if entries:
                params = f" ({units.params(cell.params)})"
            else:
                params = ""
            entries.append((cell.label + params, facts))
    return [entry for entries in by_engine.values() for entry in entries]


def command(run: Run) -> list[str]:
    """Returns the command that makes the same plan, as quoted words. A definition takes two: a bundle repeats it."""
    if run.header.definition is not None:
        publish = ["dyno", "publish", run.path.name, "-o", f"{run.path.stem}.dyno"]
        return [*map(shlex.quote, publish), "&&", "dyno", "replicate", shlex.quote(publish[-1]), "--trust"]
    cells = [cell for cell in run.cells if not cell.floor] or list(run.cells)
    tiers = {cell.tier_name for cell in cells}
    words = ["dyno", "capacity" if run.limits else "run", run.plan.suite]
    names = group_values((cell.asked, cell.name) for cell in cells)
    for asked in sorted(names):
        # Labels are left out, except those that tell rows of the same engine apart.
        labels = list(dict.fromkeys(names[asked]))
        words += [word for label in labels for word in ("-e", f"{label}={asked}" if len(labels) > 1 else asked)]
    for name, values in _params(run).items():
        if name in OWN_FLAGS:
            words += [f"--{name}", ",".join(values)]
        elif any(values):
            # A comma in a value would separate two values. An empty value is the default, and can't be given.
            texts = [value.replace(",", r"\,") for value in values]
            words += ["-p", f"{name}={','.join(texts)}"]
    # If there are several tiers, each is its engine's default.
    if len(tiers) == 1 and (tier := next(iter(tiers))) is not None:
        words += ["--tier", tier]
    words += ["--phases", ",".join(run.plan.phases)]
    options = {name: run.recorded["plan"].get(name) for name in (*FLAGS, "within", "confirm")}
    if run.limits:
        words += [word for limit in run.plan.limit for word in ("--limit", limit)]
        options |= dict.fromkeys(SEARCHED)
    if options["duration"] is not None:
        options["budget"] = None
    options["until"] = run.plan.until_text
    for name, size in (("memory", run.plan.memory), ("confine", run.plan.confine)):
        options[name] = None if size is None else size / GIB
    for name, value in options.items():
        if value is not None:
            words += [f"--{name}", f"{value:g}" if isinstance(value, float) else str(value)]
    words += [f"--{name}" for name in ("awake", "profile") if getattr(run.plan, name)]
    return [shlex.quote(word) for word in words]


def _params(run: Run) -> dict[str, list[str]]:
    # A search chooses its rates.
    names = [name for name in run.cells[0].params if not (run.limits and name == "rate")]
    return {name: list(dict.fromkeys(str(units.yes_no(cell.params[name])) for cell in run.cells)) for name in names}


def _flat(values: Mapping[str, object], prefix: str = "") -> Facts:
    facts: Facts = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            facts += _flat(value, f"{prefix}{name} ")
        else:
            facts.append((f"{prefix}{name}", format_by_unit(name, value)))
    return facts


def format_by_unit(name: str, value: object) -> str:
    """Formats a value by the unit in its name."""
    if value is None:
        return units.UNKNOWN
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if name.endswith("_bytes"):
            return units.size(int(value))
        if name.endswith("_ns"):
            return units.duration(value)
        if name.endswith("_percent"):
            return f"{value:g} %"
    return str(units.yes_no(value))
