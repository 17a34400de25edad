"""Student's t distribution, compared with scipy and with printed tables."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dyno.stats.estimate import tail, two_sided

# From the minimum of two values up to more than a thousand blocks. The Welch-Satterthwaite equation gives fractions.
DEGREES = st.floats(1, 5_000)


@given(st.floats(-60, 60), DEGREES)
def test_tail_equals_scipys(t: float, degrees: float) -> None:
    # Near 0, scipy's tail with one degree of freedom has errors of 1e-9; it has a closed form.
    right = 0.5 - math.atan(t) / math.pi if degrees == 1 else stats.t.sf(t, degrees)
    assert tail(t, degrees) == pytest.approx(right, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("t", [0.0, 1e-200, 1e-9, 1e-7, 1e-6, 1e-5, 1e-3])
@pytest.mark.parametrize("degrees", [2, 3, 5_000])
def test_tail_near_zero_equals_scipys(t: float, degrees: float) -> None:
    assert tail(t, degrees) == pytest.approx(stats.t.sf(t, degrees), rel=1e-12)


@given(st.floats(0, 60), DEGREES)
def test_both_tails_add_up_to_one(t: float, degrees: float) -> None:
    assert tail(t, degrees) + tail(-t, degrees) == pytest.approx(1, abs=1e-13)
    assert tail(t, degrees) <= 0.5 <= tail(-t, degrees)


@given(st.floats(0.01, 0.9999), DEGREES)
def test_quantile_equals_scipys(confidence: float, degrees: float) -> None:
    assert two_sided(confidence, degrees) == pytest.approx(stats.t.ppf((1 + confidence) / 2, degrees), rel=1e-8)


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.98, 0.99, 0.999])
@pytest.mark.parametrize("degrees", [1, 2, 2.5, 3, 4, 5.75, 9, 19, 30, 100, 1_000])
def test_quantiles_at_usual_confidences_equal_scipys(confidence: float, degrees: float) -> None:
    assert two_sided(confidence, degrees) == pytest.approx(stats.t.ppf((1 + confidence) / 2, degrees), rel=1e-10)


@pytest.mark.parametrize(("confidence", "degrees", "printed"), [(0.95, 2, 4.303), (0.95, 9, 2.262), (0.99, 4, 4.604)])
def test_quantiles_equal_printed_tables(confidence: float, degrees: float, printed: float) -> None:
    assert two_sided(confidence, degrees) == pytest.approx(printed, abs=5e-4)
