"""The search for a capacity and its fit, on simulated queues and on made-up probes."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from shell import TESTS

from dyno.contracts import limits as contract
from dyno.contracts.limits import CONFIRM, EXPLORE, LAST, Limit, Probe, parse, parse_all
from dyno.contracts.model import UsageError
from dyno.contracts.probe_time import SPARE, USUAL_TIMES, ProbeTimes, Spent, forecast, seconds
from dyno.runner.search import Step, next_step
from dyno.stats import capacity
from dyno.stats.capacity import Capacity

sys.path.append(str(TESTS.parent / "benchmarks"))
import queues

P99, ERRORS = parse("p99<5ms"), parse("errors<0.1%")
Shares = Callable[[float], tuple[float, ...]]
MAXIMUM = 10_000.0


def searched(
    shares: Shares, limits: Sequence[Limit] = (P99,), *, limited_from: float = math.inf, failing: Sequence[int] = ()
) -> tuple[Capacity, list[Probe]]:
    """Searches an engine whose share of late operations depends on the rate alone. `failing`: numbers of probes that
    fail."""
    probes = list[Probe]()
    while isinstance(step := next_step(limits, MAXIMUM, probes, capacity.capacity, seed=1), Step):
        operations = 0 if len(probes) in failing else round(step.rate * step.seconds)
        broken = tuple(round(operations * share) for share in shares(step.rate))
        probes.append(Probe(step.stage, step.rate, operations, broken, step.rate >= limited_from))
        assert len(probes) < 60
    return step, probes


def queue_shares(rate: float) -> tuple[float, ...]:
    """M/M/1 with 10,000 op/s and p99 = 5 ms at 9,079/s."""
    return (math.exp(-max(MAXIMUM - rate, 0) * 0.005),)


# -- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "normalized", "share", "latency_ns"),
    [
        ("p99<5ms", "p99<5ms", 0.01, 5_000_000),
        (" p99.9 < 20 ms ", "p99.9<20ms", 0.001, 20_000_000),
        ("p50<300us", "p50<300us", 0.5, 300_000),
        ("p50<1.5µs", "p50<1.5µs", 0.5, 1_500),
        ("p95<800ns", "p95<800ns", 0.05, 800),
        ("p99.99<1s", "p99.99<1s", 0.0001, 1_000_000_000),
        ("errors<0.1%", "errors<0.1%", 0.001, None),
        ("errors < 2 %", "errors<2%", 0.02, None),
    ],
)
def test_a_limit_is_parsed(text: str, normalized: str, share: float, latency_ns: int | None) -> None:
    assert parse(text) == Limit(normalized, share, latency_ns)


@pytest.mark.parametrize(
    "text",
    [
        *("", "p99", "p99<", "p99<5", "p99<5m", "p99>5ms", "p99<0ms", "p99<0.4ns", "p99<-5ms", "p100<5ms", "p0<5ms"),
        *("p99.9999<5ms", "errors<0%", "errors<5", "errors<0.001%", "mean<5ms", "p99<5ms,p50<1ms", "p٩٩<5ms"),
    ],
)
def test_bad_limit_raises_one_line_error(text: str) -> None:
    with pytest.raises(ValueError, match="expected") as raised:
        parse(text)
    assert "\n" not in str(raised.value) and str(raised.value).startswith(text)


def test_second_limit_on_one_quantity_is_refused() -> None:
    assert [limit.text for limit in parse_all(["p99<5ms", "errors<0.1%"])] == ["p99<5ms", "errors<0.1%"]
    with pytest.raises(ValueError, match="p99 has a limit already, p99<5ms"):
        parse_all(["p99<5ms", "p99<6ms"])
    with pytest.raises(ValueError, match="at least one"):
        parse_all([])


# -- the search ------------------------------------------------------------------------------------------------------


def test_a_capacity_is_found() -> None:
    figure, probes = searched(queue_shares)
    assert figure.kind == capacity.FOUND and figure.limit == P99
    assert figure.rate == pytest.approx(MAXIMUM - math.log(100) / 0.005, rel=0.002)
    assert probes[0] == Probe(EXPLORE, 5_000, probes[0].operations, (0,))
    assert [probe.stage for probe in probes] == [EXPLORE] * (len(probes) - 13) + [CONFIRM] * 12 + [LAST]
    assert figure.low == probes[-1].rate and probes[-1].operations == pytest.approx(60 * probes[-1].rate, abs=1)


def test_unattainable_limit_ends_search_after_four_probes() -> None:
    figure, probes = searched(lambda rate: (0.2,))
    assert figure == Capacity(capacity.NONE, high=probes[-1].rate) and len(probes) == 4
    assert probes[-1].rate == MAXIMUM / 64
    assert probes == sorted(probes, key=lambda probe: -probe.rate)


def test_limit_that_always_holds_gives_lower_bound() -> None:
    figure, probes = searched(lambda rate: (0.0,))
    assert figure.kind == capacity.AT_LEAST and len(probes) == 5
    assert figure.rate == figure.low == probes[-1].rate == max(probe.rate for probe in probes) > MAXIMUM


def test_limit_broken_by_clients_alone_gives_lower_bound() -> None:
    figure, probes = searched(lambda rate: (float(rate > MAXIMUM),), limited_from=MAXIMUM)
    assert figure.kind == capacity.AT_LEAST and len(probes) == 5
    assert figure.rate == pytest.approx(0.98 * MAXIMUM)
    # The same shares of clients that had time left are the engine's.
    figure, _ = searched(lambda rate: (float(rate > MAXIMUM),))
    assert figure.kind == capacity.FOUND and figure.rate == pytest.approx(MAXIMUM, rel=0.01)


def test_search_stops_at_the_limit_of_the_clients() -> None:
    figure, probes = searched(lambda rate: (0.0,), limited_from=MAXIMUM * 0.8)
    assert figure.kind == capacity.AT_LEAST and len(probes) == 3 and figure.rate == 0.9 * MAXIMUM


@pytest.mark.parametrize("cliff", [0.021, 0.09, 0.36, 0.512, 0.77, 0.97, 1.04])
def test_a_hard_cliff_is_found_within_three_percent(cliff: float) -> None:
    figure, _ = searched(lambda rate: (float(rate > cliff * MAXIMUM),))
    assert figure.kind == capacity.FOUND and figure.low is not None and figure.high is not None
    assert figure.rate == pytest.approx(cliff * MAXIMUM, rel=0.03)
    assert figure.low <= cliff * MAXIMUM <= figure.high


def test_the_binding_limit_is_the_lowest() -> None:
    def shares(rate: float) -> tuple[float, ...]:
        return (*queue_shares(rate), 0.001 * math.exp((rate - 8_000) / 500))

    figure, _ = searched(shares, (P99, ERRORS))
    assert figure.limit == ERRORS and figure.rate == pytest.approx(8_000, rel=0.002)
    figure, _ = searched(lambda rate: (*queue_shares(rate), 0.0), (P99, ERRORS))
    assert figure.limit == P99 and figure.rate == pytest.approx(9_079, rel=0.002)


def test_erratic_shares_are_unsteady_and_have_a_bracket() -> None:
    noise = random.Random(5)
    figure, probes = searched(lambda rate: (0.01 * math.exp(noise.choice([-1, 1]) * 0.7),))
    assert figure.kind in (capacity.UNSTEADY, capacity.NONE) and figure.rate is None
    held, broken = contract.bracket((P99,), probes)
    assert (figure.low, figure.high) == (held and held.rate, broken and broken.rate)


def test_last_probe_clearly_breaking_limit_makes_capacity_unsustained() -> None:
    """Breaking the limit by less than the probes scatter is no proof."""
    model = queues.queue("M/M/1", 0.82)
    _, probes, _ = queues.run(model, (2,))
    last = probes[-1]

    def ending(share: float, operations: int = last.operations) -> Capacity:
        changed = [*probes[:-1], Probe(LAST, last.rate, operations, (round(operations * share),))]
        figure = next_step((model.limit,), 2 * probes[0].rate, changed, capacity.capacity, seed=2)
        assert isinstance(figure, Capacity)
        return figure

    assert ending(0.0).kind == ending(0.0105).kind == capacity.FOUND
    # A short probe has few busy periods, so its share scatters more.
    assert ending(0.06, 2_000).kind == capacity.FOUND and ending(0.06, 20_000).kind == capacity.UNSUSTAINED
    broken = ending(0.2)
    assert broken.kind == capacity.UNSUSTAINED and broken.rate is None
    assert broken.low is not None and broken.high is not None and broken.low < broken.high <= last.rate


def test_lost_probes_are_repeated() -> None:
    whole = searched(queue_shares)[1]
    figure, probes = searched(queue_shares, failing=[1, 2, 6])
    assert figure.kind == capacity.FOUND and len(probes) == len(whole) + 3
    assert [probe for probe in probes if not probe.failed] == whole and probes[1].rate == probes[3].rate
    figure, probes = searched(queue_shares, failing=[1, 2, 3])
    assert figure.kind == capacity.FAILED and len(probes) == 4 and figure.low == MAXIMUM / 2


def test_a_wrong_answer_ends_the_search() -> None:
    step = next_step((P99,), MAXIMUM, [Probe(EXPLORE, 5_000, 0, final=True)], capacity.capacity, seed=1)
    assert isinstance(step, Capacity) and step.kind == capacity.FAILED


# -- the time of a search --------------------------------------------------------------------------------------------


def timed(maximum: float, times: ProbeTimes, around: float) -> tuple[Capacity, list[Step], float]:
    """Searches an M/M/1 queue of this rate. Each trial takes the time `around` beside its phase. Returns also the
    steps and the time of all trials."""
    probes, steps = list[Probe](), list[Step]()
    total = times.least + times.warmup + around
    while True:
        spent = Spent(total, around)
        step = next_step((P99,), maximum, probes, capacity.capacity, seed=1, times=times, spent=spent)
        if not isinstance(step, Step):
            return step, steps, total
        steps.append(step)
        operations = round(step.rate * step.seconds * 0.8)
        late = round(operations * math.exp(-max(maximum - step.rate, 0) * 50 / maximum))
        probes.append(Probe(step.stage, step.rate, operations, (late,)))
        total += times.warmup + step.seconds + around


@pytest.mark.parametrize("bound", [120.0, 300.0, 600.0, 1_800.0])
@pytest.mark.parametrize("maximum", [20.0, 400.0, 5_000.0, 1e6])
def test_search_stays_within_its_time_bound(maximum: float, bound: float) -> None:
    figure, steps, total = timed(maximum, ProbeTimes(1.0, 5.0, 20.0, bound), around=2.0)
    assert total <= bound
    if maximum * bound > 10_000:
        # Else the probes have too few operations.
        assert figure.kind == capacity.FOUND and steps[-1].stage == LAST and len(steps) >= 10


def test_unbounded_search_takes_about_its_forecast_time() -> None:
    times = ProbeTimes(1.0, 5.0, 20.0)
    for maximum in (400.0, 5_000.0, 1e6):
        _, _, total = timed(maximum, times, around=2.0)
        assert forecast((P99,), times, maximum, around=2.0) == pytest.approx(total, rel=0.35)


@pytest.mark.parametrize(
    ("bound", "stages"), [(70.0, [EXPLORE] * 3 + [CONFIRM] * 4 + [LAST]), (40.0, [EXPLORE] * 3), (10.0, [])]
)
def test_short_time_bound_drops_search_rounds(bound: float, stages: list[str]) -> None:
    figure, steps, total = timed(5_000.0, ProbeTimes(1.0, 5.0, 20.0, bound), around=2.0)
    assert [step.stage for step in steps] == stages and total <= max(bound, 8)
    assert (figure.kind == capacity.FOUND) == (LAST in stages)


def test_probes_fit_into_the_timeout() -> None:
    _, steps, _ = timed(20.0, ProbeTimes(1.0, 5.0, 20.0, timeout=30.0), around=2.0)
    assert max(step.seconds for step in steps) == 30 - 1 - 2 * SPARE
    assert steps[-1].seconds == 20


@pytest.mark.parametrize(
    ("times", "why"),
    [
        (ProbeTimes(timeout=60.0), "the longest probe takes 65 s besides starting and loading: give at least 125"),
        (ProbeTimes(bound=60.0), r"within 120: 2 searches of 17 probes need at least 234 s"),
    ],
)
def test_timeout_or_bound_too_short_is_refused(times: ProbeTimes, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        times.check(2)


@pytest.mark.parametrize(("rate", "duration"), [(540, 300 / 0.01 / 540), (50_000, 10)])
def test_a_confirming_probe_counts_enough_operations(rate: float, duration: float) -> None:
    assert seconds([P99], rate, CONFIRM, USUAL_TIMES) == pytest.approx(duration)
    strict = [P99, parse("p99.99<1s")]
    assert seconds(strict, rate, CONFIRM, USUAL_TIMES) == pytest.approx(max(2_000_000 / rate, 10))


def test_the_last_probe_takes_as_long_as_requested() -> None:
    assert seconds([parse("p99.9<5ms")], 10, LAST, ProbeTimes(last=7.0)) == 7


def test_a_maximum_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0 op/s"):
        next_step((P99,), 0.0, [], capacity.capacity, seed=1)


@pytest.mark.parametrize("name", ["M/M/1", "M/D/1"])
def test_interrupted_search_resumes_with_the_same_probes(name: str) -> None:
    model = queues.queue(name, 0.82)
    figure, probes, _ = queues.run(model, (3,))
    probes.insert(5, Probe(probes[5].stage, probes[5].rate, 0))
    maximum = probes[0].rate * 2
    for cut, probe in enumerate(probes):
        step = next_step((model.limit,), maximum, probes[:cut], capacity.capacity, seed=3)
        assert isinstance(step, Step) and (step.stage, step.rate) == (probe.stage, probe.rate)
    assert next_step((model.limit,), maximum, probes, capacity.capacity, seed=3) == figure


def test_confirming_round_keeps_its_initial_rates() -> None:
    _, probes, _ = queues.run(queues.queue("M/H2/1", 0.82), (4,))
    confirming = [probe.rate for probe in probes if probe.stage == CONFIRM]
    for start in range(0, len(confirming), 4):
        one, two, three, four = sorted(confirming[start : start + 4])
        assert one + four == pytest.approx(two + three) and four - one == pytest.approx(3 * (three - two))


def test_probe_exactly_at_the_limit_holds() -> None:
    at, above, none = (Probe(EXPLORE, rate, 10_000, (count,)) for rate, count in ((3, 100), (4, 101), (2, 0)))
    assert contract.worst_excess((P99,), at) <= 0 < contract.worst_excess((P99,), above)
    assert contract.bracket((P99,), [above, none, at, Probe(EXPLORE, 1, 0)]) == (at, above)
    # A longer probe without a late operation shows more.
    assert contract.excess(P99, 0, 20_000) < contract.excess(P99, 0, 10_000) < contract.excess(P99, 1, 10_000)


def test_rates_of_a_round_are_shuffled_by_the_seed() -> None:
    explored = [probe for probe in searched(queue_shares)[1] if probe.stage == EXPLORE]

    def first(seed: int) -> float:
        step = next_step((P99,), MAXIMUM, explored, capacity.capacity, seed=seed)
        assert isinstance(step, Step) and step.stage == CONFIRM
        return step.rate

    assert len({first(seed) for seed in range(30)}) == 4 and first(7) == first(7)


# -- figures and verdicts, on simulated queues -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "utilization"), [("M/M/1", 0.54), ("M/M/1", 0.95), ("M/D/1", 0.82), ("M/H2/1", 0.82)]
)
def test_capacities_of_queues_are_near_the_truth(name: str, utilization: float) -> None:
    model = queues.queue(name, utilization)
    truth = model.capacity()
    assert truth == pytest.approx(utilization * queues.PER_SECOND, rel=1e-4)
    figures = [queues.run(model, (at,))[0] for at in range(12)]
    near = sum(figure.rate is not None and abs(figure.rate / truth - 1) < 0.05 for figure in figures)
    covered = sum(bool(f.low and f.high and f.rate) and f.low <= truth <= f.high for f in figures)  # type: ignore[operator]
    assert near >= 11 and covered >= 10


def test_search_recovers_from_an_early_disturbance() -> None:
    disturbed = replace(queues.queue("M/M/1", 0.82), speed=queues.disturbed)
    figures = [queues.run(disturbed, (at,))[0] for at in range(12)]
    near = sum(figure.rate is not None and abs(figure.rate / 820 - 1) < 0.05 for figure in figures)
    wrong = sum(figure.rate is not None and abs(figure.rate / 820 - 1) > 0.1 for figure in figures)
    assert near >= 6 and wrong == 0


@pytest.mark.parametrize(
    ("model", "rate"),
    [(queues.queue("M/D/1", 0.54), 540), (queues.queue("M/H2/1", 0.54), 540), (queues.queue("M/M/1", 0.82), 820)],
)
def test_queue_formulas_agree_with_long_simulation(model: queues.Model, rate: float) -> None:
    import numpy

    probe = model.probe(numpy.random.default_rng(1), Step(LAST, rate, 2_000_000 / rate))
    assert probe.broken[0] / probe.operations == pytest.approx(0.01, rel=0.08)


def test_two_identical_engines_are_seldom_told_apart() -> None:
    model = queues.Model(
        "spread", queues.exponential, queues.exponential_tail, queues.queue("M/M/1", 0.54).latency, queues.spread
    )
    figures = [queues.run(model, (at,))[0] for at in range(101)]
    verdicts = [capacity.compare_capacities(one, base).kind for one, base in pairwise(figures)]
    assert len(verdicts) == 100 and sum(kind in ("faster", "slower") for kind in verdicts) <= 1


def test_an_engine_with_more_capacity_is_faster() -> None:
    slow, fast = (queues.run(queues.queue("M/M/1", each), (1,))[0] for each in (0.54, 0.82))
    verdict = capacity.compare_capacities(fast, slow)
    assert verdict.kind == "faster" and verdict.ratio == pytest.approx(0.82 / 0.54, rel=0.1)
    assert capacity.compare_capacities(slow, fast).kind == "slower"
    assert capacity.compare_capacities(slow, Capacity(capacity.AT_LEAST, 1.0, 1.0)).kind == "unclear"
    equal = capacity.compare_capacities(slow, slow)
    assert equal.ratio == 1 and equal.kind in ("alike", "unclear")


@pytest.mark.parametrize("seed", range(60))
def test_search_ends_for_random_shares(seed: int) -> None:
    noise = random.Random(seed)
    cut, flat, lift = noise.uniform(0, 1.3) * MAXIMUM, noise.random(), noise.choice([0, 1e-5, 0.01, 0.5])

    def shares(rate: float) -> tuple[float, ...]:
        late = flat if noise.random() < 0.2 else min(lift + math.exp((rate - cut) / MAXIMUM * 50), 1)
        return (late, noise.choice([0, 0.002]))

    failing = [at for at in range(60) if noise.random() < 0.1]
    figure, probes = searched(shares, (P99, ERRORS), limited_from=noise.uniform(0.5, 2) * MAXIMUM, failing=failing)
    assert figure.kind != capacity.UNFINISHED and len(probes) < 60
    assert (figure.rate is not None) == (figure.kind in (capacity.FOUND, capacity.AT_LEAST))
    if figure.rate is not None:
        assert figure.low is not None and 0 < figure.low <= figure.rate <= (figure.high or math.inf)
