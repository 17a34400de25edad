"""Counts verdicts of several runs by hand: who is faster on how many machines."""

from __future__ import annotations

from dataclasses import replace

import pytest
from madeup import a_cell, of_rates
from test_load_limit import a_limited_run

from dyno.contracts.model import Tier
from dyno.report.site.league import machine_name
from dyno.results import Run
from dyno.results.run import URL
from dyno.stats.league import Result, Standing, count, verdicts
from dyno.stats.verdict import Verdict

FAST, SLOW = (2_000.0, 2_010.0, 1_990.0, 2_000.0), (1_000.0, 1_005.0, 995.0, 1_001.0)


def result(machine: str, kind: str, ratio: float | None = None, year: str = "2026") -> Result:
    return Result(machine, year, Verdict(kind=kind, ratio=ratio, low=ratio, high=ratio, blocks=3))


def test_league_counts_machines_rather_than_runs() -> None:
    results = [
        *(result("a", "faster", ratio) for ratio in (1.2, 1.4, 1.3)),
        result("b", "faster", 1.6),
        result("c", "slower", 0.8),
        result("d", "alike", 1.01),
        result("e", "unclear", 1.1),
        result("f", "unclear"),
    ]
    assert count(results) == Standing(8, 6, faster=(1.3, 1.6), slower=(1.25,), alike=1, undecided=2)


@pytest.mark.claim("A league counts each machine once, by the verdict of most of its runs")
@pytest.mark.parametrize(
    ("kinds", "standing"),
    [
        # One of two is no majority, whatever the other says.
        (("faster", "unclear"), (0, 0, 0, 1)),
        (("faster", "slower"), (0, 0, 0, 1)),
        (("faster", "faster", "slower"), (1, 0, 0, 0)),
        (("faster", "slower", "slower"), (0, 1, 0, 0)),
        (("faster", "slower", "alike"), (0, 0, 0, 1)),
        (("alike", "alike", "faster"), (0, 0, 1, 0)),
        (("unclear", "unclear", "faster"), (0, 0, 0, 1)),
        # Ten runs of one machine are one vote.
        (("faster",) * 10, (1, 0, 0, 0)),
    ],
)
def test_machine_vote_is_the_majority_of_its_runs(kinds: tuple[str, ...], standing: tuple[int, ...]) -> None:
    ratios = {"faster": 1.5, "slower": 0.5, "alike": 1.0, "unclear": None}
    counted = count([result("a", kind, ratios[kind]) for kind in kinds])
    assert (len(counted.faster), len(counted.slower), counted.alike, counted.undecided) == standing
    assert (counted.machines, counted.runs) == (1, len(kinds))


def test_machine_ratio_is_from_agreeing_runs_only() -> None:
    results = [result("a", "faster", 3.0), result("a", "faster", 2.0), result("a", "slower", 0.1)]
    assert count(results).faster == (2.5,)


@pytest.mark.claim("A league has no ratio of two tiers or of two machines")
def test_pairs_have_equal_tier_and_parameters() -> None:
    run = of_rates(
        (a_cell("one", Tier.PROCESS), {"read": FAST}),
        (a_cell("two", Tier.PROCESS), {"read": SLOW}),
        (a_cell("one", Tier.POWER), {"read": SLOW}),
        (a_cell("three", Tier.POWER), {"read": FAST}),
        (a_cell("one", Tier.POWER, clients=4), {"read": SLOW}),
        (a_cell("none", Tier.POWER, floor=True), {"read": FAST}),
        phases=["read"],
    )
    found = {(work.tier, one, other): verdict.kind for (work, one, other), verdict in verdicts(run).items()}
    assert found == {(Tier.PROCESS, "one", "two"): "faster", (Tier.POWER, "one", "three"): "slower"}


def test_pairs_are_ordered_alphabetically() -> None:
    run = of_rates((a_cell("b"), {"read": FAST}), (a_cell("a"), {"read": SLOW}), phases=["read"])
    (((_, one, other), verdict),) = verdicts(run).items()
    assert (one, other, verdict.kind) == ("a", "b", "slower")
    assert verdict.ratio == pytest.approx(0.5, rel=0.01)


def test_users_own_servers_take_no_part() -> None:
    own = replace(a_cell("b"), options={URL: "postgresql://server-1"})
    run = of_rates((a_cell("a"), {"read": FAST}), (own, {"read": SLOW}), phases=["read"])
    assert verdicts(run) == {}


def test_void_rows_take_no_part() -> None:
    """One wrong answer in one trial voids the row."""
    run = of_rates((a_cell("a"), {"read": FAST}), (a_cell("b"), {"read": SLOW}), phases=["read"])
    assert len(verdicts(run)) == 1
    attempts = tuple(
        replace(attempt, samples=tuple(replace(sample, void="a wrong answer") for sample in attempt.samples))
        if (attempt.cell, attempt.block) == (1, 0)
        else attempt
        for attempt in run.attempts
    )
    assert verdicts(replace(run, attempts=attempts)) == {}


def test_rows_limited_by_the_load_generator_take_no_part() -> None:
    def engines(run: Run) -> set[str]:
        return {engine for _, *engines in verdicts(run) for engine in engines}

    assert engines(a_limited_run(redis=50)) == {"redis", "postgresql", "mariadb", "lmdb"}
    assert engines(a_limited_run(redis=96)) == {"postgresql", "mariadb", "lmdb"}


def defined(file: str, sha256: str) -> Run:
    definition = {"tables": {"t": {"file": file, "sha256": sha256}}}
    rows = (a_cell("a"), {"read": FAST}), (a_cell("b"), {"read": SLOW})
    return of_rates(*rows, phases=["read"], definition=definition)


@pytest.mark.parametrize(("available", "quota", "named"), [(1, None, "1 cores"), (4, 1.5, "1.5 cores")])
def test_machine_name_states_usable_cores(available: int, quota: float | None, named: str) -> None:
    cpu = {"model": "Small", "logical_cores": 4, "available_cores": available, "quota_cores": quota}
    run = of_rates((a_cell("a"), {"read": FAST}), phases=["read"])
    run = replace(run, recorded={**run.recorded, "host": {"cpu": cpu, "memory": {"total_bytes": 1 << 30}}})
    assert machine_name(run).startswith(f"Small, {named}")


def test_definition_and_awake_cores_distinguish_works() -> None:
    plain, moved, other = defined("t.csv", "0" * 64), defined("data/1.csv", "0" * 64), defined("t.csv", "1" * 64)
    assert verdicts(plain).keys() == verdicts(moved).keys()
    assert not verdicts(plain).keys() & verdicts(other).keys()
    awake = replace(plain, recorded={**plain.recorded, "plan": {**plain.recorded["plan"], "awake": True}})
    assert not verdicts(plain).keys() & verdicts(awake).keys()
