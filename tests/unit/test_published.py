"""Tests the published experiments: each can be run, its findings refer to existing phases and parameters, and are
printed with their verdicts. Figures in the published style are printed nowhere else.
"""

from __future__ import annotations

import copy
import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from stats.madeup import a_cell, changed, of_rates, recorded

from dyno import published, registry
from dyno.contracts.cell import Cell
from dyno.contracts.model import Tier, UsageError
from dyno.contracts.safe_read import toml
from dyno.fields import Sample
from dyno.options import as_list
from dyno.published import Experiment, transcription
from dyno.report.replicate import orders, replica
from dyno.report.replicate.replica import best_of_means, means
from dyno.report.tables import sections
from dyno.report.tables.sections import Section
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
    assert {size.get("preset", name) for name, size in experiment.sizes.items()} <= set(suite.presets)


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


def test_each_statement_declares_the_size_that_it_needs(experiment: Experiment) -> None:
    suite = registry.suite(experiment.plan["suite"])
    settings = {setting.name: setting for setting in suite.params} | GENERAL
    request = plan_file.parse(experiment.plan, experiment.name)
    given = {**suite.presets[request.preset].params, **request.params, "clients": request.clients}
    for finding in experiment.findings:
        assert finding.needs or all({**claim.params, **claim.of_params} for claim in finding.claims), finding
        for name, least in finding.needs.items():
            values = [settings[name].read(value, "") for value in as_list(given.get(name, settings[name].default))]
            assert max(values) == least, "the plan measures at the size of the statement"


def test_a_quick_size_judges_no_statement_of_the_whole() -> None:
    """On disk, 50,000 rows contradict a size that 1,430,394 rows confirm."""
    quick = replace(WENDELIN, plan={**WENDELIN.plan, "param": {"rows": 50_000, "repeats": 1}})
    out = printed(WENDELIN, a_whole_run(quick))
    found = verdicts(out)
    assert set(found.values()) == {"not checked at this size"} and len(found) == len(WENDELIN.findings)
    assert out.count("needs rows=1,430,394, here 50,000") == len(found)
    assert "not checked at this size" not in set(verdicts(printed(WENDELIN, a_whole_run(WENDELIN))).values())


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


