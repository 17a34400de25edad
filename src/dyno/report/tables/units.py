"""Formats numbers for people: rates, times, sizes, ratios and money. All reports use these functions."""

import math
from collections.abc import Callable, Iterable, Mapping

from dyno.contracts.model import Fact
from dyno.stats.estimate import Estimate

UNKNOWN = "–"
WIDE = 3.0
"""An interval of ratios whose ends differ by more than this factor is shown as a bound."""
FINENESS = 50
"""The last digit of a ratio is worth at least the interval's width divided by this number."""
_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))
_LONG_TIMES = ((86_400e9, "d"), (3_600e9, "h"), (60e9, "min"))
Rounding = Callable[[float], int]


def rate(per_second: float | None) -> str:
    """Formats a throughput: as a whole number from 100 on, with three digits below."""
    if per_second is None:
        return UNKNOWN
    if per_second >= 100:
        return f"{per_second:,.0f}"
    return f"{per_second:.3g}"


def bandwidth(per_second: float | None) -> str:
    """Formats bytes per second in MB/s (10^6), or from 1,000 MB/s on in GB/s."""
    if per_second is None:
        return UNKNOWN
    if per_second >= 999.5e6:
        size = 1e9
        unit = "GB/s"
    else:
        size = 1e6
        unit = "MB/s"
    value = per_second / size
    if value < 99.95:
        return f"{value:.3g} {unit}"
    return f"{value:,.0f} {unit}"


def interval(low: float | None, high: float | None, write: Callable[[float], str] = rate) -> str:
    """Formats an interval; `write` formats each end."""
    if low is None or high is None:
        return UNKNOWN
    return f"{write(low)} – {write(high)}"


def duration(ns: float | None) -> str:
    """Formats nanoseconds in the largest unit that leaves one to three digits before the point."""
    if ns is None:
        return UNKNOWN
    size, unit = _time_unit(ns)
    if size > 1:
        return f"{_three_digits(ns / size)} {unit}"
    return f"{ns:.0f} ns"


def long_duration(ns: float) -> str:
    """Formats nanoseconds. From three minutes, hours or days on, uses these units."""
    size, unit = next(((size, unit) for size, unit in _LONG_TIMES if ns >= 3 * size), (0.0, ""))
    if size:
        return f"{ns / size:.3g} {unit}"
    return duration(ns)


def cpu_time(ns: float | None) -> str:
    """Formats the CPU time of one item to two digits or whole units, because it is not more accurate."""
    if ns is None:
        return UNKNOWN
    size, unit = _time_unit(ns)
    value = ns / size
    if value < 0.995:
        return f"{value:.2g} {unit}"
    return f"{value:.{1 if value < 9.95 else 0}f} {unit}"


def _time_unit(ns: float) -> tuple[float, str]:
    # 999.5 of a unit would be printed as 1000, so use the next unit.
    return next((each for each in _TIMES if ns >= each[0] * 0.9995), (1.0, "ns"))


def size(number: float | None) -> str:
    """Formats bytes in binary units."""
    if number is None:
        return UNKNOWN
    value, units = float(number), ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while value >= 999.5 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{_three_digits(value) if units[0] != 'B' else round(number)} {units[0]}"


def count(number: int | None) -> str:
    if number is None:
        return UNKNOWN
    return f"{number:,}"


def number(value: float) -> str:
    """Formats a parameter's value: '30,000', '0.5'."""
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:g}"


def money(amount: float | None, currency: str) -> str:
    """Formats an amount with two decimals: '0.40 USD'. Uses two significant digits if the amount would be 0.00."""
    if amount is None:
        return UNKNOWN
    if amount >= 0.995 or not amount:
        text = f"{amount:,.2f}"
    else:
        text = f"{amount:.2g}"
    return f"{text} {currency}".rstrip()


def _three_digits(value: float) -> str:
    if value < 9.995:
        return f"{value:.2f}"
    if value < 99.95:
        return f"{value:.1f}"
    return f"{value:.0f}"


def params(values: Mapping[str, object], names: Iterable[str] | None = None) -> str:
    """Formats the parameters of these names, by default all: 'records=20000 txn=all'. Several values are separated by
    commas."""
    chosen = {name: values[name] for name in (values if names is None else names)}
    return " ".join(f"{name}={','.join(map(str, v)) if isinstance(v, tuple) else v}" for name, v in chosen.items())


