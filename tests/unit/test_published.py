"""Tests the published experiments: each can be run, its findings refer to existing phases and parameters, and are
printed with their verdicts. Figures in the published style are printed nowhere else.
"""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from stats.madeup import a_cell, changed, of_rates

from dyno import published, registry
from dyno.contracts.cell import Cell
from dyno.contracts.model import UsageError
from dyno.fields import Sample
from dyno.published import Experiment
from dyno.report.replicate import replica
from dyno.report.replicate.replica import best_of_means, means
from dyno.report.tables import sections
from dyno.results import Attempt, Run
from dyno.runner import plan, plan_file
from dyno.runner.plan import GENERAL
from dyno.runner.rows import lacking, split_engines
from dyno.stats.estimate import estimate
from dyno.stats.metric import METRICS
from dyno.stats.summary import summarize

SECOND = 10**9
EXPERIMENTS = {name: published.experiment(name) for name in published.names()}


@pytest.fixture(params=EXPERIMENTS)
def experiment(request: pytest.FixtureRequest) -> Experiment:
    return EXPERIMENTS[request.param]


# -- as data ----------------------------------------------------------------------------------------------


def test_a_plan_and_its_sizes_are_those_of_a_suite(experiment: Experiment) -> None:
    suite = registry.suite(experiment.plan["suite"])
    for preset in (None, *suite.presets):
        asked = plan_file.parse(experiment.sized(preset), experiment.name)
        assert asked.preset in suite.presets and (preset is None or asked.preset == preset)
        assert set(asked.phases) <= {phase.name for phase in suite.phases}
        settings = {setting.name: setting for setting in suite.params}
        for name in asked.params:
            used_by = settings[name].phases
            assert not (used_by and asked.phases) or set(used_by) & set(asked.phases), name
    assert set(experiment.sizes) <= set(suite.presets)


def test_a_contender_is_named_as_a_run_names_it(experiment: Experiment) -> None:
    """A contender with another name would match no row of a run."""
    entries = [named for _, named in split_engines(experiment.plan["engine"])]
    for contender in experiment.contenders:
        assert contender.engine in [named.asked for named in entries]
        ((_, named),) = split_engines([contender.engine])
        suite = registry.suite(experiment.plan["suite"])
        spec = registry.through(suite, registry.engine(named.name))
        assert spec is not None
        resolved = spec.resolve(named.options)
        cell = replace(a_cell(named.name), options={option: resolved[option] for option in named.options})
        assert cell.asked == contender.engine


def test_claims_speak_of_what_the_suite_has(experiment: Experiment) -> None:
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


def test_what_can_not_run_here_is_left_out_with_the_reason() -> None:
    suite = registry.suite("objects")
    assert lacking(suite, ["nowhere", "sqlite", "relstorage_oracle"]).keys() == {
        "nowhere",
        "sqlite",
        "relstorage_oracle",
    }
    assert "not an engine of suite objects" in lacking(suite, ["sqlite"])["sqlite"]


def test_an_experiment_that_is_not_there_is_an_error() -> None:
    with pytest.raises(UsageError, match="acid-2013"):
        published.experiment("acid-2012")


# -- as printed -------------------------------------------------------------------------------------------


def printed(experiment: Experiment, run: Run, missing: dict[str, str] | None = None) -> str:
    out = io.StringIO()
    console = Console(file=out, width=260, highlight=False)
    sections.render(replica.sections(experiment, run, missing), console, aligned=False, blank_first=False)
    return out.getvalue()


RELSTORAGE = EXPERIMENTS["relstorage-2008"]
ENGINES = {each.name: each.engine for each in RELSTORAGE.contenders}


def row(name: str, objects: int, clients: int, write: int, read: int) -> Any:
    rates = {"write": write, "read": read}
    # The order is that of a run: the suite's parameters come first.
    cell = replace(a_cell(ENGINES[name]), params={"objects": objects, "clients": clients, "rate": "max"})
    return cell, {phase: [rate, int(rate * 1.01), int(rate * 1.02)] for phase, rate in rates.items()}


