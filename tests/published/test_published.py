"""Tests the published experiments: each can be run, its findings refer to existing phases and parameters, and are
printed with their verdicts. Figures in the published style are printed nowhere else.
"""

from __future__ import annotations

import copy
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from madeup import a_cell, changed, of_rates, recorded
from rich.console import Console
from shell import TESTS

from dyno import published, registry
from dyno.contracts.cell import Cell
from dyno.contracts.decoded_types import Point
from dyno.contracts.model import Tier, UsageError
from dyno.contracts.safe_read import toml
from dyno.fields import Sample
from dyno.options import as_list
from dyno.published import Experiment, transcription
from dyno.published.claims import Claim, Finding
from dyno.report.replicate import orders, replica
from dyno.report.replicate import verdicts as replica_verdicts
from dyno.report.replicate.replica import best_of_means, means
from dyno.report.tables import sections
from dyno.report.tables.sections import Section
from dyno.results import Attempt, Run
from dyno.runner import plan, plan_file
from dyno.runner.plan import GENERAL
from dyno.runner.rows import find_unavailable, split_engines
from dyno.stats.estimate import estimate
from dyno.stats.findings import Check, check
from dyno.stats.metric import METRICS
from dyno.stats.summary import summarize

SECOND = 10**9
EXPERIMENTS = {name: published.experiment(name, cpus=2) for name in published.names()}


@pytest.fixture(params=EXPERIMENTS)
def experiment(request: pytest.FixtureRequest) -> Experiment:
    return EXPERIMENTS[request.param]


# -- as data ----------------------------------------------------------------------------------------------


def test_plan_and_sizes_match_the_suite(experiment: Experiment) -> None:
    suite = registry.suite(experiment.plan["suite"])
    for preset in (None, *suite.presets):
        asked = plan_file.parse(experiment.plan_at_preset(preset), experiment.name)
        assert asked.preset in suite.presets and (preset is None or asked.preset == preset)
        assert set(asked.phases) <= {phase.name for phase in suite.phases}
        settings = {setting.name: setting for setting in suite.params}
        for name in asked.params:
            used_by = settings[name].phases
            assert not (used_by and asked.phases) or set(used_by) & set(asked.phases), name
    assert {size.get("preset", name) for name, size in experiment.sizes.items()} <= set(suite.presets)


def test_contender_is_named_as_in_a_run(experiment: Experiment) -> None:
    """A contender with another name would match no row of a run."""
    entries = [named for _, named in split_engines(experiment.plan["engine"])]
    for contender in experiment.contenders:
        assert contender.engine in [named.asked for named in entries]
        ((_, named),) = split_engines([contender.engine])
        suite = registry.suite(experiment.plan["suite"])
        spec = registry.reduce_to_suite(suite, registry.engine(named.name))
        assert spec is not None
        resolved = spec.resolve(named.options)
        cell = replace(a_cell(named.name), options={option: resolved[option] for option in named.options})
        assert cell.asked == contender.engine


def test_claims_refer_to_existing_phases_and_parameters(experiment: Experiment) -> None:
    suite = registry.suite(experiment.plan["suite"])
    settings = {setting.name: setting for setting in suite.params} | GENERAL
    claims = [claim for finding in experiment.findings for claim in finding.claims]
    assert claims
    for claim in claims:
        assert set(claim.phases) <= set(experiment.plan.get("phases") or [phase.name for phase in suite.phases])
        assert claim.fact or claim.metric in METRICS
        assert not claim.than_phase or claim.than_phase in [phase.name for phase in suite.phases]
        values = [*claim.params.items(), *((n, (v,)) for n, v in {**claim.of_params, **claim.than_params}.items())]
        for name, wanted in values:
            assert [settings[name].read(value, "") for value in wanted] == list(wanted), "of the type that a cell has"


def test_each_statement_declares_the_size_that_it_needs(experiment: Experiment) -> None:
    suite = registry.suite(experiment.plan["suite"])
    settings = {setting.name: setting for setting in suite.params} | GENERAL
    request = plan_file.parse(experiment.plan, experiment.name)
    given = {**suite.presets[str(request.preset)].params, **request.params, "clients": request.clients}
    for finding in experiment.findings:
        assert finding.needs or all({**claim.params, **claim.of_params} for claim in finding.claims), finding
        for name, least in finding.needs.items():
            values = [settings[name].read(value, "") for value in as_list(given.get(name, settings[name].default))]
            assert max(values) == least, "the plan measures at the size of the statement"


