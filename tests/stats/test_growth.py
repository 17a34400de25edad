"""Guards extrapolation: the fit against independent arithmetic, its interval against many made-up measurements, and
the report on held-out values.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from madeup import SECOND, a_cell, a_first_line, a_sample, an_attempt, of_cells
from rich.console import Console
from scipy import stats

from dyno.contracts.cell import Cell
from dyno.contracts.decoded_types import Value
from dyno.fields import Sample
from dyno.report.tables import sections, units
from dyno.report.tables import sweeps as report
from dyno.results import Run
from dyno.stats.curves import CONFIDENCE, FEWEST_VALUES, LEAST_ERROR, fit, rising_sums
from dyno.stats.growth import DISK, REACH, TIME, TRIAL, Growth, fit_line, growths

VALUES = (1, 2, 4, 8, 16)
PARAMETER = "much"


def sized(value: Value, engine: str = "one", floor: bool = False) -> Cell:
    return replace(a_cell(engine, floor=floor), params={PARAMETER: value, "other": 1})


def reads(*given: tuple[Cell, list[Sample]]) -> Run:
    """A run with one trial for each sample."""
    attempts = tuple(
        an_attempt(block, sample, cell=at)
        for at, (_, samples) in enumerate(given)
        for block, sample in enumerate(samples)
    )
    return of_cells(*(cell for cell, _ in given), attempts=attempts)


def grown(power: float, values: tuple[int, ...] = VALUES, off: float = 0.0) -> Run:
    """Three trials at each value, with items proportional to it. Times grow by the power, off by a share in
    alternating directions.
    """
    given = []
    for at, value in enumerate(values):
        time = value**power * (1 + off * (-1) ** at)
        given.append((sized(value), [a_sample(items=value * 1_000, elapsed_ns=int(time * SECOND))] * 3))
    return reads(*given)


# -- the fit ----------------------------------------------------------------------------------------------


def test_fit_of_exact_powers_recovers_the_exponent() -> None:
    for power in (0.0, 0.5, 1.0, 1.3):
        found = fit([(value, 3e9 * value**power) for value in VALUES])
        assert found is not None and found.exponents[0] == pytest.approx(power, abs=1e-12)
        predicted = found.predict_at(1_440)
        assert predicted.middle == pytest.approx(3e9 * 1_440**power, rel=1e-9)
        # No interval is narrower than that of the least error.
        assert predicted.high / predicted.low > 1 + 2 * LEAST_ERROR


def test_fit_and_intervals_match_scipy() -> None:
    rng = np.random.default_rng(3)
    times = [5e9 * value**0.9 * math.exp(rng.normal(0, 0.1)) for value in VALUES]
    found = fit(list(zip(VALUES, times, strict=True)))
    assert found is not None
    xs, ys = np.log(VALUES), np.log(times)
    other: Any = stats.linregress(xs, ys)
    assert found.exponents[0] == pytest.approx(other.slope) and found.log == pytest.approx(other.intercept)
    half = stats.t.ppf((1 + CONFIDENCE) / 2, 3) * other.stderr
    assert found.exponent_interval() == pytest.approx((other.slope - half, other.slope + half))
    # Prediction error by the design matrix: the variance of the error of a further measurement.
    design, x = np.stack([np.ones(5), xs], axis=1), np.array([1, math.log(336)])
    error = np.sqrt(((ys - design @ [other.intercept, other.slope]) ** 2).sum() / 3)
    wide = error * np.sqrt(1 + x @ np.linalg.inv(design.T @ design) @ x) * stats.t.ppf(0.975, 3)
    predicted = found.predict_at(336)
    assert math.log(predicted.high / predicted.middle) == pytest.approx(wide)
    assert math.log(predicted.middle / predicted.low) == pytest.approx(wide)


@pytest.mark.claim("Extrapolations are marked as such, and their intervals hold")
def test_prediction_interval_covers_at_its_confidence() -> None:
    rng, inside, tries = np.random.default_rng(1), 0, 4_000
    for _ in range(tries):
        noise = np.exp(rng.normal(0, 0.2, len(VALUES) + 1))
        found = fit([(value, value * off) for value, off in zip(VALUES, noise, strict=False)])
        assert found is not None
        predicted = found.predict_at(1_440)
        inside += predicted.low <= 1_440 * noise[-1] <= predicted.high
    # Within four standard errors.
    assert inside / tries == pytest.approx(CONFIDENCE, abs=4 * math.sqrt(0.95 * 0.05 / tries))


def test_prediction_interval_widens_with_distance() -> None:
    found = fit([(value, value * (1.1 if value in (2, 8) else 1)) for value in VALUES])
    assert found is not None
    wide = [math.log(found.predict_at(value).high / found.predict_at(value).low) for value in (4, 16, 32, 336, 1_440)]
    assert wide == sorted(wide) and wide[0] > 0


def test_fit_of_under_four_distinct_values_is_none() -> None:
    assert FEWEST_VALUES == 4
    assert fit([(1, 1), (2, 2), (4, 4)]) is None and fit([(1, 1), (2, 2), (4, 4), (4, 5)]) is None


GROWTH_LAWS: Mapping[str, Callable[[float], float]] = {
    "constant": lambda x: 1,
    "root": math.sqrt,
    "logarithm": lambda x: math.log(1_000 * x),
    "line": lambda x: 3 + x,
    "sorting": lambda x: x * math.log(10_000 * x),
    "power": lambda x: x**1.3,
    "square": lambda x: x + x**2 / 20,
}


def simulated(law: Callable[[float], float], noise: Callable[[], float]) -> Growth:
    points = tuple((float(value), 1e9 * law(value) * math.exp(noise())) for value in VALUES)
    return Growth(sized(1), "read", points, fit(points), (), {}, TIME, sums=rising_sums(points))


@pytest.mark.claim("Extrapolations are marked as such, and their intervals hold")
@pytest.mark.parametrize("law", GROWTH_LAWS)
@pytest.mark.parametrize("deviation", [0.003, 0.05])
def test_forecasts_hold_for_known_laws(law: str, deviation: float) -> None:
    rng = np.random.default_rng(5)
    place = float(VALUES[-1] * REACH)
    inside = []
    for _ in range(120):
        growth = simulated(GROWTH_LAWS[law], lambda: rng.normal(0, deviation))
        if growth.refusal(place) is None:
            predicted = growth.predict(place)
            true = 1e9 * GROWTH_LAWS[law](place) * math.exp(rng.normal(0, deviation))
            assert predicted is not None
            inside.append(predicted.low <= true <= predicted.high)
    assert len(inside) > 60 and sum(inside) / len(inside) >= 0.9


# -- growth in a run --------------------------------------------------------------------------------------


def test_curve_of_each_engine_and_phase_uses_medians() -> None:
    (found,) = growths(grown(1.0), PARAMETER)
    assert found.points == tuple((value, value * SECOND) for value in VALUES) and found.phase == "read"
    assert found.fit is not None and found.fit.exponents[0] == pytest.approx(1) and found.items_at(1_440) == 1_440_000
    assert growths(grown(1.0), "other") == []


def test_fit_leaves_out_value_ended_by_budget() -> None:
    run = reads(
        *((sized(value), [a_sample(elapsed_ns=value * SECOND)] * 3) for value in VALUES[:-1]),
        (sized(16), [a_sample(elapsed_ns=SECOND), a_sample(elapsed_ns=SECOND, ended_by="budget")]),
    )
    (found,) = growths(run, PARAMETER)
    assert [value for value, _ in found.points] == [1, 2, 4, 8]
    assert "at 16, left out of the fit: one: its budget ended it" in shown([found], {})


def test_held_out_value_is_judged_but_not_fitted() -> None:
    steady = grown(1.0, (*VALUES, 32), off=0.05)
    (found,) = growths(steady, PARAMETER, [32])
    assert found.fit == growths(grown(1.0, off=0.05), PARAMETER)[0].fit
    assert [(each.value, each.inside) for each in found.held_out] == [(32, True)]
    # The largest value does not follow the fit.
    jumps = reads(
        *((sized(value), [a_sample(elapsed_ns=value * SECOND)] * 3) for value in VALUES),
        (sized(32), [a_sample(elapsed_ns=320 * SECOND)] * 3),
    )
    assert not growths(jumps, PARAMETER, [32])[0].held_out[0].inside


def test_curve_over_two_parameters_has_two_exponents() -> None:
    given = []
    for value in (1, 4, 16):
        for other in (1, 10):
            cell = replace(sized(value), params={PARAMETER: value, "other": other})
            elapsed_ns = int(value * other**0.5 * SECOND)
            size = 1_000 * value * other
            given.append((cell, [a_sample("insert", elapsed_ns=elapsed_ns, bytes_on_disk=size)] * 3))
    phases = [{"name": "insert", "writes": True}]
    recorded = a_first_line({"samples": 3, "phases": ["insert"]}, phases=phases)
    written = replace(reads(*given), recorded=recorded)
    (time,), (disk,) = (growths(written, PARAMETER, also=["other"], kind=kind) for kind in (TIME, DISK))
    assert time.fit is not None and time.fit.exponents == pytest.approx((1, 0.5))
    assert time.fit.predict_at((100, 100)).middle == pytest.approx(1_000 * SECOND, rel=1e-6)
    assert disk.fit is not None and disk.fit.predict_at((100, 100)).middle == pytest.approx(1e7)
    text = shown([time, disk], {(100, 100): "both"}, ["other"])
    assert "how its time grows with much and other" in text and "16.7 min" in text
    assert "how the disk grows with much and other" in text and "9.54 MiB" in text
    (trial,) = growths(written, PARAMETER, also=["other"], kind=TRIAL)
    assert {figure for _, figure in trial.points} == {SECOND}
    assert "a whole trial, with starting, loading" in shown([trial], {(100, 100): "both"}, ["other"])
    # With one value of the other parameter, its power is unknown.
    assert growths(grown(1.0), PARAMETER, also=["other"])[0].fit is None


# -- sizes --------------------------------------------------------------------------------------------------

SIZES = {value: 5e6 + 12.5 * 1_000 * value for value in (100, 200, 400, 800, 1_600)}
"""A store of 5 MB and 12.5 bytes for each of a thousand items, by value."""


def stored(sizes: Mapping[int, float], items: Callable[[int], int] = lambda value: 1_000 * value) -> Growth:
    given = [
        (sized(value), [a_sample("insert", items=items(value), elapsed_ns=SECOND, bytes_on_disk=round(size))] * 3)
        for value, size in sizes.items()
    ]
    phases = [{"name": "insert", "writes": True}]
    recorded = a_first_line({"samples": 3, "phases": ["insert"]}, phases=phases)
    (growth,) = growths(replace(reads(*given), recorded=recorded), PARAMETER, kind=DISK)
    return growth


def test_disk_fit_has_fixed_and_per_item_part() -> None:
    growth = stored(SIZES)
    assert growth.line is not None
    predicted = growth.predict(16_000)
    assert predicted is not None and predicted.middle == pytest.approx(5e6 + 12.5 * 16e6, rel=1e-5)
    text = shown([growth], {16_000: "large"})
    assert "12.5 B" in text and "196 MiB" in text
    data: Any = report.growth_data([growth], PARAMETER, {16_000: "large"})
    (disk,) = data["disk"]
    assert (disk["fixed_bytes"], disk["bytes_per_item"]) == pytest.approx((5e6, 12.5), rel=1e-5)


def test_disk_without_proportional_items_is_fitted_by_power() -> None:
    growth = stored(SIZES, items=lambda value: 7)
    assert growth.line is None and growth.fit is not None
    # The sums of two terms that fit exactly are among its curves.
    predicted = growth.predict(16_000)
    assert predicted is not None and predicted.low < 5e6 + 12.5 * 16e6 < predicted.high
    assert stored(dict(zip(SIZES, reversed(SIZES.values()), strict=True))).line is None


def test_disk_size_interval_covers_at_its_confidence() -> None:
    draws, inside = np.random.default_rng(37), 0
    for _ in range(1_000):
        line = fit_line(
            [(value, size * (1 + draws.normal(0, 0.06))) for value, size in SIZES.items()],
            {value: 1_000 * value for value in SIZES},
        )
        assert line is not None
        predicted, true = line.predict_at(5_000), (5e6 + 12.5 * 5e6) * (1 + draws.normal(0, 0.06))
        inside += predicted.low <= true <= predicted.high
    assert 0.93 <= inside / 1_000 <= 0.97


def test_null_engines_and_void_rows_have_no_curve() -> None:
    floors = ((sized(value, floor=True), [a_sample()] * 3) for value in VALUES)
    voids = ((sized(value, "two"), [a_sample(void="wrong")] * 3) for value in VALUES)
    assert growths(reads(*floors, *voids), PARAMETER) == []


# -- output -----------------------------------------------------------------------------------------------


def shown(of: Sequence[Growth], to: Mapping[Any, str], also: Sequence[str] = ()) -> str:
    console = Console(file=io.StringIO(), width=250)
    sections.render(report.growth_sections(of, PARAMETER, to, also), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.claim("Extrapolations are marked as such, and their intervals hold")
def test_report_marks_extrapolated_values() -> None:
    text = shown(growths(grown(1.0, (*VALUES, 32), off=0.05), PARAMETER, [32]), {64: "a day"})
    assert "a day, extrapolated" in text and "not forecast:" not in text and "Extrapolated, not measured" in text
    assert "1 – 16" in text and "32 held out" in text and "inside" in text
    few = shown(growths(grown(1.0, VALUES[:3]), PARAMETER), {20: "20"})
    assert "at 20, not forecast: one: 3 of the values have a figure, and a fit takes 4" in few


def test_forecast_beyond_ten_times_the_largest_is_refused() -> None:
    text = shown(growths(grown(1.0), PARAMETER), {160: "160", 161: "161"})
    assert "at 161, not forecast: one: 161 is 10.1 times the largest measured value" in text and "160 s" in text


def test_forecast_with_a_wide_interval_is_refused() -> None:
    (growth,) = growths(grown(1.0, off=0.8), PARAMETER)
    assert "its interval spans a factor of" in str(growth.refusal(32))


def test_forecast_of_nearly_constant_disk_is_refused() -> None:
    growth = stored({value: 1e9 + value for value in SIZES})
    assert "may be allocated in advance" in str(growth.refusal(3_200))


def test_trial_forecast_shorter_than_its_phases_is_refused() -> None:
    given = [(sized(value), [a_sample("insert", elapsed_ns=value * SECOND // 10)] * 3) for value in VALUES]
    run = reads(*given)
    attempts = tuple(replace(attempt, duration_ns=4 * SECOND) for attempt in run.attempts)
    recorded = a_first_line({"samples": 3, "phases": ["insert"]}, phases=[{"name": "insert", "writes": True}])
    (trial,) = growths(replace(run, attempts=attempts, recorded=recorded), PARAMETER, kind=TRIAL)
    assert trial.refusal(32) is None
    assert "longer than the whole, insert most of all" in str(trial.refusal(160))


def test_long_durations_have_readable_units() -> None:
    assert [units.long_duration(ns) for ns in (5e6, 100e9, 200e9, 4 * 3_600e9, 80 * 3_600e9)] == [
        *("5.00 ms", "100 s", "3.33 min", "4 h", "3.33 d"),
    ]


def test_json_data_contain_measured_held_out_and_extrapolated_values() -> None:
    found = growths(grown(1.0, (*VALUES, 32), off=0.05), PARAMETER, [32])
    told = json.loads(json.dumps(report.growth_data(found, PARAMETER, {64: "64", 336: "336"})))
    (one,) = told["growths"]
    assert told["parameter"] == PARAMETER and one["engine"] == "one" and len(one["measured"]) == 5
    assert one["held_out"][0]["inside"] is True and one["extrapolated"][0]["value"] == 64
    assert one["extrapolated"][1]["ns"] is None and "21 times the largest" in one["extrapolated"][1]["why"]
    assert one["extrapolated"][0]["low"] < one["extrapolated"][0]["ns"] < one["extrapolated"][0]["high"]