@pytest.fixture
def run() -> Run:
    """Run in which MySQL leads with 100 objects and one client, and PostgreSQL reads faster with two clients."""
    rows = [
        *(row("MySQL", 100, 1, 4000, 9000), row("PostgreSQL", 100, 1, 2000, 5000), row("ZEO", 100, 1, 2400, 2000)),
        *(row("MySQL", 100, 2, 4000, 6000), row("PostgreSQL", 100, 2, 2000, 9000), row("ZEO", 100, 2, 2400, 2000)),
        *(row("MySQL", 10_000, 1, 1000, 9000), row("PostgreSQL", 10_000, 1, 2000, 5000)),
        row("ZEO", 10_000, 1, 4000, 2000),
    ]
    found = of_rates(*rows, phases=["write", "read"])

    def timed(_: str, sample: Sample) -> Sample:
        """Gives the sample 10 operations per client; each takes as long as 100 objects do at the sample's rate."""
        return replace(sample, operations=10, busy_ns=10 * 100 * SECOND // sample.items)

    return changed(found, timed)


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


def test_the_ratios_that_make_a_verdict_stand_under_it(run: Run) -> None:
    lines = [" ".join(line.split()) for line in printed(RELSTORAGE, run).splitlines()]
    at = next(number for number, line in enumerate(lines) if "champ" in line)
    under = lines[at + 1 : at + 14]
    assert "without Oracle: not run here" in under
    assert "of 8 ratios: 7 confirmed, 1 contradicted" in under
    assert any(
        line.startswith("read MySQL (here MariaDB) faster than PostgreSQL objects=100 clients=2 contradicted 0.667")
        for line in under
    )
    assert any(
        line.startswith("write MySQL (here MariaDB) faster than ZEO objects=100 clients=1,2 confirmed 1.66")
        for line in under
    )
    assert any("0 of 9 trials" in line for line in lines)


@pytest.mark.claim("Published styles, such as the best of 3, appear only in replications")
def test_the_published_style_stands_beside_ours_and_nowhere_else(run: Run) -> None:
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


def test_what_could_not_run_says_why(run: Run) -> None:
    engine = ENGINES["Oracle"]
    out = printed(RELSTORAGE, run, {engine: "needs a server"})
    assert f"Oracle 10g XE: not run here: {engine} needs a server" in out


# -- rates over time, and single passes --------------------------------------------------------------------


def test_a_rate_over_time_is_sketched_and_a_pass_extrapolated_beside_what_was_published() -> None:
    experiment = EXPERIMENTS["cloudmercato-volume"]
    run = a_whole_run(experiment)

    def timed(_: str, sample: Sample) -> Sample:
        rates = (10, 40, 80, 80)
        points = tuple(
            {"from_ns": at * SECOND, "interval_ns": SECOND, "operations": rate, "p50_ns": 1, "p99_ns": 2}
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


def test_each_engine_of_the_plan_has_the_tier_of_what_was_published() -> None:
    made = plan_file.parse(WENDELIN.plan, "")
    found = {named.name: named.tier for _, named in split_engines(made.engines)}
    assert {name: tier.value for name, tier in found.items() if tier is not None} == {
        "wendelin": "power",
        "mariadb": "power",
        "numpy_memmap": "power",
        "numpy_memory": "volatile",
    }


@pytest.mark.claim("A finding that compares two tiers says why, beside its verdict")
def test_tiers_stand_beside_a_verdict_that_is_drawn_across_them(sums: Run) -> None:
    out = printed(WENDELIN, sums)
    lines = [" ".join(line.split()) for line in out.splitlines()]
    at = next(number for number, line in enumerate(lines) if "NumPy in-memory crushes everything" in line)
    assert lines[at].startswith("confirmed")
    under = lines[at + 1 : at + 14]
    assert any("rows of two tiers" in line and "no other tier" in line for line in under)
    ratios = [line for line in under if line.startswith("read-sum-hot numpy.memory faster than")]
    assert len(ratios) == 4
    assert all(line.endswith("tier volatile against tier power") for line in ratios), ratios
    at = next(number for number, line in enumerate(lines) if "almost all tool sets" in line)
    assert any(line.startswith("read-sum-hot ZBlock0") and line.endswith("tier power") for line in lines[at : at + 5])


def test_a_published_mean_with_its_deviation_has_ours_beside_it(sums: Run) -> None:
    lines = [" ".join(line.split()) for line in printed(WENDELIN, sums).splitlines()]
    memory = next(line for line in lines if line.startswith("numpy.memory read-sum-hot"))
    assert "0.014 s ± 4,37%" in memory.partition("│")[0]
    # This is the mean of 1, 1 and 1.1 s.
    assert "1.03 s ± 5.59 %" in memory.partition("│")[2]
    assert any(line.startswith("mean: the published style") for line in lines)
    assert "±" not in printed(EXPERIMENTS["acid-2013"], sums)


# -- whole tables -----------------------------------------------------------------------------------------

TABLES = Path(__file__).parent.parent / "data" / "replicas"


def a_whole_run(experiment: Experiment) -> Run:
    """Returns a run of the experiment's plan with made-up rates: every engine, every parameter, three blocks."""
    request = plan_file.parse(experiment.plan, experiment.name)
    if request.clients:
        # A plan may have numbers of clients that depend on the machine's CPUs.
        request = replace(request, clients=["1", "2"])
    named = [each for _, each in split_engines(request.engines)]
    missing = lacking(registry.suite(request.suite), [each.asked for each in named])
    planned = plan.make(replace(request, engines=[next(each.asked for each in named if each.asked not in missing)]))
    params = [cell.params for cell in planned.cells if not cell.floor]
    cells = [
        Cell(request.suite, each.name, each.options, each.tier, values, False) for each in named for values in params
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
    return replace(run, attempts=attempts, header={**run.header, **planned.declared})


def test_the_whole_table_is_as_it_was_published(experiment: Experiment) -> None:
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
