"""The answer over all phases of one temperature at a tier: the fastest engine, its certainty, and the exceptions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from madeup import Rates, a_cell, a_sample, an_attempt, changed, declared, heated, of_cells, of_rates, reads, recorded

from dyno.contracts.decoded_types import Residency
from dyno.contracts.model import Tier
from dyno.fields import Sample
from dyno.report.tables import wording
from dyno.results import Run
from dyno.stats.answer import Answer, answers
from dyno.stats.compare import pairs, tables, tables_across_tiers


def both(**rates: tuple[Rates, Rates]) -> Run:
    """The rates of `fill` and `read` of each engine."""
    return of_rates(*((a_cell(name), {"fill": fill, "read": read}) for name, (fill, read) in rates.items()))


def only(run: Run) -> Answer:
    (found,) = answers(run)
    return found


def others(found: Answer) -> dict[str, str]:
    return {cell.asked: verdict.kind for cell, verdict in found.others}


# -- across tiers --------------------------------------------------------------------------------------------


def of_tiers(*rows: tuple[str, Tier, int], size: int | None = 4_096, **about: Any) -> Run:
    """Engines at different tiers, with a hot phase `read` and a phase `fill` that writes."""
    cells = ((a_cell(name, tier), {"fill": (rate,) * 3, "read": (rate,) * 3}) for name, tier, rate in rows)
    run = changed(of_rates(*cells), lambda _, sample: replace(sample, bytes_on_disk=size))
    return declared(heated(run, read="hot"), **{"temperature": "hot", "writes": False, **about})


def test_stored_reads_are_compared_across_tiers_with_caveat() -> None:
    run = of_tiers(("hdf5", Tier.VOLATILE, 100), ("zarr", Tier.PROCESS, 400))
    first, *rest = answers(run)
    assert (first.best.asked, others(first), first.phases) == ("zarr", {"hdf5": "slower"}, ("read",))
    assert (first.tiers, first.tier) == ((Tier.VOLATILE, Tier.PROCESS), None)
    # Writes are never compared across tiers, so each engine is alone in `fill`.
    assert [(found.best.asked, found.phases, found.others) for found in rest] == [
        ("hdf5", ("fill",), ()),
        ("zarr", ("fill",), ()),
    ]
    sentences = wording.answers(run)[0]
    assert sentences.startswith("Across tiers volatile and process, zarr is")
    assert sentences.endswith("Reads of stored files do not depend on durability.")


@pytest.mark.parametrize("about", [{"writes": True}, {"temperature": "none"}])
def test_only_stored_reads_are_compared_across_tiers(about: dict[str, Any]) -> None:
    run = of_tiers(("hdf5", Tier.VOLATILE, 100), ("zarr", Tier.PROCESS, 400), **about)
    assert not tables_across_tiers(run) and all(not found.others for found in answers(run))


def test_an_engine_without_files_is_not_compared_across_tiers() -> None:
    assert not tables_across_tiers(of_tiers(("memory", Tier.VOLATILE, 100), ("zarr", Tier.PROCESS, 400), size=None))


def test_cross_tier_comparison_uses_the_most_durable_tier() -> None:
    rows = (("lmdb", Tier.POWER, 100), ("lmdb", Tier.PROCESS, 200), ("hdf5", Tier.VOLATILE, 300))
    (table,) = tables_across_tiers(of_tiers(*rows))
    assert [(row.cell.asked, row.cell.tier) for row, _ in table.rows] == [
        ("hdf5", Tier.VOLATILE),
        ("lmdb", Tier.POWER),
    ]


def test_single_tier_answers_precede_cross_tier_answers() -> None:
    rows = (("a", Tier.PROCESS, 100), ("b", Tier.PROCESS, 200), ("c", Tier.VOLATILE, 300))
    found = answers(of_tiers(*rows))
    assert [each.tiers for each in found if "read" in each.phases] == [
        (Tier.PROCESS,),
        (Tier.VOLATILE, Tier.PROCESS),
    ]


def test_others_are_compared_with_the_fastest_engine() -> None:
    found = only(reads(lmdb=(200,) * 3, memory=(400,) * 3, sqlite=(100,) * 3))
    assert (found.best.asked, found.phases, found.tier) == ("memory", ("read",), Tier.PROCESS)
    assert [cell.asked for cell, _ in found.others] == ["lmdb", "sqlite"]
    assert [verdict.ratio for _, verdict in found.others] == pytest.approx([0.5, 0.25])
    assert (found.elsewhere, found.left_out) == ((), ())


@pytest.mark.claim("The answer over several phases gives each the same weight, block by block")
def test_overall_ratio_is_geometric_mean_over_phases() -> None:
    # A factor of 10 in one phase does not outweigh a factor of 100 in the other, whatever the absolute rates are.
    found = only(both(sqlite=((10,) * 3, (100_000,) * 3), lmdb=((100,) * 3, (1_000,) * 3)))
    assert (found.best.asked, found.phases) == ("sqlite", ("fill", "read"))
    ((_, seen),) = found.others
    assert seen.ratio == pytest.approx((100 / 10 * 1_000 / 100_000) ** 0.5)


@pytest.mark.claim("The answer over several phases gives each the same weight, block by block")
def test_a_ratio_over_phases_is_taken_block_by_block() -> None:
    drift = (100, 200, 400)
    found = only(both(sqlite=(drift, drift), lmdb=((50, 100, 200), (50, 100, 200))))
    ((_, seen),) = found.others
    assert (seen.low, seen.high) == pytest.approx((0.5, 0.5))


@pytest.mark.claim("The answer leaves out engines that lack a phase, and says where it does not hold")
def test_exceptions_name_the_fastest_engine_of_the_phase() -> None:
    slow, mid, fast = (100,) * 3, (110,) * 3, (1_000,) * 3
    found = only(both(sqlite=(slow, fast), lmdb=(mid, slow), memory=((120,) * 3, slow)))
    assert found.best.asked == "sqlite"
    assert [(c.engine.asked, c.baseline.asked, c.phase) for c in found.elsewhere] == [("memory", "sqlite", "fill")]
    assert found.elsewhere[0].verdict.ratio == pytest.approx(1.2)


@pytest.mark.claim("The answer leaves out engines that lack a phase, and says where it does not hold")
def test_engine_lacking_a_phase_is_left_out() -> None:
    rows = [
        (a_cell("sqlite"), {"fill": (100,) * 3, "read": (100,) * 3}),
        (a_cell("lmdb"), {"fill": (200,) * 3, "read": (200,) * 3}),
        (a_cell("memory"), {"read": (900,) * 3}),
    ]
    found = only(of_rates(*rows))
    assert (found.best.asked, found.phases) == ("lmdb", ("fill", "read"))
    assert [cell.asked for cell in found.left_out] == ["memory"]
    # The answer still reports where that engine is faster.
    assert [(c.engine.asked, c.phase) for c in found.elsewhere] == [("memory", "read")]


def test_engines_without_common_phase_are_not_compared() -> None:
    found = only(of_rates((a_cell("sqlite"), {"fill": (100,) * 3}), (a_cell("lmdb"), {"read": (200,) * 3})))
    assert (found.best.asked, found.phases, found.others) == ("sqlite", ("fill",), ())
    assert [cell.asked for cell in found.left_out] == ["lmdb"]


def test_each_tier_and_combination_of_parameters_has_its_answer() -> None:
    cells = [
        a_cell("sqlite", records=20),
        a_cell("sqlite", tier=Tier.POWER, records=20),
        a_cell("sqlite", records=10),
        a_cell("lmdb", records=20),
        a_cell("lmdb", records=10),
    ]
    run = of_rates(*((cell, {"read": (rate,) * 3}) for cell, rate in zip(cells, (1, 2, 30, 40, 5), strict=True)))
    assert [(found.tier, found.params["records"], found.best.asked) for found in answers(run)] == [
        (Tier.PROCESS, 20, "lmdb"),
        (Tier.POWER, 20, "sqlite"),
        (Tier.PROCESS, 10, "sqlite"),
    ]


def test_sole_engine_is_the_best() -> None:
    found = only(reads(sqlite=(100,) * 3))
    assert (found.best.asked, found.others) == ("sqlite", ())


def test_a_null_engine_is_never_the_best() -> None:
    rates = {"read": (100,) * 3}
    found = only(of_rates((a_cell("sqlite"), rates), (a_cell("null", floor=True), {"read": (900,) * 3})))
    assert (found.best.asked, found.others) == ("sqlite", ())
    assert not answers(of_rates((a_cell("null", floor=True), rates)))


def test_a_run_without_a_number_has_no_answer() -> None:
    assert not answers(reads(sqlite=(), lmdb=()))
    void = (an_attempt(0, a_sample(void="lost one")),)
    assert not answers(of_cells(a_cell(), attempts=void))


def test_answer_under_three_blocks_has_best_without_ratio() -> None:
    found = only(reads(sqlite=(100,) * 2, lmdb=(200,) * 2))
    assert (found.best.asked, others(found)) == ("lmdb", {"sqlite": "unclear"})
    assert found.others[0][1].ratio is None


def test_missing_slow_blocks_give_no_advantage() -> None:
    run = reads(sqlite=(100, 100, 100, None, None, None), lmdb=(110, 110, 110, 20, 20, 20))
    found = only(run)
    assert (found.best.asked, others(found)) == ("lmdb", {"sqlite": "slower"})


def test_open_loop_bulk_phases_are_answered_by_throughput() -> None:
    def sample(ns: int):  # type: ignore[no-untyped-def]
        return a_sample(histogram=recorded(1_000), response=recorded(ns))

    cells = a_cell("sqlite", rate=1_000), a_cell("lmdb", rate=1_000)
    attempts = tuple(
        an_attempt(block, sample(ns), a_sample("fill", per_second=rate, histogram=None), cell=at)
        for block in range(3)
        for at, (ns, rate) in enumerate(((20_000, 500), (10_000, 100)))
    )
    found = answers(of_cells(*cells, attempts=attempts))
    assert [(one.metric.name, one.phases, one.best.asked) for one in found] == [
        ("response-p99", ("read",), "lmdb"),
        ("throughput", ("fill",), "sqlite"),
    ]


@pytest.mark.parametrize(("margin", "kind"), [(0.05, "alike"), (0.001, "unclear")])
def test_answers_apply_the_verdict_margin(margin: float, kind: str) -> None:
    run = reads(sqlite=(1_000, 1_001, 1_002, 999), lmdb=(1_001, 1_000, 999, 1_003))
    ((_, seen),) = answers(run, margin)[0].others
    assert seen.kind == kind


def test_engines_differing_only_in_options_are_distinct() -> None:
    wal = replace(a_cell("sqlite"), options={"journal_mode": "wal"})
    found = only(of_rates((a_cell("sqlite"), {"read": (100,) * 3}), (wal, {"read": (200,) * 3})))
    assert found.best.asked == "sqlite:journal_mode=wal"


def lukewarm(run: Run, engine: str, phase: str = "read", hot: bool = False) -> Run:
    """The run with a warm cold phase for one engine, or with a hot phase that was not hot for it."""

    def warmer(name: str, sample: Sample) -> Sample:
        if sample.phase != phase:
            return sample
        resident_bytes = 90 * (name == engine)
        proof = None if hot else Residency(file_bytes=100, resident_bytes=resident_bytes, evicted_by="files")
        reached = "lukewarm" if name == engine else "hot" if hot else "cold"
        return replace(sample, temperature=reached, residency=proof)

    return changed(run, warmer)


@pytest.mark.claim("Temperatures are never put in one figure")
def test_each_temperature_has_its_own_answer() -> None:
    # Hot reads are a hundred times as fast as everything else and would dominate a mean over all temperatures.
    rates = {"fill": (100,) * 3, "read": (100_000,) * 3, "read-cold": (10,) * 3}
    others_ = {"fill": (200,) * 3, "read": (1_000,) * 3, "read-cold": (30,) * 3}
    run = of_rates((a_cell("memory"), rates), (a_cell("lmdb"), others_), phases=list(rates))
    found = answers(heated(run, read="hot", **{"read-cold": "cold"}))
    assert [(one.temperature, one.phases, one.best.asked) for one in found] == [
        ("none", ("fill",), "lmdb"),
        ("hot", ("read",), "memory"),
        ("cold", ("read-cold",), "lmdb"),
    ]
    assert [one.others[0][1].ratio for one in found] == pytest.approx([1 / 2, 1 / 100, 1 / 3])
    assert all(one.elsewhere == () for one in found)


def test_unproven_hot_phase_counts_as_hot() -> None:
    run = lukewarm(heated(both(sqlite=((1,) * 3, (2,) * 3), lmdb=((3,) * 3, (4,) * 3)), read="hot"), "lmdb", hot=True)
    assert [(one.temperature, one.phases) for one in answers(run)] == [("none", ("fill",)), ("hot", ("read",))]


@pytest.mark.claim("The answer leaves out engines that lack a phase, and says where it does not hold")
def test_engine_lacking_a_temperature_is_left_out() -> None:
    rows = [
        (a_cell("sqlite"), {"fill": (100,) * 3, "read": (100,) * 3}),
        (a_cell("lmdb"), {"fill": (200,) * 3, "read": (200,) * 3}),
        (a_cell("memory"), {"fill": (900,) * 3}),
    ]
    first, cold = answers(heated(of_rates(*rows), read="cold"))
    assert (first.best.asked, first.left_out) == ("memory", ())
    assert (cold.best.asked, [cell.asked for cell in cold.left_out]) == ("lmdb", ["memory"])


COLD = {"read": "cold", "scan": "cold"}


@pytest.mark.claim("Lukewarm samples are in no ratio with cold ones")
def test_partly_lukewarm_cold_phase_is_set_aside() -> None:
    slow, fast = {"read": (100,) * 3, "scan": (10_000,) * 3}, {"read": (200,) * 3, "scan": (10,) * 3}
    run = heated(of_rates((a_cell("sqlite"), slow), (a_cell("lmdb"), fast), phases=list(COLD)), **COLD)
    assert only(run).best.asked == "sqlite"
    found = only(lukewarm(run, "sqlite", "scan"))
    assert (found.best.asked, found.phases, found.left_out, found.warm) == ("lmdb", ("read",), (), ())
    assert [(table.phase, [cell.asked for cell in table.warm]) for table in found.set_aside] == [("scan", ["sqlite"])]


def test_sole_cold_phase_ranks_only_engines_proven_cold() -> None:
    run = heated(reads(sqlite=(300,) * 3, lmdb=(200,) * 3, memory=(100,) * 3), read="cold")
    found = only(lukewarm(run, "sqlite"))
    assert (found.best.asked, others(found), found.set_aside) == ("lmdb", {"memory": "slower"}, ())
    assert ([cell.asked for cell in found.warm], found.left_out) == (["sqlite"], ())


@pytest.mark.claim("Lukewarm samples are in no ratio with cold ones")
def test_lukewarm_row_of_cold_phase_has_no_ratio() -> None:
    run = lukewarm(reads(sqlite=(300,) * 3, lmdb=(200,) * 3, memory=(100,) * 3), "sqlite")
    assert {(c.engine.asked, c.baseline.asked) for c in pairs(run)} == {("lmdb", "memory"), ("memory", "lmdb")}
    (table,) = tables(run)
    assert [cell.asked for cell in table.warm] == ["sqlite"]


def test_unproven_hot_phase_is_compared() -> None:
    run = lukewarm(reads(sqlite=(300,) * 3, lmdb=(200,) * 3), "lmdb", hot=True)
    assert len(pairs(run)) == 2
    assert (only(run).set_aside, only(run).warm) == ((), ())
