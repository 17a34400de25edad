"""Capacity: the highest rate at which all limits hold, with an interval, from the probes of a search.

The capacity is the root of a least-squares line: the logarithm of the share that broke the limit, relative to the
limit, against the rate. For M/M/1 the share of operations over L is exp(-(mu - lambda) L), exactly such a line; for
other queues the line is the approximation in heavy traffic (Kingman, 1962; Abate, Choudhury and Whitt, 1995).

- The line goes through the probes whose rate lies in the confirmed stretch. Probes are chosen by their rate: probes
  chosen by their result would bias the root.
- The interval is Fieller's (1954), with Student's t on the scatter between probes, and never narrower than ±1 %:
  probes of one search share a machine's state, which their scatter doesn't show.
- Each limit is fitted by itself, and the lowest root is the capacity: the worst of several limits is not a line, but
  bends where another limit starts to bind.
- Without a slope that is shown to be positive there is no root; the bracket is reported, and the kind is `unsteady`.

`benchmarks/certainty.py` measures how often the interval contains the capacity of simulated queues.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dyno.contracts.limits import CONFIRM, EXPLORES, LAST, ROUND, Limit, Probe, bracket, failed_twice, worst
from dyno.stats.estimate import Center, quotient, two_sided
from dyno.stats.verdict import CONFIDENCE as RATIO_CONFIDENCE
from dyno.stats.verdict import MARGIN, Verdict, judge

FOUND, NONE, AT_LEAST, UNSTEADY = "found", "none", "at least", "unsteady"
UNSUSTAINED, FAILED, UNFINISHED = "unsustained", "failed", "unfinished"
CONFIDENCE = 0.95
NARROWEST = 0.02
WIDENED = 0.25
"""The confirmed stretch reaches beyond the rates of the last round by this share of its width at each end: the round
before has a slightly different centre."""
FEWEST_POINTS = 4
SATURATED = 3.0
ITERATIONS, MOST_LOG = 30, 20.0
POWER = 1.5


@dataclass(frozen=True, slots=True)
class Line:
    """The expected logarithm of a limit's share, relative to the limit, against the rate: slope * (rate - root)."""

    limit: Limit
    slope: float
    """Per operation per second; positive."""
    root: float
    points: int
    scatter: float = 0.0
    """Variance of a count of broken operations, divided by its mean; at least 1."""
    middle: float = 0.0
    """Weighted mean of the rates."""
    weight: float = 0.0
    """Sum of the weights: the expected counts."""
    spread: float = 0.0
    """Weighted sum of the squared distances of the rates from their mean."""
    cliff: tuple[float, float] | None = None
    """For a cliff, rates between which it lies."""

    def interval(self, confidence: float) -> tuple[float, float] | None:
        """Returns Fieller's interval of the root; None if the slope isn't shown to be positive."""
        if self.cliff:
            return self.cliff
        t = two_sided(confidence, self.points - 2)
        error = t * math.sqrt(self.scatter) / self.slope
        g = error**2 / self.spread
        if g >= 1:
            return None
        off = self.root - self.middle
        half = error * math.sqrt((1 - g) / self.weight + off**2 / self.spread)
        return self.middle + (off - half) / (1 - g), self.middle + (off + half) / (1 - g)


@dataclass(frozen=True, slots=True)
class Capacity:
    kind: str
    """`found`; `none` if no probe held; `at least` if only the clients limited; `unsteady` if the probes are no line
    with a positive slope; `unsustained` if the last probe broke a limit; `failed` if two probes in a row failed;
    `unfinished` if probes are missing."""
    rate: float | None = None
    """Operations per second; the highest rate that held if the kind is `at least`."""
    low: float | None = None
    """Ends of the 95 % interval. If there is no figure, the bracket: the highest rate that held below the lowest rate
    that broke a limit, and that rate."""
    high: float | None = None
    limit: Limit | None = None
    """The limit that binds at this rate."""
    center: Center | None = None
    """Logarithm of the rate, for ratios of two capacities."""
    line: Line | None = None


def capacity(limits: Sequence[Limit], probes: Sequence[Probe]) -> Capacity:
    """Returns the capacity by the probes of one search, in the order of their measuring."""
    valid = [probe for probe in probes if not probe.failed]
    held, broken = bracket(limits, valid)
    rounds = [probe for probe in valid if probe.stage == CONFIRM]
    last = next((probe for probe in valid if probe.stage == LAST), None)
    unknown = Capacity(UNFINISHED, low=held.rate if held else None, high=broken.rate if broken else None)
    if failed_twice(probes):
        return replace(unknown, kind=FAILED)
    if not rounds:
        if last is None:
            return replace(unknown, kind=NONE) if held is None and len(valid) >= EXPLORES else unknown
        if worst(limits, last) > 0:
            return replace(unknown, kind=UNSUSTAINED)
        return Capacity(AT_LEAST, last.rate, last.rate)
    line = _binding(limits, _stretch(valid, rounds))
    interval = line.interval(CONFIDENCE) if line else None
    if line is None or interval is None or interval[0] <= 0:
        return replace(unknown, kind=UNSTEADY, line=line)
    if last is not None and not _sustained(limits, last, line):
        return replace(unknown, kind=UNSUSTAINED, limit=line.limit, line=line)
    low, high = min(interval[0], line.root * (1 - NARROWEST)), max(interval[1], line.root * (1 + NARROWEST))
    return Capacity(FOUND if last else UNFINISHED, line.root, low, high, line.limit, _center(line), line)


