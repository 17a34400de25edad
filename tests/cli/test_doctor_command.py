"""Guards what `dyno doctor` prints of a machine's noise."""

import io

import pytest
from rich.console import Console

from dyno.cli.doctor import render


def printed(noise: object) -> str:
    out = io.StringIO()
    render({"noise": noise}, [], Console(file=out, width=200))
    (line,) = (line for line in out.getvalue().splitlines() if line.startswith("noise"))
    return line.removeprefix("noise").strip()


@pytest.mark.parametrize(
    ("small", "text"),
    [(58, "a difference of 3 % takes about 58 samples"), (None, "a difference of 3 % takes over 1,000 samples")],
)
def test_forecast_names_the_samples_of_two_differences(small: int | None, text: str) -> None:
    noise = {"spread": 0.059, "samples": {"10_percent": 9, "3_percent": small}}
    assert printed(noise) == f"a core's speed spreads by 5.9 %, a difference of 10 % takes about 9 samples, {text}"


def test_noise_that_was_not_measured_is_unknown() -> None:
    assert printed(None) == "unknown"
