"""How times grow with a parameter, on the terminal and as JSON: the curve, what it says of values that nobody
measured, and how it did with those that were held out. What is extrapolated is always said to be so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from dyno.report.tables import grid, units
from dyno.stats.growth import CONFIDENCE, FEWEST_VALUES, Growth, Predicted

LEVEL = f"[{CONFIDENCE * 100:g} %]"
LEGEND = (
    "Extrapolated, not measured: what comes if it goes on as it did. A power of the parameter is fitted to medians;"
    f" the interval of {CONFIDENCE * 100:g} % is for a measurement at that value, and knows nothing of what may begin"
    f" beyond the largest value that was measured. Fewer than {FEWEST_VALUES} values are fitted by nothing."
)
SPANS = ((86_400e9, "d"), (3_600e9, "h"), (60e9, "min"))


def span(ns: float) -> str:
    """As a duration, in minutes, hours or days from three of them on."""
    size, unit = next(((size, unit) for size, unit in SPANS if ns >= 3 * size), (0.0, ""))
    return f"{ns / size:.3g} {unit}" if size else units.duration(ns)


def render(
    found: Sequence[Growth], parameter: str, to: Mapping[float, str], console: Console, legend: bool = True
) -> None:
    """A table for each phase. `to`: the values that are extrapolated to, each with what it is called."""
    for phase in dict.fromkeys(each.phase for each in found):
        console.print()
        console.print(Text(f"{phase}: how its time grows with {parameter}", "bold"))
        _table([each for each in found if each.phase == phase], parameter, to, console)
    if legend:
        console.print()
        console.print(Text(LEGEND, "dim"), soft_wrap=True)


def _table(found: Sequence[Growth], parameter: str, to: Mapping[float, str], console: Console) -> None:
    held = sorted({each.value for growth in found for each in growth.held_out})
    heads = [parameter, "measured", f"as {parameter} to the", LEVEL]
    for value in held:
        heads += [f"{value:g} held out", f"predicted {LEVEL}", ""]
    for name in to.values():
        heads += [f"{name}, extrapolated", LEVEL]
    columns = [grid.Column("engine", left=True), *map(grid.Column, heads)]
    rows = [[growth.cell.label, *_cells(growth, held, to)] for growth in found]
    grid.render(columns, [[*row, *[""] * (len(columns) - len(row))] for row in rows], console)


def _cells(growth: Growth, held: Sequence[float], to: Mapping[float, str]) -> Iterator[str]:
    (first, low), (last, high) = growth.points[0], growth.points[-1]
    yield f"{first:g} – {last:g}"
    yield f"{span(low)} – {span(high)}"
    if growth.fit is None:
        yield f"{len(growth.points)} values: too few"
        return
    yield f"{growth.fit.exponent:.2f}"
    yield "{:.2f} – {:.2f}".format(*growth.fit.exponent_interval())
    for value in held:
        found = next((each for each in growth.held_out if each.value == value), None)
        if found is None:
            yield from ("", "", "")
        else:
            yield span(found.measured_ns)
            yield _between(found.predicted)
            yield "inside" if found.inside else "outside"
    for value in to:
        predicted = growth.fit.at(value)
        yield span(predicted.ns)
        yield _between(predicted)


def _between(predicted: Predicted) -> str:
    return f"{span(predicted.low)} – {span(predicted.high)}"


def data(found: Sequence[Growth], parameter: str, to: Mapping[float, str]) -> dict[str, Any]:
    """As plain JSON. Times in ns."""
    return {"parameter": parameter, "confidence": CONFIDENCE, "growths": [_data(each, to) for each in found]}


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
            {"value": each.value, "ns": each.measured_ns, "inside": each.inside, "predicted": _told(each.predicted)}
            for each in growth.held_out
        ],
        "extrapolated": [] if fit is None else [{"value": value, **_told(fit.at(value))} for value in to],
    }


def _told(predicted: Predicted) -> dict[str, float]:
    return {"ns": predicted.ns, "low": predicted.low, "high": predicted.high}
