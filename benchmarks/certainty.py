"""How often Dyno's intervals cover the truth, and how often its verdicts are false.

    python benchmarks/certainty.py [--seed N] [--blocks N] [--searches N] [--only PART] [--quick]

There are eight parts. All draws are seeded, and no trial is in two comparisons.

family    simulated runs of 2 to 20 rows in 1 to 8 phases: the share of runs with any false statement, and of the
planted differences that are found
decided   the same for runs that decide after each block whether to continue
versions  simulated versions of an engine: the share of runs with a false change, and of the planted ones that are
found
apart     the gate on simulated pairs of runs that were not measured in turns, on machines that drift
coverage  draws from five distributions with known medians: 95 % intervals of medians and 99 % intervals of ratios
A/A       trials of equal engines of the records suite, timed on this machine: SQLite against SQLite, LMDB against
LMDB
gate      trials of the synthetic engine, some with 10 % more work: the verdicts of `dyno check` on runs at different
times
capacity  searches on simulated queues, whose capacities are known exactly: the errors, the 95 % intervals, and the
verdicts on pairs of equal engines

Exit status 1: over 1 % of the runs of a family have a false statement, as far as the number of draws can tell; over
2 % of the pairs of equal runs fail although the machine's drift shows within them; a coverage from 6 trials on is
more than 2 points too low, over 5 % of verdicts are false, the gate fails over 1 % of equal runs, or the gate finds
less than 90 % of the planted slowdowns. For capacities: less than 95 % are within 5 % of the truth (for a cliff,
within 3 %), less than 90 % of the intervals contain it (a search without an interval counts as one that doesn't), or
over 1 % of the verdicts are false.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from apart import MACHINES, simulate_pairs
from families import AHEAD, CASES, FALSE, MOST_BLOCKS, simulate, simulate_decisions, simulate_versions
from numpy.typing import NDArray
from queues import (
    NORMAL,
    SERVICES,
    SLOW,
    Model,
    constant,
    constant_tail,
    disturbed,
    drift,
    exponential,
    exponential_tail,
    modes,
    queue,
    spread,
)
from queues import run as search

from dyno.cli.progress import observer
from dyno.contracts.limits import CONFIRM
from dyno.options import RunRequest
from dyno.results import Run
from dyno.runner import parent, plan
from dyno.stats import capacity
from dyno.stats.compare import compare_pairs, compare_with_baseline, tables
from dyno.stats.estimate import estimate
from dyno.stats.two_runs import compare_runs, gate

Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]
SPREAD, SLOWED = 0.04, 0.15
TRIALS = (3, 4, 5, 6, 8, 10, 20)
SHORT = 0.02
MOST_FALSE, MOST_FAILED, LEAST_FOUND = 0.05, 0.01, 0.90
CHUNK, MARGIN = 5, 0.05
PLANTED = "synthetic:slower=10"


def _slowed(generator: np.random.Generator, number: int) -> NDArray[np.float64]:
    """Draws in which most trials are alike and a few are much slower."""
    hit = generator.random(number) < SLOWED
    return generator.normal(0, SPREAD / 2, number) - hit * generator.exponential(0.3, number)


DRAWS: dict[str, Draw] = {
    "log-normal": lambda generator, number: generator.normal(0, SPREAD, number),
    "heavy tails": lambda generator, number: generator.standard_t(3, number) * SPREAD,
    "skewed": lambda generator, number: -generator.exponential(SPREAD, number),
    "some slowed": _slowed,
    "two speeds": lambda generator, number: (
        generator.normal(0, SPREAD / 4, number) - (generator.random(number) < 0.35) * 0.1
    ),
}


def coverage(seed: int, repeats: int) -> bool:
    print(f"Coverage, of {repeats:,} draws each\n")
    print(f"{'median, 95 %':<14}" + "".join(f"{number:>7}" for number in TRIALS) + "  until ±5 % (samples)")
    good = True
    for name, draw in DRAWS.items():
        truth = float(np.exp(np.median(draw(np.random.default_rng(seed), 1_000_000))))
        shares = [_covered(draw, truth, number, seed, repeats) for number in TRIALS]
        stopped, took = _until(draw, truth, seed, repeats // 4)
        print(
            f"{name:<14}"
            + "".join(f"{share * 100:>7.1f}" for share in shares)
            + f"  {stopped * 100:.1f} ({took:.0f})"
        )
        good = good and all(s >= 0.95 - SHORT for s, number in zip(shares, TRIALS, strict=True) if number > 5)
    print(f"\n{'ratio, 99 %':<14}" + "".join(f"{number:>7}" for number in TRIALS))
    for name, draw in DRAWS.items():
        shares = [_ratio_covered(draw, number, seed, repeats) for number in TRIALS]
        print(f"{name:<14}" + "".join(f"{share * 100:>7.1f}" for share in shares))
        good = good and all(s >= 0.99 - SHORT for s in shares)
    return good


def _covered(draw: Draw, truth: float, number: int, seed: int, repeats: int) -> float:
    generator, found = np.random.default_rng([seed, number]), 0
    for _ in range(repeats):
        over = estimate(np.exp(draw(generator, number)).tolist())
        found += over.low is not None and over.high is not None and over.low <= truth <= over.high
    return found / repeats


def _until(draw: Draw, truth: float, seed: int, repeats: int) -> tuple[float, float]:
    """Coverage and mean number of samples of runs that add samples until the interval is narrow."""
    generator, found, took = np.random.default_rng([seed, 0]), 0, 0
    for _ in range(repeats):
        values = np.exp(draw(generator, 60)).tolist()
        number = next((n for n in range(plan.UNTIL_BLOCKS, 60) if (estimate(values[:n]).reach or 1) <= 0.05), 60)
        over = estimate(values[:number])
        found += over.low is not None and over.high is not None and over.low <= truth <= over.high
        took += number
    return found / repeats, took / repeats


def _ratio_covered(draw: Draw, number: int, seed: int, repeats: int) -> float:
    """Coverage of the ratio of two engines, one 20 % faster, whose blocks share noise and a drift."""
    generator, truth, found = np.random.default_rng([seed, number, 1]), 1.2, 0
    for _ in range(repeats):
        drift = np.cumsum(generator.normal(0, SPREAD, number))
        mine = truth * np.exp(draw(generator, number) + drift)
        base = np.exp(draw(generator, number) + drift)
        over = compare_pairs(list(zip(mine.tolist(), base.tolist(), strict=True)))
        found += over.low is not None and over.high is not None and over.low <= truth <= over.high
    return found / repeats


def measured(args: RunRequest) -> Run:
    """Measures a run here, without null engines."""
    run_plan = plan.make(args)
    run_plan = replace(run_plan, cells=tuple(cell for cell in run_plan.cells if not cell.floor))
    with tempfile.TemporaryDirectory(dir=".") as place, observer() as watching:
        work = Path(place).absolute()
        return parent.execute(run_plan, work / "run.json", work, watching, resume=False, overwrite=False)


def chunks(run: Run, size: int) -> Iterator[Run]:
    """Splits trials into runs of `size` blocks each, without overlap."""
    blocks = sorted({attempt.block for attempt in run.attempts})
    for first in range(0, len(blocks) - size + 1, size):
        part = blocks[first : first + size]
        attempts = tuple(attempt for attempt in run.attempts if attempt.block in part)
        recorded = {**run.recorded, "plan": {**run.recorded["plan"], "samples": size}}
        yield Run(run.path, recorded, run.cells, attempts)


def same(seed: int, blocks: int) -> bool:
    """Measures each engine twice, once with an option set to its default."""
    run = measured(
        RunRequest(
            "records",
            engines=["sqlite", "sqlite:cache_mib=64", "lmdb", "lmdb:readahead=yes"],
            params={"records": [2_000], "operations": [2_000]},
            phases=["insert-blind-indices", "rand-key", "rand-index", "scan", "update", "mixed"],
            samples=blocks,
            budget=0.1,
            seed=seed,
        )
    )
    verdicts = [
        comparison.verdict.kind
        for part in chunks(run, CHUNK)
        for table in tables(part)
        for engine in ("sqlite", "lmdb")
        for comparison in compare_with_baseline(table, engine)
        if comparison.engine.engine == engine
    ]
    if not verdicts:
        print(f"\nA/A: no comparison; it takes --blocks of at least {CHUNK}")
        return False
    false = sum(kind in ("faster", "slower") for kind in verdicts)
    share = false / len(verdicts)
    print(
        f"\nA/A: {len(verdicts)} comparisons of {CHUNK} blocks: {false} false verdicts, {share * 100:.1f} %;", end=" "
    )
    print(f"{verdicts.count('alike')} equal, {verdicts.count('unclear')} can't tell")
    return share <= MOST_FALSE


def gated(seed: int, blocks: int) -> bool:
    """Applies the gate to runs of two periods: base against base, and base against a planted slowdown."""
    args = {"operations": [50_000]}
    run = measured(RunRequest("selftest", engines=["synthetic", PLANTED], params=args, samples=blocks, seed=seed))
    good = True
    for size in (5, 10):
        parts = list(chunks(run, size))
        pairs = [(one, other) for one in parts for other in parts if one is not other]
        if not pairs:
            print(f"gate: no pairs of runs of {size} samples; it takes --blocks of at least {2 * size}")
            good = False
            continue
        random.Random(seed).shuffle(pairs)
        failed, found = (
            sum(_fails(_only(one, 0), _only(other, cell)) for one, other in pairs) / len(pairs) for cell in (0, 1)
        )
        print(f"gate: {len(pairs)} pairs of runs of {size} samples, margin {MARGIN * 100:g} %:", end=" ")
        print(f"{failed * 100:.1f} % false failures, {found * 100:.1f} % of the planted 10 % found")
        good = good and failed <= MOST_FAILED and (found >= LEAST_FOUND or size < 10)
    return good


def _only(run: Run, cell: int) -> Run:
    """The run reduced to one cell, which becomes cell 0."""
    attempts = tuple(replace(attempt, cell=0) for attempt in run.attempts if attempt.cell == cell)
    return Run(run.path, run.recorded, run.cells[:1], attempts)


def _fails(before: Run, after: Run) -> bool:
    return any(judged.state == "slower" for judged in gate(compare_runs(before, after, None, MARGIN), MARGIN))


def _two_modes(apart: float) -> Model:
    name, weights = f"two modes, {apart:.0%} apart", ((1 - SLOW, 1.0), (SLOW, 1 - apart))
    return Model(name, exponential, exponential_tail, LATENCY, speed=modes(apart), weights=weights)


LATENCY = queue("M/M/1", 0.82).latency
"""Limit, in service times, under which M/M/1 has a utilization of 0.82."""
MODELS = (
    *(queue(name, utilization) for name in SERVICES for utilization in (0.54, 0.82, 0.95)),
    queue("M/M/1", 0.82, "99.9"),
    Model("cliff: token bucket", constant, constant_tail, 5, tokens=100),
    Model("speeds spread by 2 %", exponential, exponential_tail, LATENCY, speed=spread, weights=NORMAL),
    _two_modes(0.05),
    Model("drift of 6 %", exponential, exponential_tail, LATENCY, speed=drift),
)
UNPROMISED = (
    _two_modes(0.1),
    Model("disturbed at first", exponential, exponential_tail, LATENCY, speed=disturbed),
)
"""With so few probes, the share of slow ones is too uncertain, and not every search finds back to the right rates."""
NEAR, NEAR_CLIFF, LEAST_NEAR, LEAST_COVERED, MOST_FALSE_CAPACITIES = 0.05, 0.03, 0.95, 0.90, 0.01


def capacities(seed: int, searches: int, models: Sequence[Model]) -> bool:
    """Searches each model's capacity this often, and compares the searches in pairs, as if of two engines."""
    print(f"\nCapacity, of {searches} searches each; the rates per 1,000 that a busy server answers\n")
    heads = ("truth", "in 5 %", "in 3 %", "worst", "interval", "±", "no figure", "probes", "false verdicts")
    print(f"{'':<24}" + "".join(f"{head:>{len(head) + 3}}" for head in heads))
    good, false, pairs = True, 0, 0
    for number, model in enumerate(models):
        truth, errors, widths, covered, probes, verdicts = model.capacity(), [], [], 0, 0, 0
        previous = None
        for at in range(searches):
            figure, done, speeds = search(model, (seed, number, at))
            true = _drifted(model, truth, [s for s, p in zip(speeds, done, strict=True) if p.stage == CONFIRM])
            probes += len(done)
            if figure.kind != capacity.FOUND:
                errors.append(float("inf"))
            elif figure.rate and figure.low and figure.high:
                errors.append(abs(figure.rate / true - 1))
                covered += figure.low <= true <= figure.high
                widths.append((figure.high - figure.low) / 2 / figure.rate)
            if at % 2 and previous is not None:
                verdicts += capacity.compare_capacities(figure, previous).kind in ("faster", "slower")
            previous = figure
        near, nearer = (sum(error < limit for error in errors) / searches for limit in (NEAR, NEAR_CLIFF))
        known = [error for error in errors if error < float("inf")]
        missing = f"{(searches - len(known)) / searches * 100:.1f}"
        print(
            f"{model.name:<24}{truth:>8.0f}{near * 100:>9.1f}{nearer * 100:>9.1f}{max(known) * 100:>8.1f}"
            f"{covered / searches * 100:>11.1f}{float(np.median(widths)) * 100:>4.1f}{missing:>12}"
            f"{probes / searches:>9.1f}{verdicts:>11} of {searches // 2}",
            flush=True,
        )
        if model in UNPROMISED:
            continue
        reached = nearer if model.tokens else near
        good = good and reached >= LEAST_NEAR and covered / searches >= LEAST_COVERED
        false, pairs = false + verdicts, pairs + searches // 2
    print(f"{false} of {pairs} verdicts on equal engines are false")
    return good and false <= MOST_FALSE_CAPACITIES * pairs


