"""Capacity: the highest rate at which all limits hold, with an interval, from the probes of a search.

The capacity is the root of a line: the logarithm of the expected share that breaks the limit, relative to the limit,
against the rate. For M/M/1 the share of operations over L is exp(-(mu - lambda) L), exactly such a line; for other
queues the line is the approximation in heavy traffic (Kingman, 1962; Abate, Choudhury and Whitt, 1995).

- The line goes through the probes whose rate lies in the confirmed stretch. Probes are chosen by their rate: probes
  chosen by their result would bias the root.
- It is fitted to counts, by quasi-likelihood (Wedderburn, 1974). The mean of logarithms would be biased: for M/M/1
  with a utilization of 0.95, half of the probes of 30,000 operations have no late one, and a few have thousands. The
  variance of a count grows with its mean for a queue, and with the squared mean if the machine differs between
  probes; the power 1.5 lies between.
- A share ends at 0 and at 1, where the line doesn't. A count of none or of nearly all takes part only if the line
  expects otherwise; then none counts as half an operation, less than anything that can be counted. If hardly any
  other counts are left, the share is a cliff, and the interval lies between the two sides.
- The interval is Fieller's (1954), with Student's t on the scatter between probes, and never narrower than ±2 %: the
  probes of one search share a machine's state, which their scatter doesn't show.
- Each limit is fitted by itself, and the lowest root is the capacity: the worst of several limits is not a line, but
  bends where another limit starts to bind.
- Without a slope that is shown to be positive there is no root; the bracket is reported, and the kind is `unsteady`.

`benchmarks/certainty.py` measures how often the interval contains the capacity of simulated queues.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import mul
from statistics import median

from msgspec import structs

from dyno.contracts.limits import CONFIRM, EXPLORES, LAST, ROUND, Limit, Probe, bracket, given_up, worst_excess
from dyno.stats.estimate import Center, quotient, two_sided
from dyno.stats.verdict import CONFIDENCE as RATIO_CONFIDENCE
from dyno.stats.verdict import MARGIN, Verdict, judge

FOUND = "found"
NONE = "none"
AT_LEAST = "at least"
UNSTEADY = "unsteady"
UNSUSTAINED = "unsustained"
FAILED = "failed"
UNFINISHED = "unfinished"
OUT_OF_TIME = "out of time"
CONFIDENCE = 0.975
"""Nominal confidence of the 95 % interval. Counts of queues are skewed: nominal 95 % contained the truth in 85 to
93 % of the searches with bursty service."""
NARROWEST = 0.02
"""Least distance of the interval's ends from the rate, relative to it."""
WIDENED = 0.25
"""The confirmed stretch reaches beyond the rates of the last round by this share of its width at each end: the round
before has a slightly different centre."""
FEWEST_POINTS = 4
POWER = 1.5
"""The variance of a count is proportional to its mean to this power."""
ITERATIONS, MOST_LOG = 30, 20.0


@dataclass(frozen=True, slots=True)
class Line:
    """The expected logarithm of a limit's share, relative to the limit, against the rate: slope * (rate - root)."""

    limit: Limit
    slope: float
    """Per operation per second; positive."""
    root: float
    points: int
    """Number of probes in the stretch."""
    used: int
    """Number of these whose count says where the line is. Other probes only say on which side of it they are."""
    scatter: float = 0.0
    """Variance of a count of broken operations, divided by its mean to the power POWER."""
    middle: float = 0.0
    """Weighted mean of the rates."""
    weight: float = 0.0
    """Sum of the weights: the expected counts to the power 2 - POWER."""
    spread: float = 0.0
    """Weighted sum of the squared distances of the rates from their mean."""
    cliff: tuple[float, float] | None = None
    """For a cliff, rates between which it lies."""

    def interval(self, confidence: float) -> tuple[float, float] | None:
        """Returns Fieller's interval of the root; None if the slope isn't shown to be positive."""
        if self.cliff:
            return self.cliff
        t = two_sided(confidence, self.used - 2)
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
    with a positive slope; `unsustained` if the last probe broke a limit; `failed` if several probes in a row were
    lost, or one failed for good; `unfinished` if probes are missing; `out of time` if the search's bound ended it."""
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
    unknown = Capacity(UNFINISHED)
    if held is not None:
        unknown = replace(unknown, low=held.rate)
    if broken is not None:
        unknown = replace(unknown, high=broken.rate)
    if given_up(probes):
        return replace(unknown, kind=FAILED)
    if not rounds:
        if last is None:
            if held is None and len(valid) >= EXPLORES:
                return replace(unknown, kind=NONE)
            return unknown
        if worst_excess(limits, last) > 0:
            return replace(unknown, kind=UNSUSTAINED)
        return Capacity(AT_LEAST, last.rate, last.rate)
    line = _binding(limits, _stretch(valid, rounds))
    interval = None
    if line:
        interval = line.interval(CONFIDENCE)
    if line is None or interval is None or interval[0] <= 0:
        return replace(unknown, kind=UNSTEADY, line=line)
    if last is not None and not _is_sustained(limits, last, line, median(probe.operations for probe in rounds)):
        return replace(unknown, kind=UNSUSTAINED, limit=line.limit, line=line)
    low, high = min(interval[0], line.root * (1 - NARROWEST)), max(interval[1], line.root * (1 + NARROWEST))
    return Capacity(FOUND if last else UNFINISHED, line.root, low, high, line.limit, _center(line), line)