def outcomes(counts: Mapping[str, int], lost: int) -> str:
    """Formats the outcomes of crashes: '200 ok', '162 ok, 38 lost (1)'."""
    return ", ".join(
        f"{count} {outcome}" + (f" ({lost})" if outcome == "lost" else "") for outcome, count in counts.items()
    )


def yes_no(value: object) -> object:
    """Returns 'yes' or 'no' for a bool, and any other value unchanged."""
    if isinstance(value, bool):
        if value:
            return "yes"
        return "no"
    return value


WRITERS: Mapping[str, Callable[[float], str]] = {"items": rate, "bytes": bandwidth, "ns": duration, "size": size}
"""Formats of a metric's figures, by the metric's kind."""


def estimate(of: Estimate, kind: str) -> tuple[str, str]:
    """Formats the median and the interval of a metric, by its kind."""
    write = WRITERS[kind]
    return write(of.median), interval(of.low, of.high, write)


_FACTS: Mapping[str, Callable[[float], str]] = {
    "count": lambda value: count(int(value)),
    "bytes": lambda value: size(int(value)),
    "kb": lambda value: f"{value / 1024:,.2f}kb",
    "ratio": lambda value: f"{value:.2f}",
    "rate": rate,
    "ns": duration,
    "bandwidth": bandwidth,
}


def fact(value: Fact, kind: str) -> str:
    """Formats a suite's fact by its declared kind."""
    if value is None or isinstance(value, str):
        return value or UNKNOWN
    return _FACTS.get(kind, str)(value)


def percent(share: float | None, rounding: Rounding) -> str:
    """Formats a bound, rounded to the safe side: '12 %', '4.5 %', '0.25 %'."""
    if share is None:
        return UNKNOWN
    value = share * 100
    digits = 2
    if value >= 10:
        digits = 0
    elif value >= 1:
        digits = 1
    return f"{round_to_digits(value, digits, rounding):g} %"


def factor(value: float) -> str:
    """Formats the lower bound of a factor, rounded down: '2.4', '19'."""
    digits = 0 if value >= 10 else 1
    return f"{round_to_digits(value, digits, math.floor):,.{digits}f}"


def round_to_digits(value: float, digits: int, rounding: Rounding) -> float:
    step = float(10**digits)
    # Rounded first, because 0.29 * 100 is a little less than 29.
    return rounding(round(value * step, 6)) / step


def ratio(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """Formats a ratio with at most three decimals around 1. If the interval from `low` to `high` is wide, fewer
    decimals are shown, but the ratio is neither rounded out of its interval nor to zero."""
    if value is None:
        return UNKNOWN
    if low is None or high is None or value <= 0 or high <= low:
        return _with_three_digits(value)
    two_digits_of_it = 1 - math.floor(math.log10(value))
    for decimals in range(max(_decimals(high - low), two_digits_of_it), _usual_decimals(value)):
        if low <= round(value, decimals) <= high:
            return _with_decimals(value, decimals)
    return _with_three_digits(value)


def ratio_interval(low: float | None, high: float | None) -> str:
    """Formats an interval of ratios as precisely as its width allows. A wide interval is rounded outwards to two
    digits."""
    if low is None or high is None:
        return UNKNOWN
    if is_wide(low, high):
        return f"{two_digits(low, math.floor)} – {two_digits(high, math.ceil)}"
    return f"{_end(low, high - low)} – {_end(high, high - low)}"


def _end(value: float, width: float) -> str:
    if width > 0 and value > 0 and _decimals(width) < _usual_decimals(value):
        return _with_decimals(value, _decimals(width))
    return _with_three_digits(value)


def _decimals(width: float) -> int:
    """Returns the number of decimals of a ratio whose interval has this width; negative for tens and more."""
    return math.floor(math.log10(FINENESS / width))


def _usual_decimals(value: float) -> int:
    if value >= 99.5:
        return 0
    if value >= 10:
        return 1
    if value >= 2:
        return 2
    return 3


def _with_decimals(value: float, decimals: int) -> str:
    return f"{round(value, decimals):,.{max(decimals, 0)}f}"


def _with_three_digits(value: float) -> str:
    if value >= 99.5:
        return f"{value:,.0f}"
    if value >= 10 or value < 0.1:
        return f"{value:.3g}"
    if value < 2:
        return f"{value:.3f}"
    return f"{value:.2f}"


def is_wide(low: float, high: float) -> bool:
    return high > low * WIDE


def two_digits(value: float, rounding: Rounding) -> str:
    if value <= 0:
        return "0"
    digits = 1 - math.floor(math.log10(value))
    return f"{round_to_digits(value, digits, rounding):,.{max(digits, 0)}f}"