def _drifted(model: Model, truth: float, speeds: Sequence[float]) -> float:
    """The capacity at the mean speed of a drifting machine during the confirming probes."""
    if model.speed is not drift or not speeds:
        return truth
    return replace(model, weights=((1.0, float(np.mean(speeds))),)).capacity()


SIZES = ((2, 1), (2, 8), (5, 1), (5, 8), (8, 3), (14, 1), (14, 8), (20, 1))
"""Numbers of rows and of phases."""
FAMILY_SAMPLES = (3, 6, 10)


def family(seed: int, draws: int) -> bool:
    """Prints the share of simulated runs with a false statement, by the family and by pairs that are read alone."""
    # More than three standard errors over the promise can't be chance.
    most = FALSE + 3 * (FALSE / draws) ** 0.5
    good = True
    print(f"Families, of {draws} runs each: % with a false statement (if each pair is read alone)\n")
    print(f"{'rows x phases':<22}" + "".join(f"{f'{rows} x {phases}':>16}" for rows, phases in SIZES))
    for case in CASES:
        for samples in FAMILY_SAMPLES:
            texts = []
            for rows, phases in SIZES:
                together, alone = simulate(case, phases, rows, samples, seed, draws)
                texts.append(f"{together.false * 100:.1f} ({alone.false * 100:.0f})")
                # Three samples can all fall into the same of two modes.
                good = good and (together.false <= most or (samples == 3 and case.name == "two modes"))
            print(f"{f'{case.name}, {samples}':<22}" + "".join(f"{text:>16}" for text in texts), flush=True)
    print("\n% of the other rows that are found to be slower than the first (if each pair is read alone)\n")
    for case in AHEAD:
        for samples in FAMILY_SAMPLES:
            outcomes = [simulate(case, phases, rows, samples, seed, draws) for rows, phases in SIZES]
            texts = [f"{one.power * 100:.0f} ({other.power * 100:.0f})" for one, other in outcomes]
            print(f"{f'{case.name}, {samples}':<22}" + "".join(f"{text:>16}" for text in texts), flush=True)
    return good


