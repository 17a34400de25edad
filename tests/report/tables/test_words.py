"""Tests the wording of verdicts and answers, which must not claim more than the data shows."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from madeup import Rates, a_cell, a_sample, an_attempt, changed, declared, heated, of_cells, of_rates, reads, recorded
from msgspec import structs

from dyno.contracts.decoded_types import Residency
from dyno.contracts.model import Tier
from dyno.fields import Sample
from dyno.report.tables import units, wording
from dyno.results import Run
from dyno.stats.metric import metric
from dyno.stats.verdict import Verdict

# The noise is geometric: its logarithms have a mean of 0, so that it doesn't change ratios.
QUIET = (1.0, 1.01, 1 / 1.01, 1.0, 1.0)
NOISY = (1.0, 1.3, 1 / 1.3, 1.0, 1.0)


def around(rate: float, noise: Rates = QUIET) -> list[float]:
    return [1e6 * rate * value for value in noise if value is not None]


def only(run: Run) -> str:
    (sentence,) = wording.answers(run)
    return sentence


# -- verdicts -------------------------------------------------------------------------------------------------


def faster(low: float, high: float = 100.0) -> Verdict:
    return Verdict(kind="faster", ratio=(low * high) ** 0.5, low=low, high=high, bound=low - 1, blocks=5)


def slower(high: float, low: float = 0.01) -> Verdict:
    return Verdict(kind="slower", ratio=(low * high) ** 0.5, low=low, high=high, bound=1 - high, blocks=5)


def alike(bound: float) -> Verdict:
    return Verdict(kind="alike", ratio=1.0, low=1 / (1 + bound), high=1 + bound, bound=bound, blocks=5)


def unclear(blocks: int, more: int | None) -> Verdict:
    return Verdict(kind="unclear", ratio=None if blocks < 3 else 1.0, low=0.5, high=2.0, blocks=blocks, more=more)


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (faster(1.12), "faster by at least 12 %"),
        (faster(1.034), "faster by at least 3.4 %"),
        (faster(1.99), "faster by at least 99 %"),
        (faster(2.0), "at least 2.0 times as fast"),
        (faster(20.0), "at least 20 times as fast"),
        (faster(1_900.0), "at least 1,900 times as fast"),
        (slower(0.88), "slower by at least 12 %"),
        (slower(0.51), "slower by at least 49 %"),
        (slower(0.5), "slower by a factor of at least 2.0"),
        (slower(0.04), "slower by a factor of at least 25"),
        (alike(0.041), "no difference larger than 4.1 %"),
        (alike(0.0), "no difference larger than 0 %"),
        (unclear(5, 6), "can't tell, needs about 6 more samples"),
        (unclear(5, 1), "can't tell, needs about 1 more sample"),
        (unclear(5, 1_000), "can't tell, needs about 1,000 more samples"),
        (unclear(5, None), "can't tell, needs a quieter machine, or thousands of samples"),
        (unclear(2, 1), "can't tell, needs 1 more sample, 3 in all at least"),
        (unclear(0, 3), "can't tell, needs 3 more samples, 3 in all at least"),
    ],
)
def test_verdict_wording_states_kind_and_bound(verdict: Verdict, expected: str) -> None:
    assert wording.verdict(verdict) == expected


@pytest.mark.claim("A verdict is one of three kinds and agrees with its interval")
@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (faster(1.1199), "faster by at least 11 %"),
        (faster(1.0349), "faster by at least 3.4 %"),
        (faster(1.000001), "faster by over 0 %"),
        (faster(2.39), "at least 2.3 times as fast"),
        (faster(19.99), "at least 19 times as fast"),
        (slower(0.8801), "slower by at least 11 %"),
        (alike(0.0401), "no difference larger than 4.1 %"),
        (alike(0.00001), "no difference larger than 0.01 %"),
        (alike(0.1001), "no difference larger than 11 %"),
    ],
)
def test_bound_is_rounded_to_the_safe_side(verdict: Verdict, expected: str) -> None:
    assert wording.verdict(verdict) == expected


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (faster(1.25), "needs at least 20 % less memory"),
        (faster(1.99), "needs at least 49 % less memory"),
        (faster(1.000001), "needs over 0 % less memory"),
        (faster(2.39), "needs less memory by a factor of at least 2.3"),
        (slower(0.8), "needs at least 25 % more memory"),
        (slower(0.5), "needs at least 2.0 times as much memory"),
        (slower(0.04), "needs at least 25 times as much memory"),
        (alike(0.041), "no difference larger than 4.1 %"),
        (unclear(5, 6), "can't tell, needs about 6 more samples"),
    ],
)
def test_less_memory_is_not_called_faster(verdict: Verdict, expected: str) -> None:
    """A bound is a share of the baseline's memory: the ratio is its inverse."""
    assert wording.verdict(verdict, metric("memory")) == expected


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (structs.replace(slower(0.8), bound=0.25), "needs at least 25 % more CPU time"),
        (alike(0.04), "needs at most 4 % more CPU time"),
        (alike(0.0), "needs no more CPU time"),
        (faster(1.25), "needs at least 20 % less CPU time"),
    ],
)
def test_cpu_gate_wording_names_cpu_time(verdict: Verdict, expected: str) -> None:
    assert wording.format_gate_verdict(verdict, metric("cpu")) == expected