def printed(experiment: Experiment, run: Run) -> str:
    out = io.StringIO()
    console = Console(file=out, width=260, highlight=False)
    sections.render(replica.sections(experiment, run), console, aligned=False, blank_first=False)
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
    """Run in which MySQL leads with 100 objects and one client, and PostgreSQL reads faster with 16 clients."""
    rows = [
        *(row("MySQL", 100, 1, 4000, 9000), row("PostgreSQL", 100, 1, 2000, 5000), row("ZEO", 100, 1, 2400, 2000)),
        *(row("MySQL", 100, 16, 4000, 6000), row("PostgreSQL", 100, 16, 2000, 9000), row("ZEO", 100, 16, 2400, 2000)),
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
        line.startswith("read MySQL (here MariaDB) faster than PostgreSQL objects=100 clients=16 contradicted 0.667")
        for line in under
    )
    assert any(
        line.startswith("write MySQL (here MariaDB) faster than ZEO objects=100 clients=1,16 confirmed 1.66")
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
    out = printed(RELSTORAGE, replace(run, header={**run.header, "missing": {engine: "needs a server"}}))
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


# -- the copied figures -------------------------------------------------------------------------------------


@pytest.mark.claim("A changed digit of a published table is an error")
def test_each_table_has_a_checksum_that_fails_when_a_digit_changes(experiment: Experiment) -> None:
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


def test_our_order_is_that_of_verdicts() -> None:
    """Rows without a clear winner are equal, and rows of another tier or without a figure are not put in order."""
    experiment = EXPERIMENTS["acid-2013"]

    def inserts(engine: str, *rates: float, tier: Tier | None = None) -> Any:
        return a_cell(engine, tier), {"insert-blind-indices": rates}

    phases = ["insert-blind-indices"]
    lmdb, leveldb = inserts("lmdb", 900, 1_000, 1_100), inserts("leveldb", 1_100, 1_000, 950)
    run = of_rates(lmdb, leveldb, inserts("memory", 100, 101, 102), phases=phases, missing={"ferretdb": "is missing"})
    text, reasons = orders.ours(experiment, run)
    assert text == "LmdbEngine ≈ PlyvelEngine > SkiplistEngine (here sortedcontainers)"
    assert reasons == ["MongoEngine (here FerretDB) is not in the order: ferretdb is missing"]
    power = [inserts(name, 5, 6, 7, tier=Tier.POWER) for name in ("lmdb", "leveldb")]
    run = of_rates(*power, inserts("memory", 100, 101, 102, tier=Tier.VOLATILE), phases=phases)
    text, reasons = orders.ours(experiment, run)
    assert text == "LmdbEngine ≈ PlyvelEngine (tier power)"
    assert "tier volatile is not compared with tier power" in "; ".join(reasons)
    both = [inserts(name, rate, rate + 1, rate + 2) for name, rate in (("lmdb", 90), ("leveldb", 70))]
    between = inserts("memory", 80, 81, 82, tier=Tier.VOLATILE)
    text, reasons = orders.ours(experiment, of_rates(*both, between, phases=phases))
    assert text == "LmdbEngine > PlyvelEngine", "a row of another tier is left out"
    singles = [inserts("memory", 5, tier=Tier.VOLATILE), inserts("lmdb", 5), inserts("leveldb", 5)]
    text, reasons = orders.ours(experiment, of_rates(*singles, phases=phases))
    assert text == "–" and sum("a ratio needs 3" in why for why in reasons) == 2


def test_the_systems_of_an_order_are_rows_of_a_run(experiment: Experiment) -> None:
    latency = recorded(1_000_000)
    run = changed(a_whole_run(experiment), lambda _, sample: replace(sample, histogram=latency))
    text, reasons = orders.ours(experiment, run)
    if experiment.order.none:
        assert (text, reasons) == ("–", [])
    elif experiment.name != "cloudmercato-cpu":
        # A whole run has 1 and 2 clients, and this machine may have any number of CPUs.
        assert [why for why in reasons if "is not compared with tier" not in why] == []
        ours = re.split(" > | ≈ |; ", text)
        assert len(ours) + len(reasons) == len(experiment.order.sides or experiment.contenders)


# -- columns without a figure ---------------------------------------------------------------------------------


def without_an_engine(run: Run) -> Run:
    last = run.cells[-1].asked
    places = [at for at, cell in enumerate(run.cells) if cell.asked != last] or [0]
    attempts = tuple(replace(a, cell=places.index(a.cell)) for a in run.attempts if a.cell in places)
    header = {**run.header, "missing": {last: "is missing"}}
    return replace(run, cells=tuple(run.cells[at] for at in places), attempts=attempts, header=header)


def crashed(run: Run) -> Run:
    attempts = tuple(replace(each, outcome="crash", why="it fell", samples=()) for each in run.attempts)
    return replace(run, attempts=attempts)


def of_one_block(run: Run) -> Run:
    return replace(run, attempts=tuple(each for each in run.attempts if each.block == 0))


def of_two_sizes(run: Run) -> Run:
    grown = [at for at, cell in enumerate(run.cells) if cell.params.get("half_hours") in (None, 1, 8)]
    attempts = tuple(replace(a, cell=grown.index(a.cell)) for a in run.attempts if a.cell in grown)
    return replace(run, cells=tuple(run.cells[at] for at in grown), attempts=attempts)


@pytest.mark.claim("A column of a replica without a figure says why")
@pytest.mark.parametrize("reduced", [lambda run: run, without_an_engine, crashed, of_one_block, of_two_sizes])
def test_no_column_is_empty_without_a_reason(experiment: Experiment, reduced: Callable[[Run], Run]) -> None:
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


def test_cpus_are_those_of_the_machine_that_repeats_it() -> None:
    for cpus in (2, 16):
        original = published.experiment("cloudmercato-cpu", cpus)
        claims = [claim for finding in original.findings for claim in finding.claims]
        scaling = next(claim for claim in claims if claim.of_params == {"clients": cpus})
        assert scaling.low < cpus < scaling.high and cpus in original.plan["clients"]


def test_the_published_half_hour_has_the_published_size() -> None:
    original = published.experiment("hypertable-2009")
    half, whole = original.sized("half-hour"), original.sized(None)
    assert half["preset"] == whole["preset"] == "standard" and half["param"] == {"half_hours": 1}