def decided(seed: int, draws: int) -> bool:
    """Prints the outcome of simulated runs that decide after each block whether to continue."""
    most = FALSE + 3 * (FALSE / draws) ** 0.5
    good = True
    print(f"\nRuns until decided, of {draws} each, at most {MOST_BLOCKS} blocks: % with a false statement, % of the")
    print("other rows found to be slower than the first, trials of a row\n")
    for case in (*CASES, *AHEAD):
        texts = []
        for rows, phases in SIZES[:6]:
            outcome = simulate_decisions(case, phases, rows, 3, seed, draws)
            texts.append(f"{outcome.false * 100:.1f} {outcome.power * 100:.0f} {outcome.trials:.1f}")
            good = good and outcome.false <= most
        print(f"{case.name:<22}" + "".join(f"{text:>16}" for text in texts), flush=True)
    return good


VERSIONS = 5, 12, 16


def versions(seed: int, draws: int) -> bool:
    """Prints the share of simulated series of versions with a false change, and of those whose change is found."""
    most = FALSE + 3 * (FALSE / draws) ** 0.5
    good = True
    print(
        f"\nVersions of an engine, of {draws} runs each: % with a false change, % of planted changes of 10 % found\n"
    )
    print(f"{'versions':<22}" + "".join(f"{number:>14}" for number in VERSIONS))
    for case in (case for case in CASES if not case.groups):
        for samples in FAMILY_SAMPLES:
            outcomes = [simulate_versions(case, number, samples, seed, draws) for number in VERSIONS]
            texts = [f"{false * 100:.1f}, {found * 100:.0f}" for false, found in outcomes]
            print(f"{f'{case.name}, {samples}':<22}" + "".join(f"{text:>14}" for text in texts), flush=True)
            good = good and all(false <= most for false, _ in outcomes)
    return good