@pytest.mark.parametrize("percent", range(1, 100))
def test_whole_percentage_is_shown_exactly(percent: int) -> None:
    assert wording.verdict(faster(1 + percent / 100)) == f"faster by at least {percent} %"
    assert wording.verdict(alike(percent / 100)) == f"no difference larger than {percent} %"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "–"),
        (1.0, "1.000"),
        (0.9876, "0.988"),
        (2.345, "2.35"),
        (23.45, "23.4"),
        (2345.6, "2,346"),
        (0.01234, "0.0123"),
    ],
)
def test_ratio_has_at_least_three_significant_digits(value: float | None, expected: str) -> None:
    assert units.ratio(value) == expected


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [
        (60.2, 22.0, 230_000.0, "60"),
        (22.4, 22.3, 230_000.0, "22.4"),
        (0.04, 0.0001, 900.0, "0.04"),
        (0.0002, 0.0001, 900.0, "0.0002"),
        (1.42, 1.31, 1.54, "1.42"),
    ],
)
def test_ratio_stays_in_its_interval(value: float, low: float, high: float, expected: str) -> None:
    assert units.ratio(value, low, high) == expected


def test_ratio_is_shown_with_its_interval() -> None:
    assert wording.ratio(Verdict(kind="faster", ratio=1.424, low=1.311, high=1.54, bound=0.31, blocks=5)) == (
        "1.42",
        "1.31 – 1.54",
    )
    assert wording.ratio(unclear(2, 1))[0] == "–"
    assert wording.interval(Verdict(kind="unclear", blocks=2, more=1)) == "–"


@pytest.mark.parametrize(
    ("low", "high", "point", "interval"),
    [
        (1.285, 1.315, "1.300", "1.285 – 1.315"),
        (1.1, 1.54, "1.30", "1.10 – 1.54"),
        (100.0, 280.0, "170", "100 – 280"),
        (1_000.0, 2_900.0, "1,700", "1,000 – 2,900"),
        # Only one end of a wide interval is shown: its middle would be taken for a measurement.
        (2.07, 82_852.0, "≥ 2.0", "2.0 – 83,000"),
        (0.0321, 0.457, "≤ 0.46", "0.032 – 0.46"),
        (0.03, 2.95, "–", "0.030 – 3.0"),
    ],
)
def test_ratio_precision_matches_its_interval(low: float, high: float, point: str, interval: str) -> None:
    verdict = Verdict(kind="", ratio=(low * high) ** 0.5, low=low, high=high, blocks=3)
    assert (wording.point(verdict), wording.interval(verdict)) == (point, interval)


