"""Figures by a numeric parameter: sweeps, crossings, ends, scaling with clients and growth, as sections, sentences
and JSON. Extrapolated figures are always marked as such."""

import math
from collections.abc import Iterator, Mapping, Sequence

from dyno.contracts.value_types import JsonObject
from dyno.report.tables import display, units
from dyno.report.tables.sections import Section, first_lines
from dyno.report.tables.table import figure, reported_by_text, varying_params
from dyno.results import Run
from dyno.stats import sweep as stats_sweep
from dyno.stats.cache import cache_by_run
from dyno.stats.curves import CONFIDENCE, FEWEST_VALUES, Place, Predicted, as_tuple
from dyno.stats.growth import DISK, REACH, TIME, TRIAL, WIDEST, Growth
from dyno.stats.metric import THROUGHPUT
from dyno.stats.sweep import (
    CLIENTS,
    KNEE,
    Crossing,
    End,
    Sweep,
    ends,
    logarithmic,
    scalings,
    sweeps,
    swept_params,
    values,
)

PER_ITEM = "an item"
MOST_TABLES = 8
MOST_LINES = 8
MOST_SCALINGS = 24
MORE = "`dyno report RUN` has all of them"
WHOLE = "a whole trial, with starting, loading and checking"
LEVEL = f"[{CONFIDENCE * 100:g} %]"
NOT_FORECAST = "not forecast"
GROWTH_LEGEND = (
    "Extrapolated, not measured: the time, or the disk, if it keeps growing as it did. Curves are fitted to medians:"
    " a power of each parameter, and with one parameter also sums of two terms; for a disk, a fixed part and a share"
    " of each item, if items grow in proportion to the parameters. The interval of"
    f" {CONFIDENCE * 100:g} % is for a measurement at that value. It spans all curves that follow the points, and"
    " can't know what begins beyond the largest measured value. Nothing is forecast from fewer than"
    f" {FEWEST_VALUES} values, beyond {REACH} times the largest, or with an interval that spans more than a factor of"
    f" {WIDEST}."
)


@cache_by_run
def all_sweeps(run: Run) -> tuple[Sweep, ...]:
    """Returns the sweeps over each parameter with several values, in the order of the run."""
    return tuple(sweep for name in swept_params(run) for sweep in sweeps(run, name))


@cache_by_run
def find_crossings(run: Run) -> tuple[Crossing, ...]:
    logs = {name: logarithmic(values(run, name)) for name in swept_params(run)}
    return tuple(
        crossing for sweep in all_sweeps(run) for crossing in stats_sweep.crossings(sweep, logs[sweep.parameter])
    )


@cache_by_run
def find_ends(run: Run) -> tuple[End, ...]:
    """Returns the ends of engines' lines, in all sweeps."""
    return tuple(end for sweep in all_sweeps(run) for end in ends(run, sweep))


def describe_sweep(sweep: Sweep, changing: Sequence[str]) -> str:
    """Returns a text that distinguishes a sweep from others: 'read, tier power, batch=4, reported by x 1.0'."""
    params = units.params({name: value for name, value in sweep.params.items() if name in changing})
    return display.join_parts(sweep.phase, display.tier(sweep.tier), params, reported_by_text(sweep.reported_by))


def sentence(crossing: Crossing) -> str:
    """Returns 'from length = 32,000 on, radix is faster than timsort (interpolated between 10,000 and 100,000)'."""
    name, metric = crossing.sweep.parameter, crossing.sweep.metric
    by = "" if metric is THROUGHPUT else f", by {metric.title}"
    between = f"{units.number(crossing.low)} and {units.number(crossing.high)}"
    above, below = crossing.above.label, crossing.below.label
    if crossing.at is None:
        return f"between {name} = {between}, {above} becomes faster than {below}{by}"
    return f"from {name} = {point(crossing)} on, {above} is faster than {below}{by} (interpolated between {between})"


def describe_end(end: End) -> str:
    """Returns 'radix stops at length = 100,000: at 1,000,000 timeout: not done after 60 s'."""
    name, at = end.sweep.parameter, units.number(end.at)
    if end.last is None:
        return f"{end.cell.label} has no figure from {name} = {at} on: {end.why}"
    return f"{end.cell.label} stops at {name} = {units.number(end.last)}: at {at} {end.why}"


def point(crossing: Crossing) -> str:
    """Returns the value at which two engines cross, to two digits, because it is not known more precisely."""
    if crossing.at is None:
        return units.UNKNOWN
    whole = float(crossing.low).is_integer() and float(crossing.high).is_integer()
    if whole and crossing.at < 100:
        return units.number(math.ceil(crossing.at))
    if crossing.at:
        digits = 1 - math.floor(math.log10(abs(crossing.at)))
    else:
        digits = 0
    return units.number(min(max(round(crossing.at, digits), crossing.low), crossing.high))