APART_SIZES = (1, 5), (1, 10), (4, 5), (4, 10), (12, 6), (4, 20)
"""Numbers of rows and of samples."""
MOST_APART = 0.02


def apart(seed: int, draws: int) -> bool:
    """Prints the share of simulated pairs of equal runs that fail the gate, and of slower rows that do."""
    most = MOST_APART + 3 * (MOST_APART / draws) ** 0.5
    good = True
    print(f"\nGates of two runs not in turns, of {draws} each: % of equal runs that fail, % of rows 15 % slower that")
    print("fail (without the drift in the intervals)\n")
    print(f"{'rows x samples':<18}" + "".join(f"{f'{rows} x {samples}':>18}" for rows, samples in APART_SIZES))
    for machine in MACHINES:
        texts = []
        for rows, samples in APART_SIZES:
            with_drift, without = simulate_pairs(machine, rows, samples, seed, draws)
            failed, found = (
                f"{one * 100:.0f} ({other * 100:.0f})"
                for one, other in ((with_drift.failed, without.failed), (with_drift.found, without.found))
            )
            texts.append(f"{failed}, {found}")
            good = good and (with_drift.failed <= most or not machine.known)
        print(f"{machine.name:<18}" + "".join(f"{text:>18}" for text in texts), flush=True)
    return good