def test_findings_are_not_checked_at_reduced_size() -> None:
    """On disk, 50,000 rows contradict a size that 1,430,394 rows confirm."""
    quick = replace(WENDELIN, plan={**WENDELIN.plan, "param": {"rows": 50_000, "repeats": 1}})
    out = printed(WENDELIN, a_whole_run(quick))
    kinds = verdicts(out)
    assert set(kinds.values()) == {"not checked at this size"} and len(kinds) == len(WENDELIN.findings)
    assert out.count("needs rows=1,430,394, here 50,000") == len(kinds)
    assert "not checked at this size" not in set(verdicts(printed(WENDELIN, a_whole_run(WENDELIN))).values())


def test_unavailable_engines_are_left_out_with_reason() -> None:
    suite = registry.suite("objects")
    assert find_unavailable(suite, ["nowhere", "sqlite", "relstorage_oracle"]).keys() == {
        "nowhere",
        "sqlite",
        "relstorage_oracle",
    }
    assert "not an engine of suite objects" in find_unavailable(suite, ["sqlite"])["sqlite"]


def test_unknown_experiment_is_refused_with_suggestion() -> None:
    with pytest.raises(UsageError, match="acid-2013"):
        published.experiment("acid-2012")


# -- as printed -------------------------------------------------------------------------------------------


def printed(experiment: Experiment, run: Run) -> str:
    out = io.StringIO()
    console = Console(file=out, width=260, highlight=False)
    sections.render(replica.sections(experiment, run), console, aligned=False, blank_first=False)
    return out.getvalue()


RELSTORAGE = EXPERIMENTS["relstorage-2008"]
ENGINES = {each.name: each.engine for each in RELSTORAGE.contenders}


def row(name: str, objects: int, clients: int, write: int, read: int) -> Any:
    rates = {"write": write, "read-cold": read}
    # The order is that of a run: the suite's parameters come first.
    cell = replace(a_cell(ENGINES[name]), params={"objects": objects, "clients": clients, "rate": "max"})
    return cell, {phase: [rate, int(rate * 1.01), int(rate * 1.02)] for phase, rate in rates.items()}