def _sustained(limits: Sequence[Limit], last: Probe, line: Line) -> bool:
    """Returns whether the last probe held, or broke the limit by no more than the probes scatter."""
    t = two_sided(RATIO_CONFIDENCE, line.points - 2)
    allowed = [last.operations * limit.share for limit in limits]
    return all(
        broken <= most + t * math.sqrt(line.scatter * most**POWER)
        for broken, most in zip(last.broken, allowed, strict=True)
    )


def _stretch(probes: Sequence[Probe], rounds: Sequence[Probe]) -> list[Probe]:
    """Returns the probes whose rate lies in the stretch that the last round confirmed."""
    rates = [probe.rate for probe in rounds[-ROUND:]]
    beyond = WIDENED * (max(rates) - min(rates))
    return [p for p in probes if p.stage != LAST and min(rates) - beyond <= p.rate <= max(rates) + beyond]


def _binding(limits: Sequence[Limit], probes: Sequence[Probe]) -> Line | None:
    lines = []
    for at, limit in enumerate(limits):
        points = [(probe.rate, max(probe.broken[at], 0.5), probe.operations * limit.share) for probe in probes]
        if (line := _cliff(limit, points) or _line(limit, points)) is not None:
            lines.append(line)
    return min(lines, key=lambda line: line.root, default=None)


def _cliff(limit: Limit, points: Sequence[tuple[float, float, float]]) -> Line | None:
    low = max((rate for rate, count, most in points if math.log(count / most) < -SATURATED), default=None)
    high = min((rate for rate, count, most in points if math.log(count / most) > SATURATED), default=None)
    if low is None or high is None or low >= high or any(abs(math.log(c / m)) <= SATURATED for _, c, m in points):
        return None
    return Line(limit, 2 * SATURATED / (high - low), (low + high) / 2, len(points), cliff=(low, high))


def _line(limit: Limit, points: Sequence[tuple[float, float, float]]) -> Line | None:
    """Fits by iteratively reweighted least squares. Returns None if the slope isn't positive.

    `points`: rate, number of broken operations, and the number that the limit allows."""
    if len(points) < FEWEST_POINTS:
        return None
    expected = [count for _, count, _ in points]
    for _ in range(ITERATIONS):
        weights = [mean ** (2 - POWER) for mean in expected]
        values = [math.log(m / most) + count / m - 1 for m, (_, count, most) in zip(expected, points, strict=True)]
        weight = math.fsum(weights)
        middle = math.fsum(w * rate for w, (rate, _, _) in zip(weights, points, strict=True)) / weight
        level = math.fsum(w * value for w, value in zip(weights, values, strict=True)) / weight
        spread = math.fsum(w * (rate - middle) ** 2 for w, (rate, _, _) in zip(weights, points, strict=True))
        slope = math.fsum(w * (p[0] - middle) * v for w, p, v in zip(weights, points, values, strict=True)) / spread
        logs = [max(min(level + slope * (rate - middle), MOST_LOG), -MOST_LOG) for rate, _, _ in points]
        expected = [most * math.exp(log) for log, (_, _, most) in zip(logs, points, strict=True)]
    if slope <= 0:
        return None
    squares = math.fsum((count - m) ** 2 / m**POWER for m, (_, count, _) in zip(expected, points, strict=True))
    root = middle - level / slope
    return Line(limit, slope, root, len(points), squares / (len(points) - 2), middle, weight, spread)


def _center(line: Line) -> Center | None:
    """Returns the logarithm of the root with a standard error that gives Fieller's interval, its longer side, at the
    confidence of ratios. None if this interval is unbounded."""
    interval, degrees = line.interval(RATIO_CONFIDENCE), line.points - 2
    if interval is None or interval[0] <= 0:
        return None
    half = max(math.log(interval[1] / line.root), math.log(line.root / interval[0]))
    least = math.log1p(NARROWEST) / two_sided(CONFIDENCE, degrees)
    return Center(math.log(line.root), max(half / two_sided(RATIO_CONFIDENCE, degrees), least), degrees)


def compared(one: Capacity, base: Capacity, margin: float = MARGIN) -> Verdict:
    """Returns the verdict on a capacity and its baseline: 'faster' is a higher capacity. The two searches share no
    probes, so the ratio has an interval as that of two runs."""
    if one.center is None or base.center is None or one.line is None or base.line is None:
        return judge(None, 0.0, 0, margin)
    ratio = quotient(one.center, base.center)
    return replace(judge(ratio, math.exp(ratio.log), min(one.line.points, base.line.points), margin), more=None)