PARTS = ("family", "decided", "versions", "apart", "coverage", "same", "gate", "capacity")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="How often intervals cover the truth, and verdicts are false.")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default: 1")
    parser.add_argument("--blocks", type=int, default=100, metavar="N", help="of the timed parts; default: 100")
    parser.add_argument("--searches", type=int, default=200, metavar="N", help="of each queue; default: 200")
    parser.add_argument("--draws", type=int, default=300, metavar="N", help="of each family; default: 300")
    parser.add_argument("--only", choices=PARTS, action="append", help="only this part; repeatable")
    parser.add_argument("--quick", action="store_true", help="no simulated rows, and two searches of two queues")
    args = parser.parse_args(arguments)
    parts = args.only or PARTS[5 * args.quick :]
    good = "family" not in parts or family(args.seed, args.draws)
    good = ("decided" not in parts or decided(args.seed, max(args.draws // 3, 1))) and good
    good = ("versions" not in parts or versions(args.seed, args.draws)) and good
    good = ("apart" not in parts or apart(args.seed, args.draws)) and good
    good = ("coverage" not in parts or coverage(args.seed, 4_000)) and good
    good = ("same" not in parts or same(args.seed, args.blocks)) and good
    good = ("gate" not in parts or gated(args.seed, args.blocks)) and good
    models, searches = (MODELS[:2], 2) if args.quick else (MODELS + UNPROMISED, args.searches)
    good = ("capacity" not in parts or capacities(args.seed, searches, models)) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
