"""Tests the parsing of numbers, times and sizes, and that other text is refused."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dyno.contracts import quantities
from dyno.contracts.settings import integer


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("20000", 20_000),
        ("20_000", 20_000),
        ("20k", 20_000),
        ("20K", 20_000),
        ("1.5M", 1_500_000),
        ("2e6", 2_000_000),
        ("3G", 3 * 10**9),
        ("1T", 10**12),
        ("64Ki", 65_536),
        ("64KiB", 65_536),
        ("64kB", 64_000),
        ("1 MiB", 1 << 20),
        (".5k", 500),
        ("-3", -3),
        ("12B", 12),
    ],
)
def test_whole_number_accepts_suffixes_and_separators(text: str, number: int) -> None:
    assert quantities.whole(text) == number


@pytest.mark.parametrize(
    "text", ["", "k", "1.5", "5q", "5ib", "i", "0x10", "1__0", "٣", "1e999", "nan", "inf", "1" * 200]
)
def test_invalid_whole_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        quantities.whole(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("1.5s", 1.5),
        ("300ms", 0.3),
        ("250us", 0.00025),
        ("5m", 300),
        ("2min", 120),
        ("2h", 7200),
        ("1d", 86400),
    ],
)
def test_time_is_parsed_with_or_without_unit(text: str, seconds: float) -> None:
    assert quantities.seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "gib"), [("2", 2), ("2GiB", 2), ("512MiB", 0.5), ("0.05", 0.05), ("1073741824B", 1)]
)
def test_size_is_in_gib_unless_unit_is_given(text: str, gib: float) -> None:
    assert quantities.gib(text) == gib


@pytest.mark.parametrize("text", ["5x", "x", "-", "1GiBs"])
def test_invalid_time_or_size_is_refused_with_hint(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected seconds, or a time such as|is no number"):
        quantities.seconds(text)
    with pytest.raises(ValueError, match=r"expected GiB, or a size such as|is no number"):
        quantities.gib(text)


@given(st.integers(-(10**30), 10**30))
def test_whole_number_round_trips_through_python_text(number: int) -> None:
    assert quantities.whole(str(number)) == number
    assert quantities.number(f"{number:_}") == Fraction(number)


@given(st.text(max_size=12))
def test_arbitrary_text_parses_or_raises_value_error(text: str) -> None:
    for read in (quantities.whole, quantities.seconds, quantities.gib):
        try:
            read(text)
        except ValueError:
            continue


def test_integer_parameter_accepts_suffix_and_names_range() -> None:
    parse = integer(1, 2_000_000)
    assert parse("1M") == 1_000_000 and type(parse("1M")) is int
    for text in ("3M", "0", "1.5", "many"):
        with pytest.raises(ValueError, match="expected a whole number from 1 to 2000000"):
            parse(text)
