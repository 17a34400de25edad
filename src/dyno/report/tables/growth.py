"""How times grow with a parameter, on a terminal and as JSON: the fitted curve, extrapolated values, and how it
predicted values that were held out. Extrapolated figures are always marked as such."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from dyno.report.tables import units
from dyno.report.tables.sections import Section
from dyno.stats.growth import CONFIDENCE, FEWEST_VALUES, Growth, Predicted

LEVEL = f"[{CONFIDENCE * 100:g} %]"
LEGEND = (
    "Extrapolated, not measured: the time if it keeps growing as it did. A power of the parameter is fitted to"
    f" medians; the interval of {CONFIDENCE * 100:g} % is for a measurement at that value, and can't know what begins"
    f" beyond the largest measured value. Fewer than {FEWEST_VALUES} values are not fitted."
)


def sections(of: Sequence[Growth], parameter: str, to: Mapping[float, str], legend: bool = True) -> list[Section]:
    """A table for each phase. `to`: the values to extrapolate to, with their names."""
    phases = dict.fromkeys(each.phase for each in of)
    tables = [_section(phase, [each for each in of if each.phase == phase], parameter, to) for phase in phases]
    return [*tables, *([Section("", legend=[LEGEND])] if legend else [])]


def _section(phase: str, of: Sequence[Growth], parameter: str, to: Mapping[float, str]) -> Section:
    held_out = sorted({each.value for growth in of for each in growth.held_out})
    heads = ["engine", parameter, "measured", f"as {parameter} to the", LEVEL]
    for value in held_out:
        heads += [f"{value:g} held out", f"predicted {LEVEL}", ""]
    for name in to.values():
        heads += [f"{name}, extrapolated", LEVEL]
    rows = [[growth.cell.label, *_cells(growth, held_out, to)] for growth in of]
    return Section(
        f"{phase}: how its time grows with {parameter}",
        heads=heads,
        rows=[[*row, *[""] * (len(heads) - len(row))] for row in rows],
        left=("engine",),
        keys=("engine",),
        rigid=("engine",),
    )


def _cells(growth: Growth, held_out: Sequence[float], to: Mapping[float, str]) -> Iterator[str]:
    (first, low), (last, high) = growth.points[0], growth.points[-1]
    yield f"{first:g} – {last:g}"
    yield units.interval(low, high, units.long_duration)
    if growth.fit is None:
        yield f"{len(growth.points)} values: too few"
        return
    yield f"{growth.fit.exponent:.2f}"
    yield "{:.2f} – {:.2f}".format(*growth.fit.exponent_interval())
    known = {each.value: each for each in growth.held_out}
    for value in held_out:
        if value not in known:
            yield from ("", "", "")
        else:
            yield units.long_duration(known[value].measured_ns)
            yield _interval(known[value].predicted)
            yield "inside" if known[value].inside else "outside"
    for value in to:
        predicted = growth.fit.at(value)
        yield units.long_duration(predicted.ns)
        yield _interval(predicted)


def _interval(predicted: Predicted) -> str:
    return units.interval(predicted.low, predicted.high, units.long_duration)


def data(of: Sequence[Growth], parameter: str, to: Mapping[float, str]) -> dict[str, Any]:
    """As plain JSON. Times in ns."""
    return {"parameter": parameter, "confidence": CONFIDENCE, "growths": [_data(each, to) for each in of]}


def _data(growth: Growth, to: Mapping[float, str]) -> dict[str, Any]:
    fit = growth.fit
    low, high = fit.exponent_interval() if fit else (None, None)
    return {
        "engine": growth.cell.asked,
        "tier": growth.cell.tier_name,
        "phase": growth.phase,
        "measured": [{"value": value, "ns": ns} for value, ns in growth.points],
        "exponent": None if fit is None else {"value": fit.exponent, "low": low, "high": high},
        "held_out": [
            {"value": each.value, "ns": each.measured_ns, "inside": each.inside, "predicted": asdict(each.predicted)}
            for each in growth.held_out
        ],
        "extrapolated": [] if fit is None else [{"value": value, **asdict(fit.at(value))} for value in to],
    }