def rows(run: Run) -> Iterator[Mapping[str, str]]:
    """Yields the crossings as rows of a table."""
    changing = varying_params(run)
    for crossing in find_crossings(run):
        yield {
            "where": describe_sweep(crossing.sweep, changing),
            "parameter": crossing.sweep.parameter,
            "faster below": crossing.below.label,
            "from": point(crossing),
            "faster from there on": crossing.above.label,
            "between": f"{units.number(crossing.low)} and {units.number(crossing.high)}",
        }


# -- as sections --------------------------------------------------------------------------------------------


def sections(run: Run) -> Iterator[Section]:
    """Yields a table for each sweep, with its crossings and ends. Empty for a run without a numeric parameter of
    several values."""
    of = all_sweeps(run)
    for sweep in of[:MOST_TABLES]:
        by_value = [{row.cell.label: row for row, _ in table.rows} for _, table in sweep.points]
        rows = []
        for name in dict.fromkeys(name for of_value in by_value for name in of_value):
            figures = (figure(of_value[name], sweep.metric) if name in of_value else None for of_value in by_value)
            rows.append((name, *(text or units.UNKNOWN for text in figures)))
        if sweep.metric is THROUGHPUT:
            unit = f"{sweep.points[0][1].rows[0][0].unit}/s"
        else:
            unit = sweep.metric.title
        title = display.join_parts(describe_sweep(sweep, varying_params(run)), f"{unit} by {sweep.parameter}")
        shown, rest = display.take_first(rows, display.ROWS, "engines", MORE)
        lines = [rest] if rest else []
        crossings = [sentence(crossing) for crossing in find_crossings(run) if crossing.sweep is sweep]
        lines += first_lines(crossings, MOST_LINES, "more crossings")
        lines += first_lines(
            [describe_end(end) for end in find_ends(run) if end.sweep is sweep], MOST_LINES, "more that stop"
        )
        heads, key = (sweep.parameter, *(units.number(value) for value, _ in sweep.points)), (sweep.parameter,)
        yield Section(title, "", heads, shown, left=key, keys=key, lines=lines, rigid=key)
    if len(of) > MOST_TABLES:
        yield Section("", legend=[f"{len(of) - MOST_TABLES} more sweeps: {MORE}"])


def scaling_sections(run: Run) -> Iterator[Section]:
    """Yields how throughput scales with clients, with a line for each engine: 'lmdb: 2 do × 1.97 (99% each); knee at
    2'. Empty unless the run has several numbers of clients and one of them is 1."""
    scales = list(scalings(run))
    if not scales:
        return
    available = run.header.host.cpu.usable_cores
    if available is None:
        beside = ""
    else:
        beside = f", on {available:g} cores"
    changing = [name for name in varying_params(run) if name != CLIENTS]
    lines = []
    for scaling in scales:
        steps = [f"{n} do × {times:.2f} ({times / n:.0%} each)" for n, times in scaling.points if n > 1]
        if scaling.flat:
            knee = f"knee at {scaling.knee}"
        else:
            knee = f"no knee up to {scaling.knee}"
        lines.append(f"{describe_sweep(scaling.sweep, changing)}: {scaling.cell.label}: {', '.join(steps)}; {knee}")
    yield Section(
        f"Throughput of several clients, compared with one{beside}",
        lines=first_lines(lines, MOST_SCALINGS),
        legend=[f"knee: the fewest clients that reach {KNEE:.0%} of the highest throughput"],
    )


# -- growth -------------------------------------------------------------------------------------------------


def growth_sections(
    of: Sequence[Growth], parameter: str, to: Mapping[Place, str], also: Sequence[str] = ()
) -> list[Section]:
    """Returns a table for each phase of how its time, or the size on disk after it, grows: the fitted curve,
    extrapolated values, and how well the curve predicted values that were held out. `to`: the values to extrapolate
    to, with their names. `also`: further parameters, whose values follow in each place."""
    sections = []
    key = ("engine",)
    names = (parameter, *also)
    for phase, kind in dict.fromkeys((growth.phase, growth.kind) for growth in of):
        growths = [growth for growth in of if (growth.phase, growth.kind) == (phase, kind)]
        held_out = sorted({held.value for growth in growths for held in growth.held_out}, key=as_tuple)
        heads = ["engine", ", ".join(names), "measured"]
        for name in names:
            heads += [f"as {name} to the", LEVEL]
        heads += [PER_ITEM] if (shared := any(growth.line for growth in growths)) else []
        for value in held_out:
            heads += [f"{_place(value)} held out", f"predicted {LEVEL}", ""]
        for name in to.values():
            heads += [f"{name}, extrapolated", LEVEL]
        rows = [[growth.cell.label, *_growth_cells(growth, held_out, to, shared)] for growth in growths]
        rows = [[*row, *[""] * (len(heads) - len(row))] for row in rows]
        what = {TIME: f"{phase}: how its time", DISK: f"{phase}: how the disk"}.get(kind, f"{WHOLE}: how its time")
        title = f"{what} grows with {' and '.join(names)}"
        lines = list(_growth_lines(growths, to))
        sections.append(Section(title, "", heads, rows, left=key, keys=key, lines=lines, rigid=key))
    return [*sections, Section("", legend=[GROWTH_LEGEND])]