def test_answer_with_wide_interval_states_lower_end_only() -> None:
    run = reads(sqlite=[100.0] * 4, lmdb=[30_000.0, 9_000.0, 90_000.0, 30_000.0])
    (found,) = re.findall(r"at least (\S+) times as fast as sqlite \(([^)]*)\)", only(run))
    assert found[1] == "99 % sure; 4 samples of each" and float(found[0]) > 1


def test_further_samples_are_rounded_to_two_digits() -> None:
    assert wording.verdict(unclear(5, 384)) == "can't tell, needs about 390 more samples"


# -- answers --------------------------------------------------------------------------------------------------


def test_clear_winner_is_stated_with_its_lead() -> None:
    run = reads(sqlite=around(1), lmdb=around(1.3, (1.0,) * 5))
    assert only(run) == (
        "At tier process, lmdb is the fastest in read: at least 27 % faster than sqlite (1.30 times as fast, 99 %"
        " sure of 1.27 – 1.33; 5 samples of each)."
    )


def test_large_lead_is_stated_as_a_factor() -> None:
    run = reads(sqlite=around(1), lmdb=around(30, (1.0,) * 5), memory=around(2))
    assert only(run) == (
        "At tier process, lmdb is the fastest in read: at least 14 times as fast as memory (15 times as fast, 99 %"
        " sure of 14.6 – 15.4; 5 samples of each)."
    )


def test_tie_states_largest_possible_difference() -> None:
    run = reads(sqlite=around(1), lmdb=around(1.001, (1.0,) * 5), memory=around(0.5))
    assert only(run) == (
        "At tier process, lmdb and sqlite are equally fast in read: no difference from lmdb is larger than 2.9 %"
        " (99 % sure; 5 samples of each). Slower than lmdb: memory."
    )


def test_unclear_winner_states_how_many_samples_are_needed() -> None:
    sentence = only(reads(sqlite=around(1, NOISY), lmdb=around(1.02), memory=around(0.2)))
    found = re.fullmatch(
        r"At tier process, read: no clear winner between lmdb and sqlite \(about (\d+) more samples would tell;"
        r" 5 samples of each\)\. Slower than lmdb: memory\.",
        sentence,
    )
    assert found, sentence
    assert int(found[1]) > 5


@pytest.mark.parametrize("blocks", [1, 2])
def test_answer_proves_nothing_under_three_samples(blocks: int) -> None:
    assert only(reads(sqlite=(100,) * blocks, lmdb=(900,) * blocks)) == (
        "At tier process, lmdb had the best figures in read, which proves nothing: a ratio takes 3 samples of both,"
        f" not {blocks}."
    )


def test_too_few_samples_are_mentioned_once() -> None:
    cells = [
        (a_cell(name, tier, size=size), {"read": [10.0, 11.0 + size]})
        for name in ("lmdb", "sqlite")
        for tier in (Tier.PROCESS, Tier.POWER)
        for size in (1, 2, 3)
    ]
    (text,) = wording.answers(of_rates(*cells, phases=["read"]))
    assert text.count("prove") == text.count("a ratio takes 3 samples of both, not 2") == 1
    assert text.startswith("The best figures prove nothing: ")
    assert "lmdb in read: at tier process with size=1; at tier process with size=2" in text
    assert text.count("at tier ") == 6


def test_engine_with_too_few_samples_is_not_ranked() -> None:
    sentence = only(reads(sqlite=(100,) * 4, lmdb=(210,) * 4, memory=(150, None, None, 150)))
    assert sentence.startswith("At tier process, lmdb is the fastest in read: at least 2.1 times as fast as sqlite (")
    assert sentence.endswith("). Too few samples to rank: memory.")


def test_single_engine_states_its_figures() -> None:
    assert only(reads(sqlite=around(1))) == "sqlite (process): read 1,000,000 op/s."


def test_single_engine_states_its_figures_in_words_of_the_suite() -> None:
    rows = [(a_cell("sqlite", records=records), {"read": around(rate)}) for records, rate in ((10, 3), (20, 1))]
    says = "{range} reads a second of {records} records, {figure} at first"
    run = declared(of_rates(*rows, phases=["read"]), says=says)
    assert only(run) == (
        "sqlite (process): 1,000,000 to 3,000,000 reads a second of 10 to 20 records, 3,000,000 at first."
    )


