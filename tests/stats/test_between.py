"""Comparing two runs: the list of differences has no facts that always differ, rows that only one run has are named,
and runs without a common row are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from madeup import a_cell, a_sample, an_attempt, of_rates, reads, recorded
from scipy import stats

from dyno.contracts.cell import Cell
from dyno.contracts.decoded_types import Loop
from dyno.contracts.model import Tier, UsageError
from dyno.report.tables import comparison
from dyno.results import Attempt, Run
from dyno.stats.drift import estimate_drift
from dyno.stats.metric import metric
from dyno.stats.two_runs import (
    OF_THE_MOMENT,
    Difference,
    compare_runs,
    compare_speeds,
    differences,
    halves,
    with_base,
)

# -- differences ----------------------------------------------------------------------------------------------

HOST: dict[str, Any] = {
    "system": {"kernel": "6.1"},
    "cpu": {"model": "AMD EPYC", "available_cores": 2, "mhz": 2_000},
    "memory": {"total_bytes": 8, "available_bytes": 5},
    "load": {"minutes_1": 0.1},
}


def with_header(**header: Any) -> Run:
    return of_rates((a_cell(), {"read": (100,) * 3}), phases=["read"], **header)


def changed(host: Mapping[str, Any]) -> list[Difference]:
    return list(differences(with_header(host=HOST), with_header(host={**HOST, **host})))


def test_equal_facts_are_not_listed() -> None:
    assert changed({}) == []


def defined(**definition: Any) -> Run:
    statements = {"history": {"script": {"": "SELECT 1"}}}
    return with_header(
        host=HOST, definition={"schema": {"": "CREATE TABLE a"}, "transactions": statements, **definition}
    )


def test_difference_in_an_index_comes_first() -> None:
    indexed = defined(after={"": "CREATE INDEX i\n  ON a; ANALYZE", "mariadb": "ANALYZE TABLE a"})
    indexed = replace(indexed, recorded={**indexed.recorded, "host": {"system": {"kernel": "6.6"}}})
    pair = compare_runs(defined(after={"": "ANALYZE;"}), indexed)
    assert pair.changes and pair.differences[:3] == (
        Difference("definition", "after", None, "CREATE INDEX i ON a"),
        Difference("definition", "after.mariadb", None, "ANALYZE TABLE a"),
        Difference("machine", "system.kernel", "6.1", "6.6"),
    )


def test_difference_in_a_variants_schema_is_listed() -> None:
    one, other = ({"small": {"schema": {"": f"CREATE TABLE a ({kind})"}}} for kind in ("int", "bigint"))
    further = {**other, "new": {"transactions": {"history": {"script": {"": "SELECT 2"}}}}}
    pair = compare_runs(defined(variants=one), defined(variants=further))
    expected = "CREATE TABLE a (int)", "CREATE TABLE a (bigint)"
    assert pair.differences == (Difference("definition", "variants.small.schema", *expected),)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"transactions": {"history": {"script": {"": "SELECT 2"}}}}, "transactions"),
        ({"isolation": "serializable"}, "isolation"),
        ({"variants": {"v": {"transactions": {"history": {"script": {"": "SELECT 2"}}}}}}, "variants.v"),
    ],
)
def test_runs_with_other_statements_are_refused(changes: dict[str, Any], key: str) -> None:
    base = defined(variants={"v": {"after": {"": "CREATE INDEX i ON a"}}})
    with pytest.raises(UsageError, match=f"did other work: they differ in the definition, records.{key}$"):
        compare_runs(base, defined(**{"variants": base.recorded["definition"]["variants"], **changes}))


@pytest.mark.claim("Differences between two runs are listed, without those that always differ")
def test_machine_differences_are_listed_leaf_by_leaf() -> None:
    assert changed({"system": {"kernel": "6.6"}, "cpu": {**HOST["cpu"], "model": "Intel", "available_cores": 4}}) == [
        Difference("machine", "system.kernel", "6.1", "6.6"),
        Difference("machine", "cpu.model", "AMD EPYC", "Intel"),
        Difference("machine", "cpu.available_cores", 2, 4),
    ]


def test_fact_of_only_one_machine_is_listed() -> None:
    assert changed({"governor": "powersave"}) == [Difference("machine", "governor", None, "powersave")]
    assert Difference("machine", "cpu.model", "AMD EPYC", None) in changed({"cpu": None})


@pytest.mark.claim("Differences between two runs are listed, without those that always differ")
@pytest.mark.parametrize("fact", OF_THE_MOMENT)
def test_momentary_facts_are_not_listed(fact: str) -> None:
    table, _, name = fact.rpartition(".")
    values: list[Any] = [1, 2] if table or name == "steal_percent" else [{"a": {"b": 1}}, {"a": {"b": 2}}]
    before, after = ({table: {name: value}} if table else {name: value} for value in values)
    assert list(differences(with_header(host=before), with_header(host=after))) == []
    # The exception covers only facts of the machine, not facts elsewhere with the same name.
    elsewhere = list(differences(with_header(host={"x": before}), with_header(host={"x": after})))
    assert [found.what.removesuffix(".a.b") for found in elsewhere] == [f"x.{fact}"]


def test_momentary_fact_names_exist_in_host_facts() -> None:
    """Guards against misspelled names, which would never match."""
    from dyno.host import facts as host

    facts = {**host.facts(Path("/var/tmp")), "pressure": None, "wakeups": None, "ceilings": None}
    for fact in OF_THE_MOMENT:
        at: Any = facts
        for name in fact.split("."):
            assert name in at, fact
            at = at[name]


def test_plan_differences_are_listed() -> None:
    before = with_header()
    after = with_header()
    after = replace(after, recorded={**after.recorded, "plan": {**after.recorded["plan"], "seed": 2, "budget": 9.0}})
    assert list(differences(before, after)) == [
        Difference("plan", "seed", 1, 2),
        Difference("plan", "budget", 5.0, 9.0),
    ]


def test_runs_differing_in_awake_cores_are_refused() -> None:
    run = with_header()
    kept, slept = (
        replace(
            run, path=Path(name), recorded={**run.recorded, "plan": {**run.recorded["plan"], "awake": name == "kept"}}
        )
        for name in ("kept", "slept")
    )
    for before, after in ((kept, slept), (slept, kept), (run, kept)):
        with pytest.raises(UsageError, match=r"^kept was measured with --awake and .* without"):
            compare_runs(before, after)
    assert compare_runs(kept, kept).changes and compare_runs(slept, run).changes


def test_dynos_version_and_loop_are_listed() -> None:
    loops = [Loop(name=name, clock="monotonic", operation_ns=50.0, span_ns=30.0) for name in ("native", "python")]
    native, python = loops
    before, after = (
        replace(run, attempts=tuple(replace(attempt, loop=loop) for attempt in run.attempts))
        for run, loop in ((with_header(dyno="1.0"), native), (with_header(dyno="1.1"), python))
    )
    assert list(differences(before, after)) == [
        Difference("dyno", "version", "1.0", "1.1"),
        Difference("dyno", "loop.name", "native", "python"),
    ]


def set_up(*settings: tuple[Cell, str, Mapping[str, Any]]) -> Run:
    run = of_rates(*((cell, {"read": (100,) * 3}) for cell, _, _ in settings), phases=["read"])
    given = [(version, values) for _, version, values in settings]
    attempts = (replace(a, version=given[a.cell][0], settings=given[a.cell][1]) for a in run.attempts)
    return replace(run, attempts=tuple(attempts))


@pytest.mark.claim("Differences between two runs are listed, without those that always differ")
def test_each_engines_version_and_settings_are_listed() -> None:
    before = set_up((a_cell("sqlite"), "3.40", {"cache": 8, "sync": True}), (a_cell("lmdb"), "0.9", {}))
    after = set_up((a_cell("sqlite"), "3.45", {"cache": 8, "sync": False}), (a_cell("duckdb"), "1.0", {}))
    assert list(differences(before, after)) == [
        Difference("sqlite", "version", "3.40", "3.45"),
        Difference("sqlite", "sync", True, False),
    ]


def test_engine_differences_are_listed_per_tier() -> None:
    def of(sync: str) -> Run:
        power = a_cell("sqlite", tier=Tier.POWER)
        return set_up((a_cell("sqlite"), "3", {"sync": "normal"}), (power, "3", {"sync": sync}))

    assert list(differences(of("full"), of("extra"))) == [Difference("sqlite (power)", "sync", "full", "extra")]


def test_the_commit_is_listed_if_both_runs_have_one() -> None:
    old, new = ({"hash": digit * 40, "changed": False} for digit in "ab")
    changed = {**new, "changed": True}
    assert list(differences(with_header(commit=old), with_header(commit=old))) == []
    assert list(differences(with_header(commit=old), with_header(commit=changed))) == [
        Difference("commit", "hash", "a" * 10, f"{'b' * 10} with changes")
    ]
    for unknown in (with_header(commit=None), with_header()):
        assert list(differences(unknown, with_header(commit=new))) == []


# -- rows -----------------------------------------------------------------------------------------------------


def test_unpaired_change_is_ratio_of_after_to_before() -> None:
    before, after = reads(sqlite=(100, 101, 102, 103)), reads(sqlite=(121, 120, 122))
    (found,) = compare_runs(before, after).changes
    assert (found.before.cell.asked, found.after.cell.asked, found.metric.name) == ("sqlite", "sqlite", "throughput")
    assert found.verdict.ratio == pytest.approx(121 / 101.5)
    assert (found.verdict.kind, found.verdict.blocks) == ("faster", 3)
    assert found.center is not None
    assert found.center.log == pytest.approx(np.log([120, 121, 122]).mean() - np.log([100, 101, 102, 103]).mean())
    (back,) = compare_runs(after, before).changes
    assert back.verdict.kind == "slower"


@pytest.mark.claim("Under three blocks there is no ratio")
@pytest.mark.parametrize(("old", "new"), [(2, 5), (5, 2), (1, 1)])
def test_ratio_needs_three_trials_in_each_run(old: int, new: int) -> None:
    (found,) = compare_runs(reads(sqlite=(100,) * old), reads(sqlite=(200,) * new)).changes
    assert found.center is None
    assert (found.verdict.kind, found.verdict.ratio, found.verdict.more) == ("unclear", None, 3 - min(old, new))


def test_rows_are_matched_by_phase_tier_parameters_and_engine() -> None:
    def both(*rates: float) -> Run:
        cells = (
            a_cell("sqlite", records=1),
            a_cell("sqlite", records=2),
            a_cell("sqlite", tier=Tier.POWER, records=1),
            replace(a_cell("sqlite", records=1), options={"journal_mode": "wal"}),
        )
        rows = (
            (cell, {"fill": (rate,) * 3, "read": (10 * rate,) * 3}) for cell, rate in zip(cells, rates, strict=True)
        )
        return of_rates(*rows)

    found = compare_runs(both(100, 200, 300, 400), both(100, 400, 900, 1_600)).changes
    assert [change.verdict.ratio for change in found] == pytest.approx([1, 2, 3, 4] * 2)
    assert all(change.before.cell == change.after.cell for change in found)
    assert [change.after.phase for change in found] == ["fill"] * 4 + ["read"] * 4


def test_unmatched_rows_are_lost_with_reason_or_new() -> None:
    rates = (100,) * 3
    before = reads(sqlite=rates, lmdb=rates, memory=rates)
    after = reads(sqlite=rates, lmdb=(), duckdb=rates)
    crashed = tuple(an_attempt(block, cell=1, outcome="crash") for block in range(3))
    found = compare_runs(before, replace(after, attempts=(*after.attempts, *crashed)))
    assert [change.after.cell.asked for change in found.changes] == ["sqlite"]
    assert [(row.cell.asked, why) for row, why in found.lost] == [
        ("lmdb", "crash in read: why it ended by crash"),
        ("memory", "not in the run"),
    ]
    assert [row.cell.asked for row in found.new] == ["duckdb"]


def with_options(name: str | None, rates: Sequence[float], **options: Any) -> Run:
    cell = replace(a_cell("sqlite"), name=name, options=options)
    return of_rates((cell, {"read": rates}), (a_cell("lmdb"), {"read": (5.0,) * 3}), phases=["read"])


def test_rows_are_matched_by_label_first() -> None:
    compared = compare_runs(with_options("x", (100,) * 3, cache_mib=8), with_options("x", (50,) * 3, cache_mib=16))
    assert [change.verdict.ratio for change in compared.changes] == [0.5, 1]
    assert Difference("x", "option.cache_mib", 8, 16) in compared.differences
    # A label on one side only.
    compared = compare_runs(with_options(None, (100,) * 3, cache_mib=8), with_options("x", (50,) * 3, cache_mib=8))
    assert [change.verdict.ratio for change in compared.changes] == [0.5, 1]


def test_failed_labelled_row_is_lost_with_its_reason() -> None:
    after = with_options("x", (), cache_mib=16)
    failed = tuple(an_attempt(block, outcome="timeout") for block in range(3))
    compared = compare_runs(with_options("x", (100,) * 3), replace(after, attempts=(*after.attempts, *failed)))
    assert [why for _, why in compared.lost] == ["timeout in read: why it ended by timeout"]
    assert Difference("x", "option.cache_mib", None, 16) in compared.differences


def test_rows_without_a_number_in_either_run_are_named() -> None:
    rates = (100,) * 3
    before = reads(sqlite=rates, lmdb=(), memory=())
    after = reads(sqlite=rates, lmdb=(), duckdb=())
    lines = comparison.list_lost_rows([compare_runs(before, after)])
    assert lines == [
        "lmdb (process), read: no number to compare: before: not measured yet; after: not measured yet",
        "memory (process), read: no number to compare: before: not measured yet; after: not in the run",
        "duckdb (process), read: no number to compare: only after: not measured yet",
    ]


def test_row_becoming_valid_is_new() -> None:
    void = tuple(an_attempt(block, a_sample(void="lost one")) for block in range(3))
    before = replace(reads(sqlite=()), attempts=void)
    found = compare_runs(before, reads(sqlite=(100,) * 3))
    assert ([row.cell.asked for row in found.new], found.changes, found.lost) == (["sqlite"], (), ())


def test_a_null_engine_is_not_compared() -> None:
    rates = {"read": (100,) * 3}
    run = of_rates((a_cell("sqlite"), rates), (a_cell("null", floor=True), rates), phases=["read"])
    found = compare_runs(run, replace(run, cells=(run.cells[0], replace(run.cells[1], engine="nullkv"))))
    assert ([change.after.cell.asked for change in found.changes], found.lost, found.new) == (["sqlite"], (), ())


def test_a_latency_that_is_longer_is_slower() -> None:
    def run(ns: int) -> Run:
        made = reads(sqlite=(100,) * 3)
        samples = (a_sample(histogram=recorded(ns)),)
        return replace(made, attempts=tuple(replace(attempt, samples=samples) for attempt in made.attempts))

    (found,) = compare_runs(run(1_000), run(2_000), metric("p99")).changes
    assert found.verdict.kind == "slower" and found.verdict.ratio == pytest.approx(0.5, rel=1e-2)
    (throughput,) = compare_runs(run(1_000), run(2_000)).changes
    assert throughput.verdict.kind == "alike"


# -- interleaved runs -----------------------------------------------------------------------------------------


def started(run: Run, minutes: Sequence[int]) -> Run:
    """The run with each block started at its minute, and the trials of a block one second apart."""

    def at(attempt: Attempt) -> str:
        return f"2026-01-01T00:{minutes[attempt.block]:02}:{attempt.cell:02}.5+00:00"

    return replace(run, attempts=tuple(replace(attempt, started=at(attempt)) for attempt in run.attempts))


def drifting(times: float) -> Run:
    return reads(sqlite=[times * rate for rate in (1_000, 2_000, 4_000, 8_000)], lmdb=(1_000,) * 4)


@pytest.mark.claim("Two runs are compared block by block if measured in turns, and otherwise as a whole")
@pytest.mark.parametrize(
    ("before", "after"), [((0, 2, 4, 6), (1, 3, 5, 7)), ((0, 3, 4, 7), (1, 2, 5, 6))], ids=["ABAB", "ABBA"]
)
def test_interleaved_runs_are_compared_block_by_block(before: Sequence[int], after: Sequence[int]) -> None:
    found = compare_runs(started(drifting(1), before), started(drifting(1.2), after))
    assert found.paired
    seen = {change.after.cell.asked: change.verdict for change in found.changes}
    assert (seen["sqlite"].kind, seen["lmdb"].kind) == ("faster", "alike")
    assert (seen["sqlite"].low, seen["sqlite"].high, seen["sqlite"].blocks) == pytest.approx((1.2, 1.2, 4))


@pytest.mark.claim("Two runs are compared block by block if measured in turns, and otherwise as a whole")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((0, 1, 2, 3), (4, 5, 6, 7)),
        ((0, 1, 4, 5), (2, 3, 6, 7)),
        ((0, 2, 4, 6), (3, 1, 5, 7)),
        ((0, 2, 4, 6), (0, 2, 4, 6)),
    ],
    ids=["one after the other", "two by two", "other blocks", "at the same time"],
)
def test_runs_not_interleaved_are_compared_as_a_whole(before: Sequence[int], after: Sequence[int]) -> None:
    found = compare_runs(started(drifting(1), before), started(drifting(1.2), after))
    assert not found.paired
    assert {change.verdict.kind for change in found.changes} == {"unclear"}


def test_identical_unequal_or_short_runs_are_not_paired() -> None:
    run = started(drifting(1), (0, 2, 4, 6))
    assert not compare_runs(run, run).paired
    more = started(reads(sqlite=(100,) * 5, lmdb=(100,) * 5), (1, 3, 5, 7, 8))
    assert not compare_runs(run, more).paired
    few = reads(sqlite=(100,) * 2)
    assert not compare_runs(started(few, (0, 2)), started(few, (1, 3))).paired


def test_interleaved_block_missing_one_sample_is_left_out() -> None:
    before = started(reads(sqlite=(100, None, 100, 100, 100)), (0, 2, 4, 6, 8))
    after = started(reads(sqlite=(200, 999, None, 200, 200)), (1, 3, 5, 7, 9))
    (found,) = compare_runs(before, after).changes
    assert (found.verdict.ratio, found.verdict.blocks) == (2, 3)
    (other,) = compare_runs(
        started(reads(sqlite=(100, None, 100)), (0, 2, 4)), started(reads(sqlite=(1,) * 3), (1, 3, 5))
    ).changes
    assert (other.center, other.verdict.ratio, other.verdict.more) == (None, None, 1)


# -- several runs ---------------------------------------------------------------------------------------------


def test_one_run_against_base_equals_two_run_comparison() -> None:
    before, after = reads(sqlite=(100, 101, 102, 103)), reads(sqlite=(121, 120, 122))
    (one,) = with_base(before, [after])
    assert one == compare_runs(before, after)
    assert one.confidence == 0.99


def test_comparing_several_runs_widens_intervals() -> None:
    base, *others = (reads(sqlite=[rate + at for at in range(4)]) for rate in (1_000, 1_200, 800, 1_001))
    found = with_base(base, others)
    assert [pair.after for pair in found] == others
    for pair in found:
        (change,) = pair.changes
        assert change.center is not None and change.verdict.low is not None
        assert pair.confidence == pytest.approx(1 - 0.01 / 3)
        low = change.center.log - stats.t.ppf(1 - 0.01 / 6, change.center.degrees) * change.center.error
        assert change.verdict.low == pytest.approx(np.exp(low))
    assert [pair.changes[0].verdict.kind for pair in found] == ["faster", "slower", "alike"]


@pytest.mark.claim("With several runs, one equal row in a hundred is called different in any of them")
def test_false_differences_of_several_runs_stay_within_1_percent() -> None:
    rows = 1_000
    later = 4
    trials = 10
    random = np.random.default_rng(3)

    def different(confidence: float) -> float:
        share = 0
        for _ in range(rows):
            base, *others = np.exp(0.03 * random.standard_normal((1 + later, trials)))
            old = dict(enumerate(base))
            kinds = [
                compare_speeds(old, dict(enumerate(new)), False, confidence=confidence, drift=0.0)[1].kind
                for new in others
            ]
            share += "faster" in kinds or "slower" in kinds
        return share / rows

    most = 0.01 + 3 * (0.01 * 0.99 / rows) ** 0.5
    assert different(1 - 0.01 / later) < most
    # Without the wider intervals, it would be more.
    assert different(0.99) > most


def rows_at(rates: Sequence[float], rows: int = 5) -> Run:
    """A run whose rows all have these speeds, times a noise of 0.1 %."""
    random = np.random.default_rng(rows)
    noise = np.exp(0.001 * random.standard_normal((rows, len(rates))))
    return of_rates(*((a_cell(f"e{at}"), {"read": (each * rates).tolist()}) for at, each in enumerate(noise)))


@pytest.mark.claim("The interval of runs that were not measured in turns includes the drift within them")
def test_interval_includes_drift_within_runs() -> None:
    steady = [1_000.0] * 8
    sinking = [1_000 * 0.985**at for at in range(8)]
    assert {change.verdict.kind for change in compare_runs(rows_at(steady), rows_at([900.0] * 8)).changes} == {
        "slower"
    }
    changes = compare_runs(rows_at(steady), rows_at(sinking)).changes
    assert {change.verdict.kind for change in changes} == {"unclear"}
    # The same speeds in another order show no drift.
    shuffled = [sinking[at] for at in (0, 7, 2, 5, 1, 6, 3, 4)]
    for one, other in zip(changes, compare_runs(rows_at(steady), rows_at(shuffled)).changes, strict=True):
        assert one.center is not None and other.center is not None
        assert one.center.error > 1.3 * other.center.error


def test_drift_is_variance_beyond_successive_differences() -> None:
    random = np.random.default_rng(1)
    logs = [np.cumsum(0.05 * random.standard_normal((2, 9)), axis=1) for _ in range(5)]
    rows = [tuple(dict(enumerate(np.exp(run))) for run in row) for row in logs]
    # The standard deviation that the mean of two runs of nine blocks has by chance (von Neumann, 1941).
    by_chance = np.sqrt(7 / 80 / 2)
    each = [
        np.mean((1 - by_chance) * row.var(axis=1, ddof=1) - np.mean(np.diff(row) ** 2, axis=1) / 2) for row in logs
    ]
    assert estimate_drift([(old, new) for old, new in rows]) == pytest.approx(np.median(each))


def test_wild_row_does_not_widen_other_rows() -> None:
    random = np.random.default_rng(2)
    tame = [np.exp(0.01 * random.standard_normal(9)).tolist() for _ in range(4)]
    wild = np.exp(np.linspace(0, 2, 9)).tolist()
    with_wild = estimate_drift([(dict(enumerate(row)),) * 2 for row in (*tame, wild)])
    assert with_wild < 0.0001


def test_table_of_several_runs_follows_base_row_order() -> None:
    rates = {"read": (100,) * 3}
    base, *others = (
        replace(of_rates(*((a_cell(name), {"fill": (10,) * 3, **rates}) for name in names)), path=Path(path))
        for names, path in ((("sqlite", "lmdb"), "a"), (("lmdb",), "b"), (("lmdb", "sqlite"), "c"))
    )
    sections = comparison.compare_runs(with_base(base, others), [])
    assert [section.title for section in sections] == ["fill  tier process", "read  tier process"]
    for section in sections:
        assert [row[:2] for row in section.rows] == [["sqlite", "c"], ["lmdb", "b"], ["lmdb", "c"]]
        assert list(section.heads[:4]) == ["engine", "run", "before", "after"]


def test_interleaved_runs_among_several_are_named() -> None:
    base, near = started(drifting(1), (0, 2, 4, 6)), started(drifting(1.2), (1, 3, 5, 7))
    runs = [replace(near, path=Path("near.json")), replace(drifting(1), path=Path("far.json"))]
    first, second, last = comparison.explain_ratios(with_base(base, runs))
    assert first.startswith("near.json: Measured in turns") and second.startswith("far.json: Ratios of speed")
    assert "equal in all 3 runs" in last


# -- refusals -------------------------------------------------------------------------------------------------


def test_runs_of_two_suites_are_refused() -> None:
    other = reads(sqlite=(100,) * 3)
    other = replace(
        other, path=Path("b.json"), recorded={**other.recorded, "plan": {**other.recorded["plan"], "suite": "arrays"}}
    )
    expected = r"^can't compare run\.json of suite records with b\.json of suite arrays$"
    with pytest.raises(UsageError, match=expected):
        compare_runs(reads(sqlite=(100,) * 3), other)


@pytest.mark.parametrize(
    "other",
    [
        reads(lmdb=(100,) * 3),
        of_rates((a_cell("sqlite", tier=Tier.POWER), {"read": (100,)}), phases=["read"]),
        of_rates((a_cell("sqlite", records=5), {"read": (100,)}), phases=["read"]),
        of_rates((a_cell("sqlite"), {"fill": (100,)}), phases=["fill"]),
    ],
    ids=["engine", "tier", "parameters", "phase"],
)
def test_runs_with_no_row_in_common_are_refused(other: Run) -> None:
    with pytest.raises(UsageError, match="have no engine with the same phase, tier and parameters"):
        compare_runs(reads(sqlite=(100,) * 3), other)


# -- halves of a run ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("blocks", "first"), [(6, 3), (7, 3), (10, 5)])
def test_halves_are_the_early_and_late_blocks(blocks: int, first: int) -> None:
    run = reads(sqlite=tuple(range(100, 100 + blocks)), lmdb=(5,) * blocks)
    one, other = halves(run)
    assert sorted({attempt.block for attempt in one.attempts}) == list(range(first))
    assert sorted({attempt.block for attempt in other.attempts}) == list(range(first, blocks))
    assert len(one.attempts) + len(other.attempts) == 2 * blocks
    assert list(differences(one, other)) == []
    found = compare_runs(one, other)
    assert [change.verdict.blocks for change in found.changes] == [first, first]


@pytest.mark.claim("The halves of a run that drifts differ")
def test_the_halves_of_a_run_that_drifts_differ() -> None:
    steady = reads(sqlite=(100, 101, 99, 100, 101, 99))
    drifting = reads(sqlite=(100, 101, 99, 200, 201, 199))
    kinds = [compare_runs(*halves(run)).changes[0].verdict.kind for run in (steady, drifting)]
    assert kinds == ["alike", "faster"]


def test_halves_of_a_run_need_six_blocks() -> None:
    with pytest.raises(UsageError, match=r"at least 6 blocks; run\.json has 5$"):
        halves(reads(sqlite=(100,) * 5))