def _is_sustained(limits: Sequence[Limit], last: Probe, line: Line, operations: float) -> bool:
    """Returns whether the last probe held, or broke the limit by no more than the probes scatter. `operations`: of a
    confirming probe."""
    t = two_sided(RATIO_CONFIDENCE, line.used - 2)
    # The scatter holds for probes as long as the confirming ones. A shorter probe has as many busy periods fewer, so
    # its variance shrinks with its length, and not with the length to the power POWER.
    usual = max(last.operations, operations)
    for limit, broken in zip(limits, last.broken, strict=True):
        most = last.operations * limit.share
        variance = line.scatter * most * (usual * limit.share) ** (POWER - 1)
        if broken > most + t * math.sqrt(max(variance, most)):
            return False
    return True


def _stretch(probes: Sequence[Probe], rounds: Sequence[Probe]) -> list[Probe]:
    """Returns the probes whose rate lies in the stretch that the last round confirmed."""
    rates = [probe.rate for probe in rounds[-ROUND:]]
    beyond = WIDENED * (max(rates) - min(rates))
    return [p for p in probes if p.stage != LAST and min(rates) - beyond <= p.rate <= max(rates) + beyond]


def _binding(limits: Sequence[Limit], probes: Sequence[Probe]) -> Line | None:
    """Returns the line with the lowest root of all limits."""
    lines = (
        _line(limit, [_Point.from_probe(limit, probe.broken[at], probe) for probe in probes])
        for at, limit in enumerate(limits)
    )
    return min((line for line in lines if line), key=lambda line: line.root, default=None)


@dataclass(frozen=True, slots=True)
class _Point:
    """A probe's count of operations that broke one limit."""

    rate: float
    count: float
    """Limited to the range from `low` to `high`."""
    allowed: float
    """The number that the limit allows."""
    low: float
    high: float

    @classmethod
    def from_probe(cls, limit: Limit, broken: int, probe: Probe) -> "_Point":
        # Where most operations break the limit, the share can't follow the line: it ends at 1. Half-way between the
        # limit and 1 is above the limit also for one such as p50.
        low, high = 0.5, probe.operations * (1 + limit.share) / 2
        return cls(probe.rate, min(max(broken, low), high), probe.operations * limit.share, low, high)

    def tells(self, mean: float) -> bool:
        """Returns whether the count says more than that the mean is beyond what can be counted, as expected."""
        return max(self.count, mean) > self.low and min(self.count, mean) < self.high


def _line(limit: Limit, points: Sequence[_Point]) -> Line | None:
    """Fits by iteratively reweighted least squares. Returns None if the slope isn't positive."""
    means = [point.count for point in points]
    for _ in range(ITERATIONS):
        used = [(point, mean) for point, mean in zip(points, means, strict=True) if point.tells(mean)]
        if len({point.rate for point, _ in used}) < FEWEST_POINTS:
            return _cliff(limit, points)
        weights = [mean ** (2 - POWER) for _, mean in used]
        values = [math.log(mean / point.allowed) + point.count / mean - 1 for point, mean in used]
        weight = math.fsum(weights)
        middle = math.fsum(w * point.rate for w, (point, _) in zip(weights, used, strict=True)) / weight
        level = math.fsum(map(mul, weights, values)) / weight
        distances = [point.rate - middle for point, _ in used]
        spread = math.fsum(w * distance**2 for w, distance in zip(weights, distances, strict=True))
        slope = math.fsum(map(mul, map(mul, weights, distances), values)) / spread
        logs = [max(min(level + slope * (point.rate - middle), MOST_LOG), -MOST_LOG) for point in points]
        means = [point.allowed * math.exp(log) for point, log in zip(points, logs, strict=True)]
        means = [min(max(mean, point.low), point.high) for point, mean in zip(points, means, strict=True)]
    if slope <= 0:
        return None
    squares = math.fsum((point.count - mean) ** 2 / mean**POWER for point, mean in zip(points, means, strict=True))
    scatter = squares / (len(used) - 2)
    return Line(limit, slope, middle - level / slope, len(points), len(used), scatter, middle, weight, spread)


def _cliff(limit: Limit, points: Sequence[_Point]) -> Line | None:
    """Returns a cliff if nearly all shares are beyond what can be counted, and the low ones at lower rates."""
    low = max((point.rate for point in points if point.count <= point.low), default=math.inf)
    high = min((point.rate for point in points if point.count >= point.high), default=-math.inf)
    if low >= high or len(points) < FEWEST_POINTS:
        return None
    return Line(limit, 2 * MOST_LOG / (high - low), (low + high) / 2, len(points), len(points), cliff=(low, high))


def _center(line: Line) -> Center | None:
    """Returns the logarithm of the root with a standard error that gives Fieller's interval, its longer side, at the
    confidence of ratios. None if this interval is unbounded."""
    interval, degrees = line.interval(RATIO_CONFIDENCE), line.used - 2
    if interval is None or interval[0] <= 0:
        return None
    half = max(math.log(interval[1] / line.root), math.log(line.root / interval[0]))
    least = math.log1p(NARROWEST) / two_sided(CONFIDENCE, degrees)
    return Center(math.log(line.root), max(half / two_sided(RATIO_CONFIDENCE, degrees), least), degrees)


def compare_capacities(
    one: Capacity, base: Capacity, margin: float = MARGIN, confidence: float = RATIO_CONFIDENCE
) -> Verdict:
    """Returns the verdict on a capacity and its baseline: 'faster' is a higher capacity. The two searches share no
    probes, so the ratio has an interval as that of two runs."""
    if one.center is None or base.center is None or one.line is None or base.line is None:
        return judge(None, 0.0, 0, margin)
    ratio = quotient(one.center, base.center)
    verdict = judge(ratio, math.exp(ratio.log), min(one.line.points, base.line.points), margin, confidence)
    return structs.replace(verdict, more=None)
