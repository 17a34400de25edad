"""Search for a capacity: the highest rate at which all limits hold.

Pure: `next_step` derives the next probe from the probes so far, so a resumed search continues as if it had not been
interrupted.

1. Explore, from half of the clients' maximum: interpolate the logarithm of the share between the highest rate that
   holds and the lowest that breaks a limit, until the bracket is narrow. Two to four probes are enough for most
   queues; a cliff takes a few more, since its shares say on which side of it a rate lies, but not how far off. If
   none of four rates down to 1/64 of the maximum holds, the search ends. If all of four up to 1.1 times the maximum
   hold, or only the clients broke a limit, it goes on to the last probe.
2. Confirm, in rounds of four rates r(1 ± d), r(1 ± d/3) in random order, until twelve probes lie in the stretch that
   the last round confirms, and so does the root. The centre r and the reach d, 2 to 20 %, follow from the probes
   before the round. Twelve, because with eight a machine with two modes shows only one of them too often. A round
   that lies far on one side of the limit, because the machine was disturbed before, is followed by one on that side.
3. Last, a longer probe at the low end of the capacity's interval.

A lost probe is repeated. Several losses in a row end the search, and so does a failure that a repetition would not
change.

`probe_time.shorten_probe` bounds the search: probes are shortened so that all of a usual search fit. If they would be
too short, rounds are left out; a further round also if its probes would be shortened to less than half.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Protocol, TypeVar

from dyno.contracts.limits import (
    CONFIRM,
    EXPLORE,
    EXPLORES,
    LAST,
    ROUND,
    Limit,
    Probe,
    bracket,
    given_up,
    worst_excess,
)
from dyno.contracts.probe_time import (
    FEWEST_CONFIRMED,
    NO_TIME,
    USUAL_TIMES,
    ProbeTimes,
    Spent,
    seconds,
    shorten_probe,
)

STEEP = 0.05
WIDE = 0.1
LONGEST = 3.0
"""Confirming probes are up to LONGEST times as long in two cases. The reach of their round is below STEEP: the share
rises steeply where busy periods are long, and few of them fit in a probe. Or the interval is longer than WIDE,
relative to the rate. At high rates, where one stall of the machine makes 1 % of a probe late, that is seconds, not
operations."""
HALF = 0.5
"""A round after the usual ones is left out if its probes would be shortened to less than this share."""
LOWEST = 1 / 64
"""Lowest explored rate, as a share of the clients' maximum."""
MOST_EXPLORES, MOST_ROUNDS = 8, 8
REACH = (0.02, 0.2)
"""Least and largest distance of a round's ends from its centre, relative to it."""
WIDER = 1.5
"""Factor from the reach of a round that doesn't show a positive slope to the reach of the next."""
SPAN, MOST_SPAN = 0.55, 3.0
"""Change of the share's logarithm between a round's centre and its ends: SPAN of the way from the limit to a share of
1, but at most MOST_SPAN."""
SATURATED = 3.0
"""If a share is this far from its limit, as a logarithm, it says little about the distance of its rate."""
FAR = 1.0
"""If all shares of a round are this far from the limit, as a logarithm, and on the same side of it, and don't show
how they rise with the rate, the round is in the wrong place."""
NARROW, NARROW_SATURATED = 0.3, 0.12
"""Exploring ends when the bracket is this narrow, relative to its middle."""


@dataclass(frozen=True, slots=True)
class Step:
    """The next probe of a search."""

    stage: str
    """`EXPLORE`, `CONFIRM` or `LAST`."""
    rate: float
    """Operations due per second, of all clients."""
    seconds: float
    """Duration, of which the first part is not counted. The warm-up comes before it."""


class _Line(Protocol):
    @property
    def slope(self) -> float: ...
    @property
    def root(self) -> float: ...
    @property
    def points(self) -> int: ...


class Figure(Protocol):
    """The capacity by the probes so far: `dyno.stats.capacity.Capacity`, which this package must not import."""

    @property
    def rate(self) -> float | None: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...
    @property
    def line(self) -> _Line | None: ...


F = TypeVar("F", bound=Figure)