def test_single_engine_figure_has_its_ceiling_share() -> None:
    row = a_cell("sqlite", Tier.POWER), {"read": around(0.001)}
    run = of_rates(row, phases=["read"])
    about = {"name": "read", "says": "{figure} commits", "writes": True}
    header = {**run.recorded, "phases": [about], "host": {"ceilings": {"flushes_per_second": 2_000.0}}}
    probed = replace(run, recorded=header)
    assert only(probed) == "sqlite (power): 1,000 commits (50 % of the flushes that this machine reaches)."


def test_sentence_of_times_begins_with_the_shortest() -> None:
    rows = [(a_cell("sqlite", range=length), {"read": around(rate)}) for length, rate in ((1_000, 3), (2_000, 1))]
    run = declared(
        of_rates(*rows, phases=["read"]), says="reads in {range}, at first {figure}, p99 {p99}", metric="time"
    )
    assert only(run) == "sqlite (process): reads in 333 ns to 1.00 µs, at first 333 ns."


def test_parameter_of_a_sentence_has_separators() -> None:
    row = a_cell("sqlite", records=20_000), {"read": around(1)}
    run = declared(of_rates(row, phases=["read"]), says="{figure} reads of {records}")
    assert only(run) == "sqlite (process): 1,000,000 reads of 20,000."


def test_cpu_time_is_stated_where_the_clock_is_unclear() -> None:
    cpu = {"sqlite": 2_000, "lmdb": 1_000}

    def use(name: str, sample: Sample) -> Sample:
        return replace(sample, client=usage(cpu[name] * sample.items))

    noisy = reads(sqlite=around(1, NOISY), lmdb=around(1.02))
    assert "By CPU time, lmdb needs at least 4" in only(changed(noisy, use))
    assert "CPU" not in only(changed(reads(sqlite=around(1), lmdb=around(2)), use))


def usage(cpu_ns: int) -> dict[str, int]:
    # Equal CPU times would have no spread.
    return {"user_ns": cpu_ns, "system_ns": cpu_ns % 97 * 1_000}


def both(**rates: tuple[float | None, float | None]) -> Run:
    """Returns a run with these rates of `fill` and `read`; None stands for a phase that the engine does not have."""
    rows = (
        (a_cell(name), {phase: around(rate) for phase, rate in zip(("fill", "read"), given, strict=True) if rate})
        for name, given in rates.items()
    )
    return of_rates(*rows)


def test_winner_of_several_phases_names_exceptions() -> None:
    assert only(both(sqlite=(1, 100), lmdb=(1.5, 10), memory=(3, 5))) == (
        "At tier process, sqlite is the fastest in fill and read together: at least 2.5"
        " times as fast as memory (2.58 times as fast, 99 % sure of 2.58 – 2.58; 5 samples of each). But memory is at"
        " least 3.0 times as fast as sqlite in fill."
    )


def test_exceptions_of_an_engine_state_its_smallest_lead() -> None:
    rates = {"sqlite": (1, 1, 100), "lmdb": (1.2, 1.105, 1), "memory": (0.01, 0.01, 500)}
    phases = ("fill", "read", "scan")
    run = of_rates(
        *((a_cell(name), dict(zip(phases, map(around, given), strict=True))) for name, given in rates.items()),
        phases=phases,
    )
    sentence = only(run)
    assert sentence.endswith(
        "But lmdb is at least 10 % faster than sqlite in fill and read; memory is at least 4.9 times as fast as"
        " sqlite in scan."
    ), sentence


def test_engine_that_lacks_a_phase_is_not_compared() -> None:
    assert only(both(sqlite=(1, 1), lmdb=(1.655, 1.655), memory=(None, 1.2))) == (
        "At tier process, lmdb is the fastest in fill and read together: at least 65 %"
        " faster than sqlite (1.655 times as fast, 99 % sure of 1.655 – 1.655; 5 samples of each). Not compared,"
        " because a phase is missing: memory."
    )