@pytest.fixture
def run() -> Run:
    """Run in which MySQL leads with 100 objects and one client, and PostgreSQL reads faster with 16 clients."""
    rows = [
        *(row("MySQL", 100, 1, 4000, 9000), row("PostgreSQL", 100, 1, 2000, 5000), row("ZEO", 100, 1, 2400, 2000)),
        *(row("MySQL", 100, 16, 4000, 6000), row("PostgreSQL", 100, 16, 2000, 9000), row("ZEO", 100, 16, 2400, 2000)),
        *(row("MySQL", 10_000, 1, 1000, 9000), row("PostgreSQL", 10_000, 1, 2000, 5000)),
        row("ZEO", 10_000, 1, 4000, 2000),
    ]
    run = of_rates(*rows, phases=["write", "read-cold"])

    def timed(_: str, sample: Sample) -> Sample:
        """Gives the sample 10 operations per client; each takes as long as 100 objects do at the sample's rate."""
        return replace(sample, operations=10, busy_ns=10 * 100 * SECOND // sample.items)

    return changed(run, timed)


def verdicts(out: str) -> dict[str, str]:
    """Returns the verdicts by the first words of their findings."""
    lines = [line for line in out.splitlines() if "“" in line and not line.startswith(" ")]
    return {line.partition("“")[2].rstrip("”")[:25]: line.partition("“")[0].strip() for line in lines}


def test_findings_are_printed_with_their_verdicts(run: Run) -> None:
    found = verdicts(printed(RELSTORAGE, run))
    assert found == {
        "MySQL is the champ in bot": "contradicted",
        "MySQL runs them in about ": "not checked",
        "The ZEO + FileStorage res": "not checked",
        "the ZEO client storage of": "can't tell",
        "PostgreSQL write speed wa": "confirmed",
        "MySQL still leads in read": "confirmed",
        "both ZEO and PostgreSQL b": "confirmed",
        "the ZEO read speed turns ": "confirmed",
        "during these tests, the Z": "can't tell",
    }


def test_ratios_behind_a_verdict_are_listed_below(run: Run) -> None:
    lines = [" ".join(line.split()) for line in printed(RELSTORAGE, run).splitlines()]
    at = next(number for number, line in enumerate(lines) if "champ" in line)
    under = lines[at + 1 : at + 14]
    assert "without Oracle: not run here" in under
    assert "of 8 ratios: 7 confirmed, 1 contradicted" in under
    assert any(
        line.startswith("read-cold throughput MySQL (here MariaDB) faster than PostgreSQL objects=100 clients=16")
        and " contradicted 0.667" in line
        for line in under
    )
    assert any(
        line.startswith(
            "write throughput MySQL (here MariaDB) faster than ZEO objects=100 clients=1,16 confirmed 1.66"
        )
        for line in under
    )
    assert any("0 of 9 trials" in line for line in lines)


@pytest.mark.claim("Published styles, such as the best of 3, appear only in replications")
def test_best_of_means_appears_only_in_its_replica(run: Run) -> None:
    mysql = next(row for row in summarize(run) if row.cell.asked == ENGINES["MySQL"] and row.phase == "write")
    # The trials wrote 100 objects at 4,000, 4,040 and 4,080 a second.
    assert best_of_means(mysql, 3) == pytest.approx(100 / 4080 * SECOND)
    assert best_of_means(mysql, 2) == pytest.approx(100 / 4040 * SECOND)
    assert best_of_means(mysql, 4) is None
    assert estimate(means(mysql)).median == pytest.approx(100 / 4040 * SECOND)
    lines = [" ".join(line.split()) for line in printed(RELSTORAGE, run).splitlines()]
    assert any("best of 3 means median" in line for line in lines)
    assert any(line.startswith("write 100 1 MariaDB MySQL 5.0.51a 24.5 ms 24.8 ms") for line in lines)
    assert "best of" not in printed(EXPERIMENTS["acid-2013"], run)


def test_a_note_says_what_the_published_clock_included() -> None:
    experiment = EXPERIMENTS["cloudmercato-fpb"]
    out = printed(replace(experiment, findings=()), a_whole_run(experiment))
    assert "FPB's Dask generates the numbers inside the timed call, and its CuPy neither waits" in out


def test_relstorage_plan_reads_only_cold_objects() -> None:
    """ZEO's cache holds what a client wrote, and RelStorage has no cache here."""
    assert RELSTORAGE.plan["phases"] == ["write", "read-cold"]
    assert {phase for each in RELSTORAGE.findings for claim in each.claims for phase in claim.phases} == {
        "write",
        "read-cold",
    }


def test_missing_contender_is_listed_with_reason(run: Run) -> None:
    engine = ENGINES["Oracle"]
    out = printed(RELSTORAGE, replace(run, recorded={**run.recorded, "missing": {engine: "needs a server"}}))
    assert f"Oracle 10g XE: not run here: {engine} needs a server" in out


# -- rates over time, and single passes --------------------------------------------------------------------


def test_rate_series_and_extrapolated_pass_appear_beside_published() -> None:
    experiment = EXPERIMENTS["cloudmercato-volume"]
    run = a_whole_run(experiment)

    def timed(_: str, sample: Sample) -> Sample:
        rates = (10, 40, 80, 80)
        points = tuple(
            Point(from_ns=at * SECOND, interval_ns=SECOND, operations=rate, p50_ns=1, p99_ns=2)
            for at, rate in enumerate(rates)
        )
        facts = {"steady_after_ns": 2 * SECOND} if sample.items == 2_010 else {"unsteady": "it rises"}
        return replace(sample, series=points, facts=facts, bytes=3 * 10**9, elapsed_ns=SECOND)

    lines = [" ".join(line.split()) for line in printed(experiment, changed(run, timed)).splitlines()]
    assert "published 10 450 – 500 after 10 min" in lines
    assert [line for line in lines if line.startswith("here, trial")] == [
        "here, trial 1 10 ▂▅██ 80 not steady: it rises",
        "here, trial 2 10 ▂▅██ 80 after 2.00 s",
        "here, trial 3 10 ▂▅██ 80 not steady: it rises",
    ]
    assert any(line.startswith("here whole-write 2.79 GiB 1.00 s 3 GB/s 16.7 min") for line in lines)
    assert "published fill a fresh disk by dd 3 TB 1.5 MB/s 23.1 d" in lines


# -- means with their deviation, and rows of several tiers -----------------------------------------------


WENDELIN = EXPERIMENTS["wendelin-2015"]
SUMS = {"numpy.memory": 70, "ZBlock0": 30, "ZBlock1": 45, "numpy.memmap": 20, "MariaDB": 2}


@pytest.fixture
def sums() -> Run:
    """Run in which NumPy's arrays in memory lead in the hot phase. In the third trial each sum takes a tenth
    longer."""
    tiers = {named.asked: named.tier for _, named in split_engines(WENDELIN.plan["engine"])}
    engines = {each.name: each.engine for each in WENDELIN.contenders}

    def asked(name: str) -> Any:
        ((_, named),) = split_engines([engines[name]])
        return replace(a_cell(named.name, tiers[engines[name]]), options=named.options)

    rows = [(asked(name), {"read-sum-hot": [rate, rate, rate]}) for name, rate in SUMS.items()]
    found = of_rates(*rows, phases=["write", "read-sum-cold", "read-sum-hot"])

    def slower(run: Run) -> Run:
        times = {0: SECOND, 1: SECOND, 2: SECOND * 11 // 10}
        attempts = tuple(
            replace(each, samples=tuple(replace(s, elapsed_ns=times[each.block]) for s in each.samples))
            for each in run.attempts
        )
        return replace(run, attempts=attempts)

    return slower(found)


def test_engine_tiers_match_the_published_setup() -> None:
    made = plan_file.parse(WENDELIN.plan, "")
    found = {named.name: named.tier for _, named in split_engines(made.engines)}
    assert {name: tier.value for name, tier in found.items() if tier is not None} == {
        "wendelin": "power",
        "mariadb": "power",
        "numpy_memmap": "power",
        "numpy_memory": "volatile",
    }


@pytest.mark.claim("A finding that compares two tiers says why, beside its verdict")
def test_verdict_across_tiers_names_both_tiers(sums: Run) -> None:
    out = printed(WENDELIN, sums)
    lines = [" ".join(line.split()) for line in out.splitlines()]
    at = next(number for number, line in enumerate(lines) if "NumPy in-memory crushes everything" in line)
    assert lines[at].startswith("confirmed")
    under = lines[at + 1 : at + 14]
    assert any("rows of two tiers" in line and "no other tier" in line for line in under)
    ratios = [line for line in under if line.startswith("read-sum-hot throughput numpy.memory faster than")]
    assert len(ratios) == 4
    assert all(line.endswith("tier volatile against tier power") for line in ratios), ratios
    at = next(number for number, line in enumerate(lines) if "almost all tool sets" in line)
    assert any(
        line.startswith("read-sum-hot throughput ZBlock0") and line.endswith("tier power")
        for line in lines[at : at + 5]
    )


def test_published_mean_and_deviation_stand_beside_ours(sums: Run) -> None:
    lines = [" ".join(line.split()) for line in printed(WENDELIN, sums).splitlines()]
    memory = next(line for line in lines if line.startswith("numpy.memory read-sum-hot"))
    assert "0.014 s ± 4,37%" in memory.partition("│")[0]
    # This is the mean of 1, 1 and 1.1 s.
    assert "1.03 s ± 5.59 %" in memory.partition("│")[2]
    assert any(line.startswith("mean: the published style") for line in lines)
    assert "±" not in printed(EXPERIMENTS["acid-2013"], sums)


# -- the copied figures -------------------------------------------------------------------------------------


@pytest.mark.claim("A changed digit of a published table is an error")
def test_changed_digit_fails_checksum_of_published_table(experiment: Experiment) -> None:
    data = toml(Path(published.__file__).with_name(f"{experiment.name}.toml"))
    assert transcription.checksums(data) == experiment.sha256
    assert bool(experiment.sha256) == bool(experiment.name != "relstorage-2008"), "its figures are pictures"
    for name in experiment.sha256:
        changed_data = copy.deepcopy(data)
        assert changed_digit(changed_data[name])
        with pytest.raises(UsageError, match=f"{experiment.name}: sha256: table {name} is not the one"):
            transcription.check(experiment.name, changed_data)
        with pytest.raises(UsageError, match="expected a checksum"):
            transcription.check(experiment.name, {**data, "sha256": {}})


def changed_digit(table: Any) -> bool:
    """Changes the last digit of the first printed figure in the table. Returns whether it has one."""
    if isinstance(table, dict):
        return any(changed_digit(table[key]) or _replaced(table, key) for key in reversed(table))
    return isinstance(table, list) and any(
        changed_digit(each) or _replaced(table, at) for at, each in enumerate(table)
    )


def _replaced(table: Any, key: Any) -> bool:
    old = table[key]
    if isinstance(old, float):
        table[key] = old + 0.001
    elif isinstance(old, str) and old[:1].isdigit():
        table[key] = old.translate({ord("0") + digit: ord("0") + (digit + 1) % 10 for digit in range(10)})
    else:
        return False
    return True


# -- orders ---------------------------------------------------------------------------------------------------


def test_an_order_follows_from_the_published_figures(experiment: Experiment) -> None:
    order = experiment.order
    if order.none or order.read_as:
        return
    speeds = [published_speed(experiment, name) for name in order.names]
    assert None not in speeds and sorted(speeds, reverse=True) == speeds and len(set(speeds)) == len(speeds)


def published_speed(experiment: Experiment, name: str) -> float:
    """Returns the highest published speed of a system in the phase of the order."""
    order = experiment.order
    engine = next((each.engine for each in experiment.contenders if each.name == name), "")
    found = []
    for row in experiment.rows:
        # 'at' is the half-hours of data, if a size was published.
        if (row.engine, row.phase) == (engine, order.phase) and row.at in (None, *order.params.values()):
            found.append(number(row.per_second) if row.per_second else 1 / number(row.time))
    for line in experiment.lines:
        if {**order.params, **order.sides[name]}.items() <= line.params.items():
            found.append(number(line.figures["gets/s"]))
    if experiment.curves is not None:
        at = experiment.curves.at.index(order.params["size"])
        column = next(each for each in experiment.curves.rows if (each.engine, each.phase) == (engine, order.phase))
        found.append(1 / column.values[at])
    return max(found)


def number(text: str) -> float:
    digits = re.match(r"[\d,.]+", text)
    assert digits is not None
    return float(digits[0].replace(",", "")) * (1_000 if text.endswith("K") else 1)


def test_measured_order_follows_verdicts() -> None:
    """Rows without a clear winner are equal, and rows of another tier or without a figure are not put in order."""
    experiment = EXPERIMENTS["acid-2013"]

    def inserts(engine: str, *rates: float, tier: Tier | None = None) -> Any:
        return a_cell(engine, tier), {"insert-blind-indices": rates}

    phases = ["insert-blind-indices"]
    lmdb, leveldb = inserts("lmdb", 900, 1_000, 1_100), inserts("leveldb", 1_100, 1_000, 950)
    run = of_rates(lmdb, leveldb, inserts("memory", 100, 101, 102), phases=phases, missing={"ferretdb": "is missing"})
    text, reasons = orders.order_here(experiment, run)
    assert text == "LmdbEngine ≈ PlyvelEngine > SkiplistEngine (here sortedcontainers)"
    assert reasons == ["MongoEngine (here FerretDB) is not in the order: ferretdb is missing"]
    power = [inserts(name, 5, 6, 7, tier=Tier.POWER) for name in ("lmdb", "leveldb")]
    run = of_rates(*power, inserts("memory", 100, 101, 102, tier=Tier.VOLATILE), phases=phases)
    text, reasons = orders.order_here(experiment, run)
    assert text == "LmdbEngine ≈ PlyvelEngine (tier power)"
    assert "tier volatile is not compared with tier power" in "; ".join(reasons)
    both = [inserts(name, rate, rate + 1, rate + 2) for name, rate in (("lmdb", 90), ("leveldb", 70))]
    between = inserts("memory", 80, 81, 82, tier=Tier.VOLATILE)
    text, reasons = orders.order_here(experiment, of_rates(*both, between, phases=phases))
    assert text == "LmdbEngine > PlyvelEngine", "a row of another tier is left out"
    singles = [inserts("memory", 5, tier=Tier.VOLATILE), inserts("lmdb", 5), inserts("leveldb", 5)]
    text, reasons = orders.order_here(experiment, of_rates(*singles, phases=phases))
    assert text == "–" and sum("are not in the order: " in why and "a ratio needs 3" in why for why in reasons) == 1


def test_ordered_systems_have_rows_in_a_run(experiment: Experiment) -> None:
    latency = recorded(1_000_000)
    run = changed(a_whole_run(experiment), lambda _, sample: replace(sample, histogram=latency))
    text, reasons = orders.order_here(experiment, run)
    if experiment.order.none:
        assert (text, reasons) == ("–", [])
    else:
        assert [why for why in reasons if "is not compared with tier" not in why] == []
        ours = re.split(" > | ≈ |; ", text)
        assert len(ours) + len(reasons) == len(experiment.order.sides or experiment.contenders)


# -- statements --------------------------------------------------------------------------------------------------


@pytest.mark.claim("Each statement of a published experiment could be confirmed and contradicted by a run")
def test_each_statement_can_be_confirmed_and_contradicted(experiment: Experiment) -> None:
    whole = by_its_tools(experiment, a_whole_run(experiment))
    for finding in experiment.findings:
        if finding.claims:
            run = needed_by(whole, finding)
            outcomes = [
                check(outcome, [finding])[0] for outcome in (agreeing(run, finding), disagreeing(run, finding))
            ]
            assert [each.kind for each in outcomes] == ["confirmed", "contradicted"], (finding, outcomes)


def needed_by(run: Run, finding: Finding) -> Run:
    """Returns the run without the cells and phases that the finding says nothing of."""

    def named(claim: Claim, cell: Cell) -> bool:
        own = {**claim.of_params, **claim.than_params}
        same = all(cell.params[name] in values for name, values in claim.params.items() if name not in own)
        values = [(name, [side.get(name) for side in (claim.of_params, claim.than_params)]) for name in own]
        return same and cell.asked in (claim.of, *claim.than) and all(cell.params[n] in v for n, v in values)

    phases = {name for claim in finding.claims for name in (*claim.phases, claim.than_phase)}
    kept = of_cells_at(run, [at for at, cell in enumerate(run.cells) if any(named(c, cell) for c in finding.claims)])
    attempts = (replace(a, samples=tuple(s for s in a.samples if s.phase in phases)) for a in kept.attempts)
    return replace(kept, attempts=tuple(attempts))


def by_its_tools(experiment: Experiment, run: Run) -> Run:
    suite = registry.suite(experiment.plan["suite"])
    reported = {phase.name for phase in suite.phases if phase.reported}

    def of_tool(_: str, sample: Sample) -> Sample:
        tool = experiment.name_of(experiment.contenders[0].engine, sample.phase)
        return replace(sample, reported_by=tool if sample.phase in reported else None)

    return changed(run, of_tool)


Place = tuple[str, str, str, str]
"""An engine, the parameters of its cell, a phase, and a metric or fact."""


def sides(check: Check) -> tuple[Place, Place]:
    """Returns the places of a claim's two figures."""
    claim, cell = check.claim, check.cell
    assert cell is not None, check.why
    than = {**cell.params, **claim.than_params}
    other = claim.than_phase or check.phase, claim.than_fact or claim.metric
    return (cell.asked, repr(dict(cell.params)), check.phase, claim.metric), (check.other, repr(than), *other)


def agreeing(run: Run, finding: Finding) -> Run:
    """Returns the run with figures that are within the bounds of all claims, by Bellman and Ford's algorithm over the
    logarithms of the figures."""
    (result,) = check(run, [finding])
    edges = list[tuple[Place, Place, float]]()
    for each in result.checks:
        if each.claim.relation != "fails":
            of, than = sides(each)
            low = max(each.claim.low, 1) if each.claim.published > 1 else each.claim.low
            high = min(each.claim.high, 1) if each.claim.published < 1 else each.claim.high
            edges.append((than, of, math.log(min(high, 1e6)) - NARROWER))
            edges.append((of, than, -math.log(max(low, 1e-6)) - NARROWER))
    figures = dict.fromkeys((place for *places, _ in edges for place in places), 0.0)
    for _ in figures:
        for begin, end, most in edges:
            figures[end] = min(figures[end], figures[begin] + most)
    assert all(figures[end] <= figures[begin] + most + 1e-9 for begin, end, most in edges), (
        "claims exclude each other"
    )
    return with_figures(run, finding, figures, "crash")


def disagreeing(run: Run, finding: Finding) -> Run:
    """Returns the run with a figure outside of the bounds of the first claim."""
    first = check(run, [finding])[0].checks[0]
    if first.claim.relation == "fails":
        return run
    of, _ = sides(first)
    beyond = first.claim.high * 1.5 if first.claim.high < math.inf else first.claim.low / 1.5
    return with_figures(run, finding, {of: math.log(beyond)}, "ok")


NARROWER = 0.01
"""Distance of a figure's logarithm from a bound."""
THOUSAND = 10**3
MILLION = 10**6
MILLIARD = 10**9


def with_figures(run: Run, finding: Finding, figures: Mapping[Place, float], failure: str) -> Run:
    """Returns the run with the figures whose logarithms are given, in the claims' metrics and facts, and 1 for the
    others. Trials that have to fail for the finding end as `failure`."""
    names = {name for claim in finding.claims for name in (claim.metric, claim.than_fact)}
    failing = {claim.of for claim in finding.claims if claim.relation == "fails"}

    def attempt(before: Attempt) -> Attempt:
        cell = run.cells[before.cell]
        if cell.asked in failing:
            return replace(before, outcome=failure, why="it fell", samples=before.samples if failure == "ok" else ())
        return replace(before, samples=tuple(sample(cell, each) for each in before.samples))

    def sample(cell: Cell, before: Sample) -> Sample:
        for name in names:
            speed = math.exp(figures.get((cell.asked, repr(dict(cell.params)), before.phase, name), 0.0))
            if name == "throughput":
                before = replace(before, items=round(speed * MILLIARD), elapsed_ns=SECOND)
            elif name == "bandwidth":
                before = replace(before, bytes=round(speed * MILLIARD), elapsed_ns=SECOND)
            elif name == "p50":
                before = replace(before, histogram=recorded(round(MILLION / speed)))
            elif name == "cpu":
                used = {"user_ns": round(before.items * THOUSAND / speed), "system_ns": 0}
                before = replace(before, client=used)
            elif name == "bytes_on_disk":
                before = replace(before, bytes_on_disk=round(speed * MILLION))
            else:
                before = replace(before, facts={**before.facts, name: speed * MILLION})
        return before

    return replace(run, attempts=tuple(map(attempt, run.attempts)))


def test_two_claims_of_a_statement_differ_in_words(experiment: Experiment) -> None:
    run = by_its_tools(experiment, a_whole_run(experiment))
    for section in replica_verdicts.sections(experiment, run):
        at = [section.heads.index(name) for name in ("phase", "metric", "claim", "where") if name in section.heads]
        lines = [tuple(row[place] for place in at) for row in section.rows]
        assert len(set(lines)) == len(lines)
        assert all(row[section.heads.index("metric")] for row in section.rows)


def test_claims_of_dd_are_not_called_fio() -> None:
    experiment = EXPERIMENTS["cloudmercato-volume"]
    out = printed(experiment, by_its_tools(experiment, a_whole_run(experiment)))
    lines = [" ".join(line.split()) for line in out.splitlines()]
    for start in (
        "dd-urandom CPU time of an item dd slower than dd in dd, by a factor of at least 2",
        "dd-urandom bandwidth dd slower than dd in dd, by a factor of at least 2",
        "dd bandwidth dd faster than dd in dd-fdatasync, by a factor of at least 1.5",
        "whole-write bandwidth fio faster than dd in dd-fdatasync",
        "seq-write bandwidth fio with depth=16 faster than dd with depth=1 in dd-direct",
        "warm-up fresh_per_second against steady_per_second fio less than fio",
    ):
        assert any(line.startswith(start) for line in lines), start


# -- units ------------------------------------------------------------------------------------------------------

NAMED_UNIT = re.compile(r"(?:, | in )(ns|µs|us|ms|s|kb|kB|MB|GB)(?=,|$)")
FIGURE = re.compile(r"[\d.,]+ ?(ns|µs|us|ms|s|kb|kB|MB|GB)")


@pytest.mark.claim("The unit that a replica's table names is that of its figures")
def test_a_named_unit_is_that_of_the_figures(experiment: Experiment) -> None:
    parts = [*(part for each in experiment.parts.values() for part in each)]
    parts += [experiment.matrix.part] if experiment.matrix else []
    run = changed(
        a_whole_run(experiment),
        lambda _, sample: replace(
            sample,
            histogram=recorded(1_500),
            by_part=dict.fromkeys(parts, recorded(1_500)),
            facts={"stored_bytes": 5},
        ),
    )
    figures, above = 0, ""
    for section in replica.sections(replace(experiment, findings=()), run):
        # A title without a table is that of the tables below it.
        above = f"{section.title} {section.remark}" if not section.rows else above
        for row in section.rows:
            for head, cell in zip(section.heads, row, strict=True):
                named = {match[1] for text in (above, section.title, head) if (match := NAMED_UNIT.search(text))}
                if figure := FIGURE.fullmatch(cell):
                    figures += 1
                    assert named <= {figure[1]}, (section.title, head, cell)
    assert figures or not (experiment.matrix or experiment.parts)


# -- columns without a figure ---------------------------------------------------------------------------------


def of_cells_at(run: Run, places: Sequence[int]) -> Run:
    new = {place: at for at, place in enumerate(places)}
    attempts = tuple(replace(a, cell=new[a.cell]) for a in run.attempts if a.cell in new)
    return replace(run, cells=tuple(run.cells[at] for at in places), attempts=attempts)


def without_an_engine(run: Run) -> Run:
    last = run.cells[-1].asked
    places = [at for at, cell in enumerate(run.cells) if cell.asked != last] or [0]
    return replace(of_cells_at(run, places), recorded={**run.recorded, "missing": {last: "is missing"}})


def crashed(run: Run) -> Run:
    attempts = tuple(replace(each, outcome="crash", why="it fell", samples=()) for each in run.attempts)
    return replace(run, attempts=attempts)


def of_one_block(run: Run) -> Run:
    return replace(run, attempts=tuple(each for each in run.attempts if each.block == 0))


def of_two_sizes(run: Run) -> Run:
    grown = [at for at, cell in enumerate(run.cells) if cell.params.get("half_hours") in (None, 1, 8)]
    return of_cells_at(run, grown)


@pytest.mark.claim("A column of a replica without a figure says why")
@pytest.mark.parametrize("reduced", [lambda run: run, without_an_engine, crashed, of_one_block, of_two_sizes])
def test_empty_column_states_its_reason(experiment: Experiment, reduced: Callable[[Run], Run]) -> None:
    run = reduced(a_whole_run(experiment))
    for section in replica.sections(replace(experiment, findings=()), run):
        if section.rows and not section.title.endswith(", published"):
            reasons = [text for text in (*section.lines, *section.legend) if "no figure" in text]
            for head in empty_columns(section):
                named = [
                    text for text in reasons if text.startswith("no figure") or head in text.split(": no figure")[0]
                ]
                assert named, (section.title, head, section.legend)


def empty_columns(section: Section) -> list[str]:
    mark = next((at for at, head in enumerate(section.heads) if head.startswith("│")), -1)
    empty = []
    for at, head in enumerate(section.heads):
        texts = [row[at] for row in section.rows]
        if any("│" in text for text in texts) and not head.startswith("│"):
            texts = [text.partition("│")[2].strip() for text in texts]
        elif at < mark or head in ("│", "remarks"):
            continue
        empty += [head] if set(texts) <= {"", "–"} else []
    return empty


# -- whole tables -----------------------------------------------------------------------------------------

TABLES = TESTS / "data" / "replicas"


def a_whole_run(experiment: Experiment) -> Run:
    """Returns a run of the experiment's plan with made-up rates: every engine, every parameter, three blocks."""
    request = plan_file.parse(experiment.plan, experiment.name)
    suite = registry.suite(request.suite)
    named = [each for _, each in split_engines(request.engines)]
    missing = find_unavailable(suite, [each.asked for each in named])
    planned = plan.make(replace(request, engines=[next(each.asked for each in named if each.asked not in missing)]))
    params = [cell.params for cell in planned.cells if not cell.floor]
    specs = {each.name: registry.reduce_to_suite(suite, registry.engine(each.name)) for each in named}
    tiers = {name: spec.default_tier for name, spec in specs.items() if spec is not None}
    cells = [
        Cell(request.suite, each.name, each.options, each.tier or tiers[each.name], values, False)
        for each in named
        for values in params
    ]
    rates = [
        {phase: [1_000.0 * (at + 1) + 10 * block for block in range(3)] for phase in planned.phases}
        for at in range(len(cells))
    ]
    run = of_rates(*zip(cells, rates, strict=True), phases=planned.phases)
    grows = experiment.grows.parameter if experiment.grows else ""

    def grown(attempt: Attempt) -> Attempt:
        """An attempt of twice the size has twice the items and takes twice the time."""
        size = int(cells[attempt.cell].params.get(grows, 1))
        samples = (replace(s, items=s.items * size, elapsed_ns=s.elapsed_ns * size) for s in attempt.samples)
        return replace(attempt, samples=tuple(samples))

    attempts = tuple(map(grown, run.attempts))
    return replace(run, attempts=attempts, recorded={**run.recorded, **planned.declared})


def test_replica_tables_match_the_checked_snapshot(experiment: Experiment) -> None:
    """Compares the tables of each replica with a file that was checked by eye against the source.

    To change a table, delete its file: the test writes it anew, and fails once.
    """
    tables = printed(replace(experiment, notes=(), findings=()), a_whole_run(experiment))
    text = "\n".join(line.rstrip() for line in tables.splitlines()) + "\n"
    file = TABLES / f"{experiment.name}.txt"
    if not file.exists():
        file.write_text(text)
        pytest.fail(f"{file} was missing and is written now: check it against the source")
    assert text == file.read_text()


def test_claims_and_clients_use_given_cpu_count() -> None:
    for cpus in (2, 16):
        original = published.experiment("cloudmercato-cpu", cpus)
        claims = [claim for finding in original.findings for claim in finding.claims]
        scaling = next(claim for claim in claims if claim.of_params == {"clients": cpus})
        assert scaling.low < cpus < scaling.high and cpus in original.plan["clients"]


def test_half_hour_size_uses_standard_preset() -> None:
    original = published.experiment("hypertable-2009")
    half, whole = original.plan_at_preset("half-hour"), original.plan_at_preset(None)
    assert half["preset"] == whole["preset"] == "standard" and half["param"] == {"half_hours": 1}