def next_step(
    limits: Sequence[Limit],
    maximum: float,
    probes: Sequence[Probe],
    fit: Callable[[Sequence[Limit], Sequence[Probe]], F],
    *,
    seed: int,
    times: ProbeTimes = USUAL_TIMES,
    spent: Spent = NO_TIME,
) -> Step | F:
    """Returns the next probe, or the capacity if the search is over.

    `maximum`: most operations per second that the clients reach in a closed loop. `probes`: all probes so far, in the
    order of their measuring, failed ones included. `fit`: `dyno.stats.capacity.capacity`. `seed`: of the search, for
    the order of the rates within a round. `times`: durations of the probes, and the search's bound. `spent`: what the
    search has taken of it."""
    if maximum <= 0:
        raise ValueError(f"expected a maximum above 0 op/s, got {maximum:g}")
    valid = [probe for probe in probes if not probe.failed]
    explored = [probe for probe in valid if probe.stage == EXPLORE]
    rounds = [probe for probe in valid if probe.stage == CONFIRM]
    if given_up(probes) or any(probe.stage == LAST for probe in valid):
        return fit(limits, probes)

    def step(stage: str, rate: float, longer: float = 1.0) -> Step | None:
        wanted = longer * seconds(limits, rate, stage, times)
        if stage == EXPLORE:
            explores = [wanted] * (EXPLORES - len(explored) - 1)
        else:
            explores = []
        for confirms in _confirms(stage, len(rounds)):
            following = explores + [longer * seconds(limits, rate, CONFIRM, times)] * confirms
            duration = shorten_probe(stage, wanted, following, times, spent)
            if duration is not None:
                return Step(stage, rate, duration)
        return None

    if not rounds:
        held, broken = bracket(limits, explored)
        if (rate := _explore(limits, maximum, explored)) is not None:
            return step(EXPLORE, rate) or fit(limits, probes)
        if held is None:
            return fit(limits, probes)
        if broken is None or broken.client_limited:
            return step(LAST, held.rate) or fit(limits, probes)
    number = len(rounds) // ROUND
    if len(rounds) % ROUND == 0 and number:
        figure = fit(limits, probes)
        low = figure.low if figure.rate is not None else None
        if low is not None and (number == MOST_ROUNDS or _is_confirmed(figure, rounds)):
            return step(LAST, low) or figure
        if number == MOST_ROUNDS:
            return figure
    before = explored + rounds[: number * ROUND]
    centre, reach = _aim(limits, before, fit)
    rates = [centre * (1 + reach * at) for at in (-1, -1 / 3, 1 / 3, 1)]
    random.Random(f"{seed} {number}").shuffle(rates)
    rate = rates[len(rounds) % ROUND]
    longer = min(max((STEEP / reach) ** 2, _width(fit(limits, before)) / WIDE, 1), LONGEST)
    following_step = step(CONFIRM, rate, longer)
    further = len(rounds) >= FEWEST_CONFIRMED and len(rounds) % ROUND == 0
    if following_step is None or (further and following_step.seconds < HALF * seconds(limits, rate, CONFIRM, times)):
        figure = fit(limits, probes)
        ending = None if figure.rate is None or figure.low is None else step(LAST, figure.low)
        return ending or figure
    return following_step


def _confirms(stage: str, confirmed: int) -> Iterator[int]:
    """Yields the number of confirming probes that follow a probe of this stage: the usual number, and fewer rounds
    for a search with little time."""
    if stage == LAST:
        yield 0
        return
    rest = 0
    if stage == CONFIRM:
        rest = ROUND - confirmed % ROUND - 1
    while rest + confirmed + ROUND <= FEWEST_CONFIRMED:
        rest += ROUND
    yield from range(rest, -1, -ROUND)