@pytest.mark.claim("Temperatures are never put in one figure")
def test_each_temperature_has_its_own_answer() -> None:
    rates = {phase: around(2) for phase in ("fill", "read", "scan", "read-cold")}
    run = of_rates(
        (a_cell("lmdb"), rates), (a_cell("sqlite"), {phase: around(1) for phase in rates}), phases=list(rates)
    )
    run = heated(run, read="hot", scan="hot", **{"read-cold": "cold"})
    assert [sentence.partition(":")[0] for sentence in wording.answers(run)] == [
        "At tier process, lmdb is the fastest in fill",
        "At tier process, lmdb is the fastest in read and scan together (hot)",
        "At tier process, lmdb is the fastest in read-cold (cold)",
    ]


def test_engine_not_proven_cold_is_named_and_excluded() -> None:
    run = heated(reads(lmdb=around(2), sqlite=around(1)), read="cold")
    (sentence,) = wording.answers(changed(run, lambda name, sample: warmer(sample) if name == "sqlite" else sample))
    assert sentence == (
        "At tier process, read (cold): lmdb has no competitor at this tier."
        " Not proven cold there, and not compared: sqlite."
    )


def warmer(sample: Sample) -> Sample:
    residency = Residency(file_bytes=100, resident_bytes=90, evicted_by="files")
    return replace(sample, temperature="lukewarm", residency=residency)


def test_tiers_are_answered_separately() -> None:
    rows = [
        (a_cell("memory", tier=Tier.VOLATILE), {"read": around(100)}),
        (a_cell("lmdb"), {"read": around(2)}),
        (a_cell("sqlite"), {"read": around(1)}),
    ]
    first, second = wording.answers(of_rates(*rows))
    assert first.startswith("At tier process, lmdb is the fastest in read: at least ")
    assert "memory" not in first
    assert second == "Without a competitor: memory (volatile): read 100,000,000 op/s."


def test_answer_names_only_parameters_that_vary() -> None:
    rows = [
        (a_cell(engine, txn=1, records=records), {"read": around(rate)})
        for engine, rate in (("sqlite", 1), ("lmdb", 2))
        for records in (10, 20)
    ]
    assert [sentence.split(",")[0] for sentence in wording.answers(of_rates(*rows))] == [
        "At tier process with records=10",
        "At tier process with records=20",
    ]


def test_lack_of_competitors_is_stated_once_and_last() -> None:
    rows = [(a_cell("sqlite", records=records), {"read": around(1)}) for records in (10, 20, 30)]
    assert wording.answers(of_rates(*rows)) == ["sqlite (process): read 1,000,000 op/s."]
    first, alone = wording.answers(of_rates(*rows, (a_cell("lmdb", records=20), {"read": around(2)})))
    assert first.startswith("At tier process with records=20, lmdb is the fastest in read")
    assert alone.startswith("Without a competitor: sqlite (process)")


def test_open_loop_answer_names_its_metric() -> None:
    cells = a_cell("sqlite", rate=1_000), a_cell("lmdb", rate=1_000)
    attempts = tuple(
        an_attempt(block, a_sample(histogram=recorded(1_000), response=recorded(ns)), cell=at)
        for block in range(3)
        for at, ns in enumerate((16_384_000, 10_240_000))
    )
    sentence = only(of_cells(*cells, attempts=attempts))
    assert sentence.startswith(
        "At tier process, lmdb is the fastest in read by p99 of the response time: at least 59 % faster than sqlite"
    )


def test_run_without_samples_has_no_answer() -> None:
    assert wording.answers(reads(sqlite=(), lmdb=())) == []


def test_first_sentence_of_answer_is_self_contained() -> None:
    """A page shows the first sentence on top, and the others below."""
    tie = reads(sqlite=around(1), lmdb=around(1.001, (1.0,) * 5), memory=around(0.5))
    for run in (both(sqlite=(1, 100), lmdb=(1.5, 10)), tie):
        head, _, rest = only(run).partition(". ")
        assert head.startswith("At tier process, ") and head.endswith(")")
        assert rest.startswith(("But ", "Slower "))
