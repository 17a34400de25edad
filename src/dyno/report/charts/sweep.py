"""Charts over a numeric parameter with several values: a metric or a fact, with a line for each engine."""

from collections.abc import Sequence
from typing import Any

from dyno.contracts.model import UsageError
from dyno.contracts.settings import unknown
from dyno.report.charts import lines
from dyno.report.charts.chart import ENGINE, REMARKS, TRIALS, Chart, Column, Record, valid_rows
from dyno.report.tables.sweeps import crossed, ended, ending, sentence
from dyno.report.tables.table import Row, varying
from dyno.results import Run
from dyno.stats.estimate import Estimate, estimate
from dyno.stats.load_limit import cores
from dyno.stats.metric import METRICS, THROUGHPUT, Metric, estimated, fitting
from dyno.stats.summary import CellSummary
from dyno.stats.sweep import Sweep, is_number, logarithmic, swept, values

CLIENTS, PREFIX = "clients", "sweep:"
NAME = f"{PREFIX}PARAM"


def names(run: Run) -> list[str]:
    """Returns the names of the run's charts, clients first."""
    return [name_of(parameter) for parameter in sorted(swept(run), key=lambda name: name != CLIENTS)]


def name_of(parameter: str) -> str:
    return parameter if parameter == CLIENTS else f"{PREFIX}{parameter}"


def chart(run: Run, parameter: str, by: str | None = None) -> Chart:
    """Returns the chart over a parameter. `by`: a metric or a fact of the run; by default the metric by which rows
    are compared. Raises UsageError."""
    metric = None if by is None else METRICS.get(by)
    facts = dict.fromkeys(name for attempt in run.attempts for s in attempt.samples for name in s.facts)
    if by is not None and metric is None and by not in facts:
        raise UsageError(unknown(f"{run.path}: metric", by, [*METRICS, *facts]))
    fact = "" if by is None or metric else by
    records = _records(run, parameter, metric, fact)
    figures: dict[tuple[str, str], list[float]] = {}
    for record in records:
        figures.setdefault((record["unit"], repr((record["phase"], record["tier"]))), []).append(record["y"])
    # The y axis of a unit is logarithmic if one of its panels needs that.
    log = {unit for (unit, _), of_panel in figures.items() if logarithmic(of_panel)}
    kinds = {record["unit"]: record["write"] for record in records}
    sides = {
        unit.removesuffix("/s"): lines.Side(unit, kind, unit in log, interval=True, from_zero=unit not in log)
        for unit, kind in kinds.items()
    }
    measured_at = values(run, parameter)
    marks = []
    if parameter == CLIENTS and measured_at:
        # The number of cores is marked: more clients than that share cores.
        count = cores(run.header.get("host", {}))
        if count is not None and measured_at[0] <= count <= measured_at[-1]:
            marks = [(count, f"{count:g} cores")]
    x = lines.Side(parameter, "count", log=logarithmic(measured_at), ticks=measured_at, marks=marks)

    def spec(engines: Sequence[str], unit: str) -> dict[str, Any]:
        y = sides.get(unit, lines.Side(unit, "count", interval=True, from_zero=True))
        return lines.spec(engines, x, y, ends=any("ends" in record for record in records))

    return Chart(
        name=name_of(parameter),
        title=f"By {parameter}",
        reading=f"The effect of {parameter}, all else being equal: the median over trials of the metric by which rows"
        " are compared, usually throughput, with its 95 % interval. Where two lines cross, another engine becomes the"
        " better one; a cross at the end of a line marks an engine that goes no further.",
        needs=f"several numeric values of {parameter}: dyno run "
        + (f"--{parameter} 1,2,4" if parameter == CLIENTS else f"-p {parameter}=V1,V2"),
        columns=(
            ENGINE,
            Column("x", parameter, "count"),
            Column("y", "median", "own"),
            Column("y_low", "95 % from", "own"),
            Column("y_high", "95 % to", "own"),
            Column("what", "of what"),
            TRIALS,
            REMARKS,
        ),
        records=lambda other: records if other is run else _records(other, parameter, metric, fact),
        spec=spec,
        spans=(parameter,),
        says=lambda run: _says(run, parameter) if by is None else [],
    )


def _records(run: Run, parameter: str, metric: Metric | None, fact: str) -> list[Record]:
    """Returns the records by panel, engine and value. A run with a single value has none."""
    if parameter not in swept(run):
        return []
    by_place: dict[str, list[tuple[Row, Record]]] = {}
    for row, record in valid_rows(run):
        if is_number(record["params"].get(parameter)):
            by_place.setdefault(_place(record, parameter), []).append((row, record))
    stops = {
        (end.cell.label, _place(_at(run, end.sweep), parameter), end.last): ending(end)
        for end in ended(run)
        if end.sweep.parameter == parameter
    }
    engines = {label: at for at, label in enumerate(dict.fromkeys(cell.label for cell in run.cells))}
    records = []
    for place, rows in by_place.items():
        by = metric or fitting([row.summary for row, _ in rows])
        rows.sort(key=lambda one: (engines[one[1]["engine"]], one[1]["params"][parameter]))
        for row, record in rows:
            unit = fact or (f"{row.summary.unit}/s" if by is THROUGHPUT else by.title)
            figure = _fact(row.summary, fact) if fact else estimated(row.summary, by)
            if figure is None:
                continue
            value = record["params"][parameter]
            why = stops.get((record["engine"], place, value))
            point = {
                **record,
                "x": value,
                "y": figure.median,
                "y_low": figure.low,
                "y_high": figure.high,
                "unit": unit,
                "what": unit,
                "write": "rate" if fact else lines.KINDS[by.kind],
                "trials": len(row.summary.samples),
            }
            records.append({**point, **({"ends": why} if why else {})})
    return records


def _at(run: Run, sweep: Sweep) -> Record:
    """Returns the phase, tier and other varying parameters of a sweep, in the form of a record."""
    params = {name: sweep.params[name] for name in varying(run) if name != sweep.parameter}
    return {"phase": sweep.phase, "tier": sweep.tier and sweep.tier.value, "params": params}


def _place(record: Record, parameter: str) -> str:
    others = {name: value for name, value in record["params"].items() if name != parameter}
    return repr((record["phase"], record["tier"], others))


def _fact(summary: CellSummary, name: str) -> Estimate | None:
    median = summary.facts.get(name)
    if not isinstance(median, (int, float)):
        return None
    samples = [value for s in summary.samples if isinstance(value := s.facts.get(name), (int, float))]
    # Intervals are defined only for positive values.
    return estimate(samples) if samples and min(samples) > 0 else Estimate(float(median), None, None)


def _says(run: Run, parameter: str) -> list[Record]:
    """Returns sentences about the crossings and the ends, each with its place."""
    sentences = [(one.sweep, [one.below.label, one.above.label], sentence(one)) for one in crossed(run)]
    sentences += [(end.sweep, [end.cell.label], ending(end)) for end in ended(run)]
    return [
        {**_at(run, sweep), "engines": engines, "text": text}
        for sweep, engines, text in sentences
        if sweep.parameter == parameter
    ]