def _growth_lines(of: Sequence[Growth], to: Mapping[Place, str]) -> Iterator[str]:
    """Yields what is missing from the fits and forecasts of a phase, with the reasons. Engines with the same reason
    share a line."""
    engines: dict[tuple[str, str], list[str]] = {}
    for growth in of:
        for place, why in growth.left_out:
            engines.setdefault((f"at {_place(place)}, left out of the fit", why), []).append(growth.cell.label)
        for place, name in to.items():
            if refusal := growth.refusal(place):
                engines.setdefault((f"at {name}, {NOT_FORECAST}", refusal), []).append(growth.cell.label)
    for (what, why), labels in engines.items():
        yield f"{what}: {', '.join(labels)}: {why}"


def _place(place: Place) -> str:
    return ", ".join(f"{value:g}" for value in as_tuple(place))


def _growth_cells(growth: Growth, held_out: Sequence[Place], to: Mapping[Place, str], shared: bool) -> Iterator[str]:
    write = units.size if growth.kind == DISK else units.long_duration
    figures = [figure for _, figure in growth.points]
    if not figures:
        yield from ("", "", "no values")
        return
    columns = zip(*(as_tuple(place) for place, _ in growth.points), strict=True)
    yield ", ".join(f"{min(column):g} – {max(column):g}" for column in columns)
    yield units.interval(figures[0], figures[-1], write)
    if growth.fit is None:
        yield f"{len(growth.points)} values: too few"
        return
    for at, exponent in enumerate(growth.fit.exponents):
        yield f"{exponent:.2f}"
        yield "{:.2f} – {:.2f}".format(*growth.fit.exponent_interval(at))
    if shared:
        share = growth.bytes_per_item
        yield units.UNKNOWN if share is None else f"{share:.3g} B"
    known = {held.value: held for held in growth.held_out}
    for value in held_out:
        if (held := known.get(value)) is None:
            yield from ("", "", "")
        else:
            yield write(held.measured)
            yield units.interval(held.predicted.low, held.predicted.high, write)
            yield "inside" if held.inside else "outside"
    for value in to:
        predicted = None if growth.refusal(value) else growth.predict(value)
        yield write(predicted.middle) if predicted else NOT_FORECAST
        yield units.interval(predicted.low, predicted.high, write) if predicted else ""


def growth_data(
    of: Sequence[Growth], parameter: str, to: Mapping[Place, str], also: Sequence[str] = ()
) -> dict[str, object]:
    """Returns the growths as plain JSON: times in ns as `growths` and `trials`, and sizes in bytes as `disk`. A
    forecast that is refused has null for figures, and the reason as `why`."""
    lists: dict[str, list[object]] = {"growths": [], "disk": [], "trials": []}
    data: dict[str, object] = {"parameter": parameter, "confidence": CONFIDENCE, **lists}
    data |= {"also": list(also)} if also else {}
    for growth in of:
        fit = growth.fit
        unit = "ns"
        if growth.kind == DISK:
            unit = "bytes"

        def plain(predicted: Predicted, unit: str = unit) -> dict[str, float]:
            return {unit: predicted.middle, "low": predicted.low, "high": predicted.high}

        exponents = []
        for at, exponent in enumerate(fit.exponents if fit else ()):
            low, high = fit.exponent_interval(at) if fit else (None, None)
            exponents.append({"value": exponent, "low": low, "high": high})
        held_out = [
            {"value": held.value, unit: held.measured, "inside": held.inside, "predicted": plain(held.predicted)}
            for held in growth.held_out
        ]
        forecasts = list[JsonObject]()
        for value in to:
            why = growth.refusal(value)
            predicted = None if why else growth.predict(value)
            figures = plain(predicted) if predicted else {unit: None, "low": None, "high": None, "why": why}
            forecasts.append({"value": value, **figures})
        slope = JsonObject()
        if growth.line is not None:
            slope = {"fixed_bytes": growth.line.factors[0], "bytes_per_item": growth.bytes_per_item}
        one = {
            "engine": growth.cell.asked,
            "tier": growth.cell.tier_name,
            "phase": growth.phase,
            "measured": [{"value": value, unit: figure} for value, figure in growth.points],
            "exponent": exponents[0] if exponents else None,
            **({"exponents": exponents} if also else {}),
            "held_out": held_out,
            "left_out": [{"value": value, "why": why} for value, why in growth.left_out],
            **slope,
            "extrapolated": forecasts,
        }
        lists[{TIME: "growths", DISK: "disk", TRIAL: "trials"}[growth.kind]].append(one)
    return data
