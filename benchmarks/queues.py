"""Simulated probes of queues whose capacity is known exactly. Used by certainty.py and by tests.

A probe starts with an empty queue and Poisson arrivals, has the search's warm-up, and discards the search's first
part. Waiting times follow from Lindley's recursion, W' = max(0, W + service - gap): the walk of service - gap, less
its minimum so far. `Model.capacity` is exact: by closed forms for exponential and hyperexponential service, and by
Erlang's series for constant service.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, localcontext

import numpy as np
from numpy.typing import NDArray

from dyno.contracts.limits import Limit, Probe, parse
from dyno.contracts.probe_time import DISCARDED, WARMUP_S
from dyno.runner import search
from dyno.stats.capacity import Capacity, capacity

Times = NDArray[np.float64]
PER_SECOND = 1_000.0
"""Operations per second of a server that is always busy."""
MAXIMUM_SPREAD = 0.03
"""Spread of the closed-loop maximum that a search starts from."""
SQUARED_VARIATION = 4.0
"""Squared coefficient of variation of hyperexponential service."""
DIGITS, HALVINGS = 200, 24

# -- service times with a mean of 1, and the share of operations that take longer than `time` --------------------


def exponential(generator: np.random.Generator, number: int) -> Times:
    return generator.standard_exponential(number)


def exponential_tail(rate: float, time: float) -> float:
    return math.exp(-(1 - rate) * time)


def constant(generator: np.random.Generator, number: int) -> Times:
    return np.ones(number)


def constant_tail(rate: float, time: float) -> float:
    """Erlang's series for M/D/1. Its terms alternate and cancel, hence the digits."""
    with localcontext() as context:
        context.prec = DIGITS
        wait, load, total, factorial = Decimal(time) - 1, Decimal(rate), Decimal(0), Decimal(1)
        for number in range(int(wait) + 1):
            factorial *= max(number, 1)
            power = load * (wait - number)
            total += (-power) ** number / factorial * power.exp() if number else power.exp()
        return float(1 - (1 - load) * total)


def _phases() -> tuple[float, tuple[float, float]]:
    """Returns the share of the first phase and both rates, with balanced means."""
    share = (1 + math.sqrt((SQUARED_VARIATION - 1) / (SQUARED_VARIATION + 1))) / 2
    return share, (2 * share, 2 * (1 - share))


def hyperexponential(generator: np.random.Generator, number: int) -> Times:
    share, (one, other) = _phases()
    return generator.standard_exponential(number) / np.where(generator.random(number) < share, one, other)


def hyperexponential_tail(rate: float, time: float) -> float:
    """By partial fractions of the sojourn time's transform, (1 - rate) s B / (s - rate + rate B)."""
    share, (one, other) = _phases()
    below = np.polymul([1, one], [1, other])
    above = np.polyadd(np.polymul([share * one], [1, other]), np.polymul([(1 - share) * other], [1, one]))
    denominator = np.polyadd(np.polymul([1, -rate], below), rate * above)[:-1]  # Its root 0 cancels the factor s.
    roots = np.roots(denominator)
    residues = (1 - rate) * np.polyval(above, roots) / np.polyval(np.polyder(denominator), roots)
    return float(np.real(np.sum(residues / -roots * np.exp(roots * time))))


# -- the machine's speed, by the number of the probe --------------------------------------------------------------


def steady(generator: np.random.Generator, number: int) -> float:
    return 1.0


def spread(generator: np.random.Generator, number: int) -> float:
    return math.exp(generator.normal(0, 0.02))


def drift(generator: np.random.Generator, number: int) -> float:
    """6 % faster at the end of a search than at its start."""
    return 0.97 + 0.06 * number / 16 + generator.normal(0, 0.005)


def modes(apart: float) -> Callable[[np.random.Generator, int], float]:
    return lambda generator, number: 1 - apart * (generator.random() < SLOW)


def disturbed(generator: np.random.Generator, number: int) -> float:
    """Far slower in the first probes: something else ran on the machine."""
    return 0.4 if number < 4 else 1.0


SLOW = 0.3
"""Share of the probes that run in the slower of two modes."""
NORMAL = tuple((1 / 400, math.exp(0.02 * z)) for z in np.sort(np.random.default_rng(1).standard_normal(400)))


@dataclass(frozen=True)
class Model:
    name: str
    service: Callable[[np.random.Generator, int], Times]
    tail: Callable[[float, float], float]
    latency: float
    """Limit of the response time, in mean service times."""
    speed: Callable[[np.random.Generator, int], float] = steady
    weights: Sequence[tuple[float, float]] = ((1.0, 1.0),)
    """Weights and speeds of the machine's states. The limit holds for the operations of all states together."""
    tokens: float = 0.0
    """Operations that a full token bucket lets pass without a wait."""
    limit: Limit = field(init=False)
    percentile: str = "99"

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", parse(f"p{self.percentile}<{self.latency * 1000 / PER_SECOND:.6f}ms"))

    def share(self, rate: float) -> float:
        """Returns the share of operations over the limit in the long run, at this rate per second."""
        loads = ((weight, speed, rate / PER_SECOND / speed) for weight, speed in self.weights)
        time = self.latency + self.tokens
        return sum(weight * (self.tail(load, time * speed) if load < 1 else 1.0) for weight, speed, load in loads)

    def capacity(self) -> float:
        low, high = 0.0, PER_SECOND
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.share(middle) > self.limit.share else (middle, high)
        return low

    def probe(self, generator: np.random.Generator, step: search.Step, speed: float = 1.0) -> Probe:
        number = int((WARMUP_S + step.seconds) * step.rate) + 1
        gaps = generator.standard_exponential(number) / step.rate
        service = self.service(generator, number) / (PER_SECOND * speed)
        walk = np.concatenate([[0.0], np.cumsum(service[:-1] - gaps[1:])])
        response = walk - np.minimum.accumulate(walk) + service
        start = WARMUP_S + DISCARDED * step.seconds
        counted = response[np.searchsorted(np.cumsum(gaps), start) :]
        late = int(np.count_nonzero(counted > (self.latency + self.tokens) / PER_SECOND))
        return Probe(step.stage, step.rate, len(counted), (late,))


def run(model: Model, seed: Sequence[int]) -> tuple[Capacity, list[Probe], list[float]]:
    """Searches the model's capacity. Returns it with the probes, and the machine's speed in each."""
    generator = np.random.default_rng(seed)
    maximum = PER_SECOND * math.exp(generator.normal(0, MAXIMUM_SPREAD))
    probes, speeds = list[Probe](), list[float]()
    while True:
        step = search.next_step((model.limit,), maximum, probes, capacity, seed=seed[-1])
        if not isinstance(step, search.Step):
            return step, probes, speeds
        speeds.append(model.speed(generator, len(probes)))
        probes.append(model.probe(generator, step, speeds[-1]))


def queue(name: str, utilization: float, percentile: str = "99") -> Model:
    """Returns an M/M/1, M/D/1 or M/H2/1 queue with a limit whose capacity is this utilization."""
    service, tail = SERVICES[name]
    low, high = 0.0, LONGEST
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        over = middle < 1 or tail(utilization, middle) > 1 - float(percentile) / 100
        low, high = (middle, high) if over else (low, middle)
    return Model(f"{name} {utilization}, p{percentile}", service, tail, high, percentile=percentile)


SERVICES = {
    "M/M/1": (exponential, exponential_tail),
    "M/D/1": (constant, constant_tail),
    "M/H2/1": (hyperexponential, hyperexponential_tail),
}
LONGEST = 256.0
