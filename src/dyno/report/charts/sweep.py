"""A metric, or a fact, against a numeric parameter that has several values: a line for each engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dyno.contracts.model import UsageError
from dyno.contracts.settings import unknown
from dyno.report.charts import lines
from dyno.report.charts.chart import Chart, Column, Record
from dyno.report.charts.rows import measured
from dyno.report.tables.sweeps import crossed, ended, ending, sentence
from dyno.report.tables.table import Row, varying
from dyno.results import Run
from dyno.stats.estimate import Estimate, estimate
from dyno.stats.machine import cores
from dyno.stats.metric import METRICS, THROUGHPUT, Metric, estimated, fitting
from dyno.stats.sweep import End, is_number, logarithmic, swept, values

CLIENTS, PREFIX = "clients", "sweep:"
NAME = f"{PREFIX}PARAM"
KINDS = {"items": "rate", "bytes": "bandwidth", "ns": "ns"}
"""How figures of a metric are written, by what it counts."""


@dataclass(frozen=True)
class Look:
    """How the figures of a unit stand on their axis."""

    title: str
    kind: str
    log: bool


def names(run: Run) -> list[str]:
    """Of the charts that the run has: clients first, whose name is shorter."""
    return [name_of(parameter) for parameter in sorted(swept(run), key=lambda name: name != CLIENTS)]


def name_of(parameter: str) -> str:
    return parameter if parameter == CLIENTS else f"{PREFIX}{parameter}"


def chart(run: Run, parameter: str, by: str | None = None) -> Chart:
    """`by`: a metric, or a fact of the run, in place of what rows are compared by. Raises UsageError."""
    metric, fact = asked(run, by)
    found = _records(run, parameter, metric, fact)
    looks = _looks(found)
    measured_at = values(run, parameter)
    marks = _cores(run, measured_at) if parameter == CLIENTS else []
    x = lines.Side(parameter, "count", log=logarithmic(measured_at), ticks=measured_at, marks=marks)

    def spec(engines: Sequence[str], unit: str) -> dict[str, Any]:
        look = looks.get(unit, Look(unit, "count", False))
        y = lines.Side(look.title, look.kind, look.log, interval=True, from_zero=not look.log)
        return lines.spec(engines, x, y, ends=any("ends" in record for record in found))

    return Chart(
        name=name_of(parameter),
        title=f"By {parameter}",
        reading=f"What {parameter} does, with all else the same: the median over trials of what rows are compared by,"
        " throughput as a rule, with its 95 % interval. Where two lines cross, another engine becomes the better; a"
        " cross at a line's end is where that engine goes no further.",
        needs=f"several values of {parameter} that are numbers: dyno run "
        + (f"--{parameter} 1,2,4" if parameter == CLIENTS else f"-p {parameter}=V1,V2"),
        columns=(
            Column("engine", "engine"),
            Column("x", parameter, "count"),
            Column("y", "median", "own"),
            Column("y_low", "95 % from", "own"),
            Column("y_high", "95 % to", "own"),
            Column("what", "of what"),
            Column("trials", "trials", "count"),
            Column("remarks", "remarks"),
        ),
        records=lambda of: found if of is run else _records(of, parameter, metric, fact),
        spec=spec,
        spans=(parameter,),
        says=lambda of: _says(of, parameter) if by is None else [],
    )


def asked(run: Run, by: str | None) -> tuple[Metric | None, str]:
    """Raises UsageError for what is neither a metric nor a fact of the run."""
    facts = dict.fromkeys(name for a in run.attempts for s in a.samples for name in s.facts)
    if by is None or by in METRICS:
        return (None if by is None else METRICS[by]), ""
    if by not in facts:
        raise UsageError(unknown(f"{run.path}: metric", by, [*METRICS, *facts]))
    return None, by


def _records(run: Run, parameter: str, metric: Metric | None, fact: str) -> list[Record]:
    """Those of a panel and of an engine next to each other, by value. Nothing for a run with one value."""
    if parameter not in swept(run):
        return []
    rows = [
        (row, record, _place(record, parameter))
        for row, record in measured(run)
        if is_number(record["params"].get(parameter))
    ]
    groups: dict[str, list[Row]] = {}
    for row, _, place in rows:
        groups.setdefault(place, []).append(row)
    used = {place: metric or fitting([row.summary for row in found]) for place, found in groups.items()}
    stops = _stops(run, parameter)
    engines = {asked: at for at, asked in enumerate(dict.fromkeys(cell.label for cell in run.cells))}
    order = {place: at for at, place in enumerate(groups)}
    rows.sort(key=lambda one: (order[one[2]], engines[one[1]["engine"]], one[1]["params"][parameter]))
    return [
        {
            **record,
            "x": record["params"][parameter],
            "y": figure.median,
            "y_low": figure.low,
            "y_high": figure.high,
            **about,
            "trials": len(row.summary.samples),
            **({"ends": why} if (why := stops.get((record["engine"], place, record["params"][parameter]))) else {}),
        }
        for row, record, place in rows
        if (pair := _figure(row, used[place], fact)) is not None
        for figure, about in [pair]
    ]


def _cores(run: Run, measured_at: Sequence[float]) -> list[tuple[float, str]]:
    """How many cores there are, where that is among what was measured: more clients than that share them."""
    found = cores(run.header.get("host", {}))
    if found is None or not measured_at or not measured_at[0] <= found <= measured_at[-1]:
        return []
    return [(found, f"{found:g} cores")]


def _stops(run: Run, parameter: str) -> dict[tuple[str, str, float | None], str]:
    """Why a line ends, by engine, place and last value."""
    changing = varying(run)
    return {
        (end.cell.label, _place(_record(end, changing), parameter), end.last): ending(end)
        for end in ended(run)
        if end.sweep.parameter == parameter
    }


def _record(end: End, changing: Sequence[str]) -> Record:
    """As a record of its place has it."""
    params = {name: end.cell.params[name] for name in changing}
    return {"phase": end.sweep.phase, "tier": end.sweep.tier and end.sweep.tier.value, "params": params}


def _place(record: Record, parameter: str) -> str:
    others = {name: value for name, value in record["params"].items() if name != parameter}
    return repr((record["phase"], record["tier"], others))


def _figure(row: Row, by: Metric, fact: str) -> tuple[Estimate, Mapping[str, str]] | None:
    """What stands at the point, and how it is written; None for a row without it."""
    summary = row.summary
    if fact:
        told = [value for s in summary.samples if isinstance(value := s.facts.get(fact), (int, float))]
        middle = summary.facts.get(fact)
        if not isinstance(middle, (int, float)):
            return None
        # An interval is that of positive values.
        found = estimate(told) if told and min(told) > 0 else Estimate(float(middle), None, None)
        return found, {"unit": fact, "what": fact, "write": "rate"}
    known = estimated(summary, by)
    unit = f"{summary.unit}/s" if by is THROUGHPUT else by.title
    return None if known is None else (known, {"unit": unit, "what": unit, "write": KINDS[by.kind]})


def _looks(found: Sequence[Record]) -> dict[str, Look]:
    """By unit: logarithmic where it should be in one of its panels."""
    panels: dict[tuple[str, str], list[float]] = {}
    for record in found:
        place = repr((record["phase"], record["tier"]))
        panels.setdefault((record["unit"], place), []).append(record["y"])
    log = {unit for (unit, _), figures in panels.items() if logarithmic(figures)}
    kinds = {record["unit"]: record["write"] for record in found}
    return {unit.removesuffix("/s"): Look(unit, kind, unit in log) for unit, kind in kinds.items()}


def _says(run: Run, parameter: str) -> list[Record]:
    """The crossings and the ends, each with the place that it is of."""
    changing = [name for name in varying(run) if name != parameter]
    said = [(found.sweep, [found.below.label, found.above.label], sentence(found)) for found in crossed(run)]
    said += [(end.sweep, [end.cell.label], ending(end)) for end in ended(run)]
    return [
        {
            "phase": sweep.phase,
            "tier": sweep.tier and sweep.tier.value,
            "params": {name: sweep.params[name] for name in changing},
            "engines": engines,
            "text": text,
        }
        for sweep, engines, text in said
        if sweep.parameter == parameter
    ]