def _explore(limits: Sequence[Limit], maximum: float, probes: Sequence[Probe]) -> float | None:
    """Returns the next rate to explore; None if exploring is over."""
    number = len(probes)
    held, broken = bracket(limits, probes)
    # As far as is known before a probe breaks a limit: at the clients' maximum, every operation would be late.
    top = min(-math.log(limit.share) for limit in limits)
    if not probes:
        return maximum / 2
    if broken is None:
        assert held is not None
        if number >= EXPLORES or held.client_limited:
            return None
        if number == EXPLORES - 1 or held.rate >= maximum * 0.98:
            return max(maximum, held.rate) * 1.1
        level = worst_excess(limits, held)
        if level < -SATURATED:
            share = 0.8
        else:
            share = min(max(-level / (top - level), 0.3), 0.8)
        return held.rate + share * (maximum - held.rate)
    if held is None:
        if number >= EXPLORES:
            return None
        if number == EXPLORES - 1:
            return maximum * LOWEST
        level = min(worst_excess(limits, broken), top * 0.95)
        rate = maximum - (maximum - broken.rate) * (top + 0.7) / (top - level)
        return min(max(rate, broken.rate / 3.2), broken.rate / 1.15)
    lower, upper = worst_excess(limits, held), worst_excess(limits, broken)
    width = (broken.rate - held.rate) / ((broken.rate + held.rate) / 2)
    saturated = lower < -SATURATED or upper > SATURATED
    if width <= (NARROW_SATURATED if saturated else NARROW) or number >= MOST_EXPLORES:
        return None
    share = 0.5
    if not saturated:
        share = min(max(-lower / (upper - lower), 0.1), 0.9)
    return held.rate + share * (broken.rate - held.rate)


def _is_confirmed(figure: Figure, rounds: Sequence[Probe]) -> bool:
    """Returns whether enough probes lie in the last round's stretch, and the root with them."""
    rates = [probe.rate for probe in rounds[-ROUND:]]
    line = figure.line
    return line is not None and line.points >= FEWEST_CONFIRMED and min(rates) <= line.root <= max(rates)


def _has_unproven_slope(figure: Figure) -> bool:
    """Returns whether as many probes as usual don't show that the slope is positive."""
    return figure.rate is None and figure.line is not None and figure.line.points >= FEWEST_CONFIRMED


def _width(figure: Figure) -> float:
    """Returns the length of the interval, relative to the rate; 0 if it is not known yet."""
    if _has_unproven_slope(figure):
        return math.inf
    if figure.rate and figure.low and figure.high:
        return (figure.high - figure.low) / figure.rate
    return 0.0


def _aim(
    limits: Sequence[Limit], probes: Sequence[Probe], fit: Callable[[Sequence[Limit], Sequence[Probe]], F]
) -> tuple[float, float]:
    """Returns the centre and the reach of the next round."""
    held, broken = bracket(limits, probes)
    figure = fit(limits, probes)
    line, least = figure.line, REACH[0]
    rates = [probe.rate for probe in probes[-ROUND:]]
    centre = min(max(line.root if line else fmean(rates), min(rates)), max(rates))
    if probes[-1].stage == CONFIRM and figure.rate is None:
        levels = [worst_excess(limits, probe) for probe in probes[-ROUND:]]
        if min(levels) > FAR or max(levels) < -FAR:
            # The root lies elsewhere: a disturbance misled the probes before. A wide round at that side follows.
            if min(levels) > FAR:
                end = min(rates)
                away = -1
            else:
                end = max(rates)
                away = 1
            return end * (1 + away * REACH[1]), REACH[1]
    if held is None or broken is None:
        # Only exploring probes held or broke, and later ones contradict them.
        return centre, REACH[1]
    lower, upper = worst_excess(limits, held), worst_excess(limits, broken)
    if line is None:
        slope = (upper - lower) / (broken.rate - held.rate)
        centre = held.rate - lower / slope
    else:
        slope = line.slope
        if _has_unproven_slope(figure):
            least = WIDER * (max(rates) - min(rates)) / 2 / centre
    span = min(SPAN * min(-math.log(limit.share) for limit in limits), MOST_SPAN)
    reach = span / (slope * centre)
    if lower < -SATURATED and upper > SATURATED:
        centre = (held.rate + broken.rate) / 2
        reach = (broken.rate - held.rate) / 2 / centre
    return centre, min(max(reach, least), REACH[1])
