"""Guards the check of a published finding: only whole intervals confirm or contradict it. The check leaves a finding
open if the interval holds a bound, if a row is missing or void, or if rows are of two tiers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from madeup import a_cell, a_sample, an_attempt, changed, declared, heated, of_cells, of_rates, reads

from dyno.contracts.model import Tier, UsageError
from dyno.published.claims import Finding, findings
from dyno.results import Run
from dyno.stats.findings import FindingResult, Shortfall, check

KNOWN = {"L": "lmdb", "S": "sqlite", "D": "duckdb", "O": "oracle"}
LEAD = {"of": "L", "relation": "fastest", "phases": ["read"]}


def finding(*claims: dict[str, Any]) -> Finding:
    return findings([{"says": "it is so", "claims": claims}], KNOWN, "made-up")[0]


def asked(run: Run, *claims: dict[str, Any]) -> FindingResult:
    (found,) = check(run, [finding(*claims)])
    return found


def claim(relation: str, than: Sequence[str] = ("S",), **more: Any) -> dict[str, Any]:
    return {"of": "L", "relation": relation, "than": list(than), "phases": ["read"], **more}


TWICE = reads(lmdb=[2000, 2020, 2040], sqlite=[1000, 1005, 1010])
EQUAL = reads(lmdb=[1000, 1010, 990], sqlite=[1005, 1000, 1000])


@pytest.mark.claim("A published finding is confirmed or contradicted by whole intervals only")
@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (claim("faster"), "confirmed"),
        (claim("slower"), "contradicted"),
        (claim("faster", by=1.5), "confirmed"),
        (claim("faster", by=3), "contradicted"),
        (claim("faster", by=2), "can't tell"),
        (claim("faster", at_most=1.5), "contradicted"),
        (claim("faster", by=1.5, at_most=2.5), "confirmed"),
        (claim("about", ratio=2), "confirmed"),
        (claim("about", ratio=4), "contradicted"),
        (claim("about", ratio=1.8, within=0.12), "can't tell"),
        ({"of": "S", "relation": "slower", "than": ["L"], "phases": ["read"], "at_most": 2.5}, "confirmed"),
        ({"of": "S", "relation": "slower", "than": ["L"], "phases": ["read"], "at_most": 1.5}, "contradicted"),
    ],
)
def test_claim_is_judged_by_the_whole_interval(given: dict[str, Any], kind: str) -> None:
    found = asked(TWICE, given)
    assert found.kind == kind
    (only,) = found.checks
    assert only.ratio is not None and max(only.ratio, 1 / only.ratio) == pytest.approx(2.0, rel=0.02)
    assert only.low is not None and only.high is not None and only.low < only.ratio < only.high


@pytest.mark.claim("A published finding is confirmed or contradicted by whole intervals only")
@pytest.mark.parametrize("relation", ["faster", "slower"])
def test_interval_that_includes_one_is_unclear(relation: str) -> None:
    assert asked(EQUAL, claim(relation)).kind == "can't tell"


@pytest.mark.parametrize(
    ("ratio", "kind"),
    [(1.5, "confirmed"), (1.0, "confirmed"), (0.9, "reversed"), (0.6, "reversed")],
)
def test_wide_bounds_hide_no_reversed_direction(ratio: float, kind: str) -> None:
    """lmdb is here twice as fast as sqlite; the bounds are on both sides of 1."""
    assert asked(TWICE, claim("about", ratio=ratio, between=[0.33, 3])).kind == kind
    assert asked(TWICE, claim("about", ratio=ratio, between=[0.33, 1.9])).kind == "contradicted"


def test_finding_is_not_checked_by_a_smaller_run() -> None:
    def of_size(rows: int) -> FindingResult:
        cells = (a_cell(engine, rows=rows) for engine in ("lmdb", "sqlite"))
        rates = ({"read": [rate, rate * 1.01, rate * 1.02]} for rate in (2_000, 1_000))
        needing = replace(finding(claim("slower")), needs={"rows": 1_000, "unknown": 5})
        return check(of_rates(*zip(cells, rates, strict=True), phases=["read"]), [needing])[0]

    assert of_size(1_000).kind == "contradicted"
    assert (of_size(999).kind, of_size(999).checks) == ("not checked at this size", ())
    assert of_size(999).shortfalls == (Shortfall("rows", 1_000, 999),)


def test_two_blocks_leave_a_claim_unclear() -> None:
    found = asked(reads(lmdb=[2000, 2020], sqlite=[1000, 1005]), claim("faster"))
    assert found.kind == "can't tell"
    assert found.checks[0].ratio is None and "2 blocks" in str(found.checks[0].why)


# -- one engine against all others --------------------------------------------------------------------------


def test_fastest_claim_is_checked_against_each_other_engine() -> None:
    run = reads(lmdb=[2000, 2020, 2040], sqlite=[1000, 1005, 1010], duckdb=[500, 505, 510])
    found = asked(run, LEAD)
    assert found.kind == "confirmed"
    assert [check.other for check in found.checks] == ["sqlite", "duckdb"]
    assert found.left_out == ("oracle",), "what nobody has here is named, and in no ratio"


def test_one_contradiction_outweighs_an_unclear_ratio() -> None:
    faster, equal, slower = [4000, 4040, 4080], [2010, 2000, 2060], [1000, 1005, 1010]
    leading = [2000, 2020, 2040]
    assert asked(reads(lmdb=leading, sqlite=faster, duckdb=slower), LEAD).kind == "contradicted"
    assert asked(reads(lmdb=leading, sqlite=faster, duckdb=equal), LEAD).kind == "contradicted"
    assert asked(reads(lmdb=leading, sqlite=equal, duckdb=slower), LEAD).kind == "can't tell"
    assert asked(reads(lmdb=leading, sqlite=slower, duckdb=slower), LEAD).kind == "confirmed"


def test_claim_is_checked_for_all_parameters_and_phases() -> None:
    def row(engine: str, clients: int, rate: int) -> Any:
        rates = [rate, rate * 1.01, rate * 1.02]
        return a_cell(engine, clients=clients), {"fill": rates, "read": rates}

    run = of_rates(row("lmdb", 1, 2000), row("sqlite", 1, 1000), row("lmdb", 2, 1000), row("sqlite", 2, 2000))
    both = claim("faster", phases=["fill", "read"])
    found = asked(run, both)
    assert [(check.phase, check.kind) for check in found.checks] == [
        (phase, kind) for phase in ("fill", "read") for kind in ("confirmed", "contradicted")
    ]
    assert asked(run, {**both, "params": {"clients": 1}}).kind == "confirmed"
    assert asked(run, {**both, "params": {"clients": [2]}}).kind == "contradicted"
    assert asked(run, {**both, "params": {"clients": 4}}).kind == "can't tell"


def test_engine_is_compared_with_itself_across_parameters() -> None:
    rows = [(a_cell("lmdb", size=size), {"read": [rate, rate * 1.01, rate]}) for size, rate in ((1, 900), (8, 300))]
    than = {"of": "L", "phases": ["read"], "of_params": {"size": 8}, "than_params": {"size": 1}}
    found = asked(of_rates(*rows, phases=["read"]), {**than, "relation": "slower", "by": 2})
    assert found.kind == "confirmed"
    assert found.checks[0].ratio == pytest.approx(1 / 3, rel=0.02)


def test_claim_with_than_phase_compares_two_phases() -> None:
    run = of_rates((a_cell("lmdb"), {"fill": [300, 303, 306], "read": [900, 905, 910]}))
    than = {"of": "L", "relation": "faster", "phases": ["read"], "than_phase": "fill"}
    assert asked(run, {**than, "by": 2}).kind == "confirmed"
    assert asked(run, {**than, "by": 4}).kind == "contradicted"
    assert asked(run, {**than, "than_phase": "scan"}).kind == "can't tell"


def test_claim_with_than_fact_compares_two_facts() -> None:
    run = reads(lmdb=[1000, 1010, 1020])
    told = {0: {"new": 10.0, "old": 40.0}, 1: {"new": 11.0, "old": 41.0}, 2: {"new": 10.5, "old": 40.0}}
    blocks = iter(told.values())
    run = changed(run, lambda _, sample: replace(sample, facts=next(blocks)))
    less = {"of": "L", "relation": "less", "phases": ["read"], "fact": "new", "than_fact": "old"}
    assert asked(run, {**less, "by": 2}).kind == "confirmed"
    assert asked(run, {**less, "by": 8}).kind == "contradicted"


def by_tools(**tools: str | None) -> Run:
    """A row whose phases were reported by the given tools."""
    rates = {"fill": [300, 303, 306], "read": [900, 905, 910]}
    run = of_rates((a_cell("lmdb"), rates))
    return changed(run, lambda _, sample: replace(sample, reported_by=tools[sample.phase]))


@pytest.mark.claim("Two outside tools are in a ratio only by a finding that says why")
def test_across_tools_allows_two_tools_but_not_dyno() -> None:
    than = {"of": "L", "relation": "faster", "phases": ["read"], "than_phase": "fill"}
    why = {"across_tools": "both count bytes"}
    two = by_tools(fill="dd 9.1", read="fio 3.33")
    assert asked(two, {**than, **why}).kind == "confirmed"
    assert asked(two, than).checks[0].why == "figures of fio 3.33 are not compared with those of dd 9.1"
    found = asked(by_tools(fill=None, read="fio 3.33"), {**than, **why})
    assert found.kind == "can't tell" and "with Dyno's" in str(found.checks[0].why)


# -- rows without a ratio -----------------------------------------------------------------------------------


@pytest.mark.claim("A finding does not put rows of two tiers in a ratio")
def test_rows_of_two_tiers_are_in_no_ratio() -> None:
    rates = {"lmdb": [2000, 2020, 2040], "sqlite": [1000, 1005, 1010]}
    tiers = {"lmdb": Tier.PROCESS, "sqlite": Tier.POWER}
    rows = [(a_cell(engine, tiers[engine]), {"read": values}) for engine, values in rates.items()]
    found = asked(of_rates(*rows, phases=["read"]), claim("faster"))
    assert found.kind == "can't tell"
    assert found.checks[0].ratio is None
    assert found.checks[0].why == "tier process is not compared with tier power"


MEMORY = {"across_tiers": "what is in memory has no other"}


def of_two_tiers(writes: bool) -> Run:
    rates = {"lmdb": [2000, 2020, 2040], "sqlite": [1000, 1005, 1010]}
    tiers = {"lmdb": Tier.VOLATILE, "sqlite": Tier.POWER}
    rows = [(a_cell(engine, tiers[engine]), {"read": values}) for engine, values in rates.items()]
    return declared(of_rates(*rows, phases=["read"]), writes=writes)


@pytest.mark.claim("A finding that compares two tiers says why, beside its verdict")
def test_across_tiers_allows_reads_of_two_tiers() -> None:
    found = asked(of_two_tiers(writes=False), claim("faster", **MEMORY))
    assert found.kind == "confirmed"
    (only,) = found.checks
    assert only.across and only.tiers == ("volatile", "power")
    assert only.ratio == pytest.approx(2.0, rel=0.02)


@pytest.mark.claim("A finding does not put rows of two tiers in a ratio")
def test_across_tiers_does_not_allow_writing_phases() -> None:
    found = asked(of_two_tiers(writes=True), claim("faster", **MEMORY))
    assert found.kind == "can't tell"
    (only,) = found.checks
    assert only.ratio is None and not only.across
    assert only.why == "tier volatile is not compared with tier power"


def test_same_tier_row_is_preferred_for_a_claim() -> None:
    rates = {Tier.PROCESS: [1000, 1005, 1010], Tier.POWER: [4000, 4040, 4080]}
    others = [(a_cell("sqlite", tier), {"read": values}) for tier, values in rates.items()]
    run = of_rates((a_cell("lmdb", Tier.POWER), {"read": [2000, 2020, 2040]}), *others, phases=["read"])
    found = asked(run, claim("slower", **MEMORY))
    assert found.kind == "confirmed"
    assert [check.tiers for check in found.checks] == [("power", "power")]


def test_null_engine_is_left_out_of_a_claim() -> None:
    rows = [
        (a_cell("lmdb"), {"read": [2000, 2020, 2040]}),
        (a_cell("sqlite", floor=True), {"read": [9000, 9000, 9100]}),
    ]
    found = asked(of_rates(*rows, phases=["read"]), claim("faster"))
    assert (found.kind, found.checks, found.left_out) == ("can't tell", (), ("sqlite",))


def test_void_row_leaves_a_claim_unclear_with_reason() -> None:
    def void(engine: str, sample: Any) -> Any:
        return replace(sample, void="a wrong answer") if engine == "sqlite" else sample

    found = asked(changed(TWICE, void), claim("faster"))
    assert found.kind == "can't tell"
    assert "a wrong answer" in str(found.checks[0].why)


def test_lukewarm_row_leaves_a_claim_unclear() -> None:
    def warm(engine: str, sample: Any) -> Any:
        residency = {"file_bytes": 100, "resident_bytes": 100}
        return replace(sample, temperature="lukewarm", residency=residency) if engine == "sqlite" else sample

    found = asked(changed(heated(TWICE, read="cold"), warm), claim("faster"))
    assert found.kind == "can't tell"
    assert found.checks[0].why == "sqlite was not proven cold"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"of": "O", "relation": "faster", "than": ["S"], "phases": ["read"]}, "it is not in the run"),
        (claim("faster", phases=["fill"]), "no such row was measured"),
        (claim("faster", params={"clients": 7}), "no such row was measured"),
    ],
)
def test_unmeasured_row_leaves_a_claim_unclear(given: dict[str, Any], why: str) -> None:
    found = asked(TWICE, given)
    assert found.kind == "can't tell"
    assert [check.why for check in found.checks] == [why]


def test_fastest_claim_without_other_engines_is_unclear() -> None:
    found = asked(reads(lmdb=[2000, 2020, 2040]), LEAD)
    assert (found.kind, found.checks) == ("can't tell", ())
    assert found.left_out == ("sqlite", "duckdb", "oracle")


def test_a_finding_without_claims_is_not_checked() -> None:
    (found,) = check(TWICE, findings([{"says": "it is fine", "unchecked": "it is an opinion"}], KNOWN, "made-up"))
    assert (found.kind, found.checks) == ("not checked", ())


# -- facts, and failed trials -------------------------------------------------------------------------------


def test_claim_by_fact_compares_plain_numbers() -> None:
    def fact(engine: str, sample: Any) -> Any:
        return replace(sample, facts={"stored": 100 if engine == "lmdb" else 300, "library": "x"})

    run = changed(TWICE, fact)
    assert asked(run, claim("less", fact="stored", by=2)).kind == "confirmed"
    assert asked(run, claim("more", fact="stored")).kind == "contradicted"
    assert asked(run, claim("less", fact="library")).kind == "can't tell", "words are in no ratio"
    # A row whose operations failed has no figure, but facts.
    failed = changed(run, lambda _, sample: replace(sample, errors=sample.operations // 2))
    assert asked(failed, claim("less", fact="stored", by=2)).kind == "confirmed"
    assert asked(failed, claim("faster")).kind == "can't tell"


def test_bytes_on_disk_can_be_claimed_as_fact() -> None:
    def sized(engine: str, sample: Any) -> Any:
        return replace(sample, bytes_on_disk={"lmdb": 354, "sqlite": 342}.get(engine))

    run = changed(TWICE, sized)
    assert asked(run, claim("about", fact="bytes_on_disk", ratio=1.035, within=0.01)).kind == "confirmed"
    assert asked(run, claim("less", fact="bytes_on_disk")).kind == "contradicted"
    assert (
        asked(
            changed(TWICE, lambda _, sample: replace(sample, bytes_on_disk=None)), claim("less", fact="bytes_on_disk")
        ).kind
        == "can't tell"
    )


@pytest.mark.parametrize(
    ("crashed", "attempts", "kind"),
    [
        (0, 3, "can't tell"),
        (0, 10, "contradicted"),
        (5, 10, "can't tell"),
        (10, 10, "confirmed"),
        (0, 0, "can't tell"),
    ],
)
def test_failure_share_claim_needs_enough_trials(crashed: int, attempts: int, kind: str) -> None:
    outcomes = ["crash"] * crashed + ["ok"] * (attempts - crashed)
    trials = tuple(
        an_attempt(block, *([a_sample()] if outcome == "ok" else []), outcome=outcome)
        for block, outcome in enumerate(outcomes)
    )
    found = asked(of_cells(a_cell("lmdb"), attempts=trials), {"of": "L", "relation": "fails", "at_least": 0.5})
    assert found.kind == kind
    if attempts:
        assert (found.checks[0].failed, found.checks[0].attempts) == (crashed, attempts)


# -- findings that can't be checked as written ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (claim("quicker"), "relation quicker is not known"),
        (claim("faster", of="M"), "contender M is not known"),
        (claim("faster", than=["M"]), "contender M is not known"),
        ({"of": "L", "relation": "faster", "than": ["S"]}, "phases are required"),
        ({"of": "L", "relation": "faster", "phases": ["read"]}, "than is required"),
        (claim("faster", by=0.5), "factors of at least 1"),
        (claim("faster", by=3, at_most=2), "factors of at least 1"),
        (claim("about"), "expected a ratio over 0"),
        (claim("about", ratio=4, between=[0.5, 2]), "expected two bounds over 0 around the ratio 4"),
        (claim("faster", phase="read"), "unknown keys of a claim by faster: phase"),
        ({"of": "L", "relation": "fails"}, "at_least: expected a share"),
    ],
)
def test_invalid_claim_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        finding(given)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"says": "x"}, "either claims or unchecked"),
        ({"says": "x", "shows": "y", "unchecked": "z"}, "either says or shows"),
        ({"unchecked": "z"}, "either says or shows"),
        ({"says": "x", "unchecked": "z", "sure": True}, "sure"),
        ({"says": "x", "unchecked": "z", "needs": {"rows": "all"}}, "needs: rows: expected a whole number"),
    ],
)
def test_malformed_finding_is_refused(data: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        findings([data], KNOWN, "made-up")
