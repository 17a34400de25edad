"""Tests plans: a request by flags or by a plan file becomes the right cells, or is refused in one line.

Covers the product of parameters, clients, rates and engines, presets, the pace of phases, the default engines, the
null engine in every table, and errors that name the accepted values in one line.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from needed import require

import dyno
from dyno import registry
from dyno.contracts.cell import Cell
from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Tier, Trial, UsageError
from dyno.contracts.pace import Pace
from dyno.host import interpreters
from dyno.options import RunRequest
from dyno.runner import plan, plan_file
from dyno.runner.plan import Plan
from dyno.runner.rates import UNPACED, check_rates
from dyno.suites.records import SUITE

# Default engines that are always installed for tests.
EMBEDDED = {"duckdb", "leveldb", "lmdb", "memory", "rocksdb", "sqlite"}


def make(*engines: str, **asked: Any) -> Plan:
    return plan.make(RunRequest(suite="records", engines=engines or ("memory",), **asked))


def rows(made: Plan) -> list[tuple[str, str]]:
    """Returns row name and tier of every cell except the null engines'."""
    return [(cell.asked, Tier(cell.tier).value) for cell in made.cells if not cell.floor]


def floors(made: Plan) -> list[tuple[str, str]]:
    """Returns row name and tier of the null engines' cells."""
    return [(cell.asked, Tier(cell.tier).value) for cell in made.cells if cell.floor]


def values(made: Plan, *names: str, engine: str = "memory") -> list[tuple[Any, ...]]:
    return [tuple(cell.params[name] for name in names) for cell in made.cells if cell.engine == engine]


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes the named modules, or all modules, look as if they were not installed."""
    importable = interpreters._importable

    def hide(*names: str) -> None:
        def found(name: str) -> bool:
            return bool(names) and name not in names and importable(name)

        monkeypatch.setattr(interpreters, "_importable", found)

    return hide


# -- cells ----------------------------------------------------------------------------------------------------


def test_cells_are_product_of_engines_parameters_and_clients() -> None:
    parameters = {"records": ["10", "20"], "value_size": ["50", "60", "70"]}
    run_plan = make("lmdb", "sqlite", params=parameters, clients=["1", "2"])
    wanted = [(r, v, c) for r in (10, 20) for v in (50, 60, 70) for c in (1, 2)]
    for engine in ("lmdb", "sqlite", "null"):
        assert values(run_plan, "records", "value_size", "clients", engine=engine) == wanted
    assert len(run_plan.cells) == (2 + len(dict(floors(run_plan)))) * len(wanted)
    assert len({repr(cell) for cell in run_plan.cells}) == len(run_plan.cells)


def test_duplicate_values_make_one_cell() -> None:
    run_plan = make("lmdb", params={"records": ["10", "1_0", "20"]}, clients=["1", 1])
    assert values(run_plan, "records", "clients", engine="lmdb") == [(10, 1), (20, 1)]


def test_omitted_parameters_use_preset_or_default_values() -> None:
    (cell,) = (cell for cell in make(params={"records": ["7"]}).cells if cell.engine == "memory")
    defaults = {setting.name: setting.default for setting in SUITE.params}
    assert cell.params == {**defaults, "records": 7, "clients": 1, "rate": "max"}


def test_an_engine_with_other_options_is_another_row() -> None:
    run_plan = make("sqlite", "sqlite:cache_mib=8", "sqlite:cache_mib=8+journal_mode=delete", "sqlite:cache_mib=8")
    named = [asked for asked, _ in rows(run_plan)]
    assert named == ["sqlite", "sqlite:cache_mib=8", "sqlite:cache_mib=8+journal_mode=delete"]
    assert run_plan.cells[1].options == {"cache_mib": 8}, "read, and without those that were not given"


def test_phases_follow_suite_order_and_default_to_preset() -> None:
    every = tuple(phase.name for phase in SUITE.phases)
    assert make().phases == SUITE.presets["quick"].phases != every
    assert make(preset="standard").phases == make(phases=["all"]).phases == every
    assert make(phases=["delete", "rand-key", "insert-blind-indices"]).phases == (
        "insert-blind-indices",
        "rand-key",
        "delete",
    )


@pytest.mark.parametrize("name", sorted(SUITE.presets))
def test_a_preset_gives_parameters_samples_budget_and_timeout(name: str) -> None:
    preset = SUITE.presets[name]
    run_plan = make(preset=name, samples=None if preset.until is None else preset.samples)
    assert (run_plan.samples, run_plan.budget, run_plan.timeout) == (preset.samples, preset.budget, preset.timeout)
    for parameter, value in preset.params.items():
        wanted = set(value) if isinstance(value, tuple) else {value}
        assert {cell.params[parameter] for cell in run_plan.cells} == wanted


def test_default_preset_is_quick() -> None:
    assert make() == make(preset="quick")


def test_explicit_options_override_the_preset() -> None:
    run_plan = make(preset="full", params={"txn": ["5"]}, samples=9, budget=1.5, timeout=8.0)
    assert (run_plan.samples, run_plan.budget, run_plan.timeout) == (9, 1.5, 8.0)
    assert values(run_plan, "txn", "records", "operations") == [(5, 10_000_000, 1_000_000)]


def test_processes_wait_with_server_or_several_clients() -> None:
    assert not make().waiting and make("lmdb", clients=[1, 2]).waiting
    require(registry.engine("postgresql"))
    assert make("postgresql").waiting


def test_seed_retries_and_memory_have_defaults() -> None:
    run_plan = make()
    assert (run_plan.seed, run_plan.retries, run_plan.memory) == (1, 1, None)
    run_plan = make(seed=0, retries=0, memory=1 << 30)
    assert (run_plan.seed, run_plan.retries, run_plan.memory) == (0, 0, 1 << 30)


# -- duration and rate ----------------------------------------------------------------------------------------


def test_plan_gives_the_pace_of_a_cell() -> None:
    run_plan = make()
    quick = SUITE.presets["quick"]
    usual = Pace(budget_ns=int(quick.budget * 1e9), check_ns=int(quick.timeout / 2 * 1e9))
    assert run_plan.pace(run_plan.cells[0]) == usual
    run_plan = make(rate=["2.5e3"], duration=1.5, warmup=0.25, arrivals="poisson", loop="python", seed=7, timeout=8.0)
    assert run_plan.pace(run_plan.cells[0]) == Pace(
        budget_ns=usual.budget_ns,
        duration_ns=1_500_000_000,
        warmup_ns=250_000_000,
        rate=2500.0,
        arrivals="poisson",
        loop="python",
        seed=7,
        check_ns=4_000_000_000,
    )


def test_probe_settles_at_its_rate_before_counting() -> None:
    run_plan = make("lmdb", phases=["rand-key"], limit=["p99<5ms"], warmup=2.0)
    pace = run_plan.pace(run_plan.cells[0], Trial(0, 1, "explore", 800.0, 10.0))
    assert (pace.rate, pace.warmup_ns, pace.duration_ns) == (800.0, 0, 12_000_000_000)
    assert (pace.settling_ns, pace.limits, pace.arrivals) == (4_000_000_000, {"p99<5ms": 5_000_000}, "poisson")
    closed = run_plan.pace(run_plan.cells[0], Trial(0, 0, seconds=10.0))
    assert (closed.rate, closed.warmup_ns, closed.limits) == (None, 2_000_000_000, {})


def test_null_engine_probe_has_full_duration() -> None:
    run_plan = make("lmdb", "null", phases=["rand-key"], limit=["p99<5ms"], warmup=2.0)
    (null,) = (cell for cell in run_plan.cells if cell.floor)
    assert run_plan.pace(null, Trial(1, 1, "explore", 800.0, 10.0)).duration_ns == 12_000_000_000


@pytest.mark.parametrize(("rate", "seconds"), [("max", 0.3), ("1000", 0.3), ("4", 2.5), ("1", 10), ("0.1", 20)])
def test_null_engine_has_time_for_ten_operations(rate: str, seconds: float) -> None:
    run_plan = make("lmdb", phases=["rand-key"], rate=[rate], duration=20)
    for cell in run_plan.cells:
        assert run_plan.pace(cell).duration_ns == int((seconds if cell.floor else 20) * 1e9)


def test_search_timeout_covers_its_longest_probe() -> None:
    assert make("lmdb", phases=["rand-key"], limit=["p99<5ms"]).timeout == 3 * 65 + 60
    with pytest.raises(UsageError, match=r"timeout 60: .* at least 125"):
        make("lmdb", phases=["rand-key"], limit=["p99<5ms"], timeout=60)


@pytest.mark.parametrize("rate", ["max", "0.5", "1", "1e9", 100, 0.25])
def test_rate_accepts_numbers_and_max_means_unpaced(rate: Any) -> None:
    ((found,),) = values(make(rate=[rate]), "rate")
    assert found == ("max" if rate == "max" else float(rate))
    run_plan = make(rate=[rate])
    assert {run_plan.pace(cell).rate for cell in run_plan.cells} == {None if rate == "max" else float(rate)}


def test_cells_combine_every_rate_with_every_client_count() -> None:
    run_plan = make("lmdb", rate=["1000", "max", "2000", "1e3"], clients=["1", "2"])
    wanted = {(clients, rate) for clients in (1, 2) for rate in (1000.0, "max", 2000.0)}
    for engine in ("lmdb", "null"):
        rates = values(run_plan, "clients", "rate", engine=engine)
        assert len(rates) == len(wanted)
        assert set(rates) == wanted


def test_rate_parameter_equals_rate_option() -> None:
    assert make(params={"rate": ["10", "20"]}).cells == make(rate=["10", "20"]).cells


def test_timeout_grows_with_duration_and_warm_up() -> None:
    preset = SUITE.presets["quick"]
    assert make(duration=1.0, phases=["scan"]).timeout == preset.timeout, "which is enough for it"
    long = make(duration=100.0)
    # There is time for an untimed round of the same length, and for the phase itself.
    assert long.timeout > preset.timeout + 2 * 100 * len(long.phases)
    assert make(duration=200.0).timeout > long.timeout + 2 * 100 * len(long.phases)
    assert make(warmup=200.0).timeout > make(warmup=100.0).timeout > preset.timeout + 100 * len(long.phases)
    assert make(duration=100.0, phases=["scan", "delete"]).timeout < long.timeout
    assert make(duration=100.0, timeout=5.0).timeout == 5.0, "what was asked for"


# -- engines --------------------------------------------------------------------------------------------------


def unasked(**asked: Any) -> dict[str, str]:
    """Returns the engines that run by default, with their tiers."""
    engines = rows(plan.make(RunRequest(suite="records", **asked)))
    assert len(dict(engines)) == len(engines), "each of them once"
    return dict(engines)


def test_default_engines_are_installed_ones_at_default_tiers() -> None:
    engines = unasked()
    assert set(engines) >= EMBEDDED
    for name, tier in engines.items():
        spec = registry.engine(name)
        assert spec.listing.by_default
        assert not spec.find_missing_modules()
        assert Tier(tier) == spec.default_tier


def test_default_engines_exclude_uninstalled_ones(without: Callable[..., None]) -> None:
    before = unasked()
    without("lmdb", "duckdb")
    assert set(unasked()) == set(before) - {"lmdb", "duckdb"}


def test_default_engines_support_the_requested_tier() -> None:
    engines = unasked(tier="power")
    assert set(engines) >= EMBEDDED - {"memory", "duckdb"}
    assert not {"memory", "duckdb"} & set(engines)
    assert set(engines.values()) == {"power"}


def test_default_engines_support_the_requested_clients() -> None:
    engines = unasked(clients=["2"])
    assert set(engines) >= EMBEDDED - {"memory"}
    assert "memory" not in engines


@pytest.mark.claim("Every run has a floor")
def test_null_engine_is_added_once_per_tier() -> None:
    run_plan = make("memory", "lmdb", "sqlite", "leveldb")
    null_engines = floors(run_plan)
    assert {tier for _, tier in null_engines} == {"volatile", "process"}
    for tier in ("volatile", "process"):
        assert null_engines.count(("null", tier)) == 1
    assert len(null_engines) == len(set(null_engines))
    assert all(cell.floor is registry.engine(cell.engine).floor for cell in run_plan.cells)


def test_requested_null_engine_is_not_added_again() -> None:
    assert floors(make("sqlite", "null", tier="power")) == [("null", "power")]
    assert sorted(floors(make("null", "memory"))) == [("null", "volatile"), ("nullkv", "volatile")]


def test_every_tier_has_floor_despite_requested_null_engine() -> None:
    assert ("null", "process") in floors(make("null", "lmdb"))


@pytest.mark.parametrize(
    "own", ["sqlite:tier=power+cache_mib=8", {"name": "sqlite", "cache_mib": 8, "tier": "power"}]
)
def test_engine_tier_takes_precedence_over_run_tier(own: Any) -> None:
    assert rows(make("memory", own)) == [("memory", "volatile"), ("sqlite:cache_mib=8", "power")]
    run_plan = make("sqlite", own, tier="process")
    assert rows(run_plan) == [("sqlite", "process"), ("sqlite:cache_mib=8", "power")]
    assert {tier for _, tier in floors(run_plan)} == {"process", "power"}, "each with a floor beside it"


def test_engine_at_two_tiers_makes_two_rows() -> None:
    run_plan = make("sqlite:tier=process", "sqlite:tier=power", "sqlite:tier=power")
    assert rows(run_plan) == [("sqlite", "process"), ("sqlite", "power")]


def test_requested_tier_applies_to_all_engines() -> None:
    run_plan = make("lmdb", "sqlite", tier="volatile")
    assert rows(run_plan) == [("lmdb", "volatile"), ("sqlite", "volatile")]
    assert {tier for _, tier in floors(run_plan)} == {"volatile"}


# -- blocks ---------------------------------------------------------------------------------------------------


def blocks(seed: int) -> list[list[int]]:
    run_plan = make("lmdb", "sqlite", params={"records": ["1", "2", "3", "4"]}, samples=6, seed=seed)
    orders = [run_plan.block(number) for number in range(6)]
    assert [{trial.block for trial in block} for block in orders] == [{at} for at in range(6)]
    return [[trial.cell for trial in block] for block in orders]


def test_block_has_every_cell_once_in_own_order() -> None:
    orders = blocks(seed=1)
    assert len(orders) == 6
    cells = len(orders[0])
    assert cells >= 12
    assert all(sorted(block) == list(range(cells)) for block in orders)
    assert len({tuple(block) for block in orders}) == 6


def test_seed_determines_block_order() -> None:
    assert blocks(seed=3) == blocks(seed=3)
    assert blocks(seed=3) != blocks(seed=4)


# -- measuring until intervals are narrow ---------------------------------------------------------------------


@pytest.mark.parametrize("text", ["5%", "5 %", "5", 5, 5.0])
def test_until_accepts_any_spelling_of_a_percentage(text: Any) -> None:
    run_plan = make(until=text)
    assert (run_plan.until, run_plan.within) == (0.05, 1_800)


def test_phase_can_be_requested_by_alias() -> None:
    assert make(phases=["get", "insert", "update"]).phases == ("insert-noblind-indices", "rand-key", "update")
    with pytest.raises(UsageError, match="phase get-col is not known; did you mean get-cold"):
        make(phases=["get-col"])


def test_parameter_unused_by_requested_phases_is_refused() -> None:
    with pytest.raises(UsageError, match=r"distribution has no effect on rand-key; it is used by update, mixed"):
        make(phases=["get"], params={"distribution": ["zipfian"]})
    assert make(phases=["get", "mixed"], params={"distribution": ["zipfian"]}).phases == ("rand-key", "mixed")
    # The command that repeats a run names every parameter, used or not.
    assert make(phases=["get"], params={"mix": ["a"]}).phases == ("rand-key",)
    with pytest.raises(UsageError, match="mix has no effect on rand-key"):
        make(phases=["get"], params={"mix": ["a", "b"]})
    # A preset's values are not the user's request.
    assert make(preset="full", phases=["mixed"]).phases == ("mixed",)
    for suite in registry.suites():
        # The user's definition has the phases of the suite sql.
        names = {phase.name for phase in suite.phases}
        for setting in suite.params if names else ():
            assert set(setting.phases) < names, (suite.name, setting.name)


def test_default_run_stops_when_comparisons_are_decided() -> None:
    usual = make()
    assert (usual.until, usual.within, usual.least, usual.samples) == ("decided", 60, 3, 3)
    for said in ({"samples": 4}, {"budget": 1.0}, {"duration": 2.0}, {"warmup": 1.0}):
        run_plan = make(**said)
        assert (run_plan.until, run_plan.within, run_plan.least) == (None, None, 1)
    requested = make(until="5%", within=10.0)
    assert (requested.until, requested.within, requested.least) == (0.05, 10.0, 1)


def test_until_raises_preset_samples_to_interval_minimum() -> None:
    standard = SUITE.presets["standard"].samples
    assert [make(preset="standard", until=until).samples for until in ("5%", None)] == [6, standard]
    assert standard < 6
    assert [make(until="5%", samples=samples).samples for samples in (3, 9)] == [3, 9]


def test_within_is_as_requested_or_long_in_standard() -> None:
    assert make(until="5%", within=60.5).within == 60.5
    run_plan = make(preset="standard")
    assert (run_plan.until, run_plan.within, run_plan.least) == ("decided", 1_800, run_plan.samples)


def test_within_alone_runs_until_decided() -> None:
    run_plan = make(within=20.0, samples=4)
    assert (run_plan.until, run_plan.within, run_plan.samples) == ("decided", 20, 4)
    # The requested time holds for the first blocks, too.
    assert run_plan.least == 1


def test_block_of_any_number_is_independent() -> None:
    until, fixed = make("lmdb", "sqlite", until="5%"), make("lmdb", "sqlite", samples=3)
    assert [until.block(number) for number in range(3)] == [fixed.block(number) for number in range(3)]
    assert {trial.block for trial in until.block(500)} == {500}
    assert sorted(trial.cell for trial in until.block(500)) == list(range(len(until.cells)))


# -- refused plans --------------------------------------------------------------------------------------------


def asked(**given: Any) -> RunRequest:
    return RunRequest(**{"suite": "records", "engines": ("memory",), **given})


RATE = "suite records: parameter rate={}: expected operations per second, 0.000001 to 1,000,000,000, or max"
CANNOT_BE = {
    "suite": (asked(suite="record"), "suite record is not known; did you mean records?"),
    "suite far off": (asked(suite="zodb"), "suite zodb is not known; there are: "),
    "engine": (asked(engines=["lmbd"]), "engine lmbd is not known; did you mean lmdb?"),
    "option": (
        asked(engines=["sqlite:cache_mb=8"]),
        "engine sqlite: option cache_mb is not known; did you mean cache_mib?",
    ),
    "option of an engine without": (
        asked(engines=["memory:size=8"]),
        "engine memory: option size is not known: there are none",
    ),
    "option without a value": (
        asked(engines=["sqlite:cache_mib"]),
        "engine sqlite:cache_mib: expected sqlite:option=value+option=value",
    ),
    "option without a name": (
        asked(engines=["sqlite:=3"]),
        "engine sqlite:=3: expected sqlite:option=value+option=value",
    ),
    "bad value of an option": (
        asked(engines=["sqlite:cache_mib=lots"]),
        "engine sqlite: option cache_mib=lots: expected a whole number from 1 to 1000000000000",
    ),
    "bad choice of an option": (
        asked(engines=["sqlite:journal_mode=wall"]),
        "engine sqlite: option journal_mode=wall: expected one of .*wal",
    ),
    "parameter": (
        asked(params={"record": ["1"]}),
        "suite records: parameter record is not known; did you mean records?",
    ),
    "bad value of a parameter": (
        asked(params={"records": ["0"]}),
        "suite records: parameter records=0: expected a whole number from 1 to 1000000000000",
    ),
    "bad word for a parameter": (
        asked(params={"txn": ["al"]}),
        "suite records: parameter txn=al: expected a .* or all",
    ),
    "bad mix": (asked(params={"mix": ["80:30"]}), "suite records: parameter mix=80:30: expected a to f .* as 80:20"),
    "preset": (asked(preset="quik"), "suite records: preset quik is not known; did you mean quick?"),
    "phase": (asked(phases=["rand-keys"]), "suite records: phase rand-keys is not known; did you mean rand-key?"),
    "tier": (asked(tier="powr"), "tier powr is not known; did you mean power?"),
    "tier that an engine can't give": (
        asked(tier="power"),
        "engine memory can't give tier power; it gives: volatile",
    ),
    "tier of one engine": (asked(engines=["sqlite:tier=powr"]), "tier powr is not known; did you mean power?"),
    "tier that the one engine can't give": (
        asked(engines=["sqlite", "memory:tier=power"], tier="volatile"),
        "engine memory can't give tier power; it gives: volatile",
    ),
    "option that can't give the tier": (
        asked(engines=["sqlite:journal_mode=memory"], tier="power"),
        "engine sqlite: journal_mode=memory can't give tier power; it gives: volatile",
    ),
    "option that can't give the default tier": (
        asked(engines=["sqlite:journal_mode=memory"]),
        "engine sqlite: journal_mode=memory can't give tier process; it gives: volatile",
    ),
    "clients": (asked(clients=["0"]), "suite records: parameter clients=0: expected a whole number from 1 to 1024"),
    "clients that an engine can't serve": (
        asked(engines=["lmdb", "memory"], clients=["1", "2"]),
        "engine memory serves one client, not 2: leave it out, or request 1",
    ),
    "rate of nothing": (asked(rate=["0"]), RATE.replace("{}", "0")),
    "rate below nothing": (asked(rate=["100", "-1"]), RATE.replace("{}", "-1")),
    "rate that is no number": (asked(rate=["abc"]), RATE.replace("{}", "abc")),
    "rate that is not one": (asked(rate=["nan"]), RATE.replace("{}", "nan")),
    "rate without end": (asked(rate=["inf"]), RATE.replace("{}", "inf")),
    "rate at which nothing is ever due": (asked(rate=["1e-7"]), RATE.replace("{}", "1e-7")),
    "rate that no clock can keep": (asked(rate=["2e9"]), RATE.replace("{}", "2e9")),
    "rate as a parameter": (asked(params={"rate": ["0"]}), RATE.replace("{}", "0")),
    "rate given twice": (
        asked(rate=["5"], params={"rate": ["6"]}),
        "rate is given twice: by --rate and by -p rate=",
    ),
    "duration with budget": (
        asked(budget=1.0, duration=1.0),
        "budget (the maximum) and duration (fixed) of a phase exclude each other",
    ),
    "arrivals": (asked(arrivals="posson"), "arrivals posson is not known; did you mean poisson?"),
    "arrivals far off": (asked(arrivals="xyz"), "arrivals xyz is not known; there are: poisson, uniform"),
    "loop": (asked(loop="nativ"), "loop nativ is not known; did you mean native?"),
    "loop far off": (asked(loop="c"), "loop c is not known; there are: auto, native, python"),
    "clients given twice": (
        asked(engines=["lmdb"], clients=["2"], params={"clients": ["3"]}),
        "clients is given twice: by --clients and by -p clients=",
    ),
}


@pytest.mark.parametrize("name", CANNOT_BE)
def test_invalid_request_gets_one_line_error_with_hint(name: str) -> None:
    wish, said = CANNOT_BE[name]
    message = refusal(lambda: plan.make(wish))
    literal = re.escape(said).replace(r"\.\*", ".*")
    assert re.match(literal, message), message


def refusal(ask: Callable[[], object]) -> str:
    """Returns the message of the UsageError, which must be one line."""
    with pytest.raises(UsageError) as caught:
        ask()
    message = str(caught.value)
    assert "\n" not in message
    assert message
    return message


def test_unbuilt_native_loop_is_refused_with_build_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dyno._native", None)
    monkeypatch.delattr(dyno, "_native", raising=False)
    assert refusal(lambda: make(loop="native")).startswith("loop native is not built here; install a Rust toolchain")
    assert (make(loop="auto").loop, make(loop="python").loop) == ("auto", "python")


def test_uninstalled_engine_is_refused_with_install_command(without: Callable[..., None]) -> None:
    without("lmdb")
    assert refusal(lambda: make("lmdb")) == "engine lmdb needs lmdb: dyno install lmdb"


def test_error_without_runnable_engines_names_dyno_list(without: Callable[..., None]) -> None:
    without()
    message = refusal(lambda: plan.make(RunRequest(suite="records")))
    assert message == "suite records: no engine can run here; `dyno list` says what to install"


def test_engine_without_port_of_suite_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    other = replace(registry.engine("memory"), name="frames", ports={"frames": PortSpec(object)})
    known = registry.engine
    monkeypatch.setattr(registry, "engine", lambda name: other if name == "frames" else known(name))
    assert refusal(lambda: make("frames")).startswith("engine frames has no port of suite records; ")


def test_submodule_of_absent_package_counts_as_missing() -> None:
    spec: EngineSpec = replace(
        registry.engine("memory"), installation=Installation(modules=("dyno_no_such_package.part",))
    )
    assert spec.find_missing_modules() == ("dyno_no_such_package.part",)


# -- plan files -----------------------------------------------------------------------------------------------

PLAN_FILE = """
suite = "records"
engine = ["lmdb", "sqlite:journal_mode=delete+cache_mib=8", { name = "sqlite", page_size = 8192 }]
samples = 4
until = "5%"
within = 90
preset = "standard"
tier = "power"
clients = [1, 2]
phases = ["rand-key", "insert-blind-indices"]
seed = 5
budget = 2
warmup = 0.5
rate = [1000, 2.5e3, "max"]
arrivals = "poisson"
loop = "python"
timeout = 60.5
memory = 0.5
retries = 0

[param]
records = [100, 200]
txn = "all"
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def written(text: str) -> Path:
        file = tmp_path / "plan.toml"
        file.write_text(text)
        return file

    return written


Write = Callable[[str], Path]


def test_plan_file_and_flags_give_same_plan(write: Write) -> None:
    by_flags = RunRequest(
        suite="records",
        engines=["lmdb", "sqlite:journal_mode=delete+cache_mib=8", "sqlite:page_size=8192"],
        params={"records": ["100", "200"], "txn": ["all"]},
        samples=4,
        until="5 %",
        within=90.0,
        preset="standard",
        tier="power",
        clients=["1", "2"],
        phases=["rand-key", "insert-blind-indices"],
        seed=5,
        budget=2.0,
        warmup=0.5,
        rate=["1000", "2500", "max"],
        arrivals="poisson",
        loop="python",
        timeout=60.5,
        memory=1 << 29,
        retries=0,
    )
    assert plan.make(plan_file.read(write(PLAN_FILE))) == plan.make(by_flags)


def test_plan_file_has_key_for_every_planning_flag() -> None:
    from dyno.cli.run import run_command as command

    # These flags don't say what is measured, or have another form in a plan file: addresses are the option `url`.
    where = {"output", "resume", "overwrite", "blocks", "work", "all", "dry-run", "prices", "on", "yes"}
    # These are keys of the table [sql], or no run.
    where |= {"query", "change", "try", "fleet"}
    flags = {max(option.opts, key=len).removeprefix("--") for option in command.params if option.name != "what"}
    assert set(plan_file.KEYS) == flags - where


def overridden(file: Path, *flags: str) -> Plan:
    """Returns the plan of `dyno run FILE` with these flags."""
    from dyno.cli.run import request
    from dyno.cli.run import run_command as command

    given = command.make_context("run", [str(file), *flags]).params
    elsewhere = ("path", "resume", "overwrite", "most", "root")
    given = {name: value for name, value in given.items() if name not in elsewhere}
    return plan.make(request(given.pop("what"), given, given.pop("on")))


def test_limit_flag_overrides_samples_and_rate_of_file(write: Write) -> None:
    file = write('suite = "records"\nengine = ["sqlite"]\nsamples = 3\nbudget = 0.3\nrate = 500\nretries = 2\n')
    run_plan = overridden(file, "--phases", "mixed", "--limit", "p99<5ms")
    assert run_plan.limit == ["p99<5ms"] and run_plan.samples == 1
    assert {cell.params["rate"] for cell in run_plan.cells} == {"max"}


def test_flags_override_a_plan_file(write: Write) -> None:
    more = ["--samples", "2", "--clients", "3", "--phases", "scan", "--seed", "0", "--rate", "7", "--warmup", "0"]
    run_plan = overridden(write(PLAN_FILE), "-e", "leveldb", "-p", "txn=7", *more, "--loop", "auto")
    assert rows(run_plan) == [("leveldb", "power")] * 2
    assert (run_plan.samples, run_plan.seed, run_plan.phases) == (2, 0, ("scan",))
    assert values(run_plan, "records", "txn", "clients", engine="leveldb") == [(100, 7, 3), (200, 7, 3)]
    assert values(run_plan, "rate", engine="leveldb") == [(7.0,), (7.0,)]
    assert (run_plan.warmup, run_plan.loop) == (0.0, "auto")
    assert (run_plan.budget, run_plan.timeout, run_plan.retries) == (2, 60.5, 0), "what no flag says stays"
    assert run_plan.arrivals == "poisson"


def test_duration_flag_replaces_file_budget_and_vice_versa(write: Write) -> None:
    file = write('suite = "records"\nengine = ["memory"]\nbudget = 9\n')
    run_plan = overridden(file, "--duration", "4")
    assert (run_plan.duration, run_plan.budget) == (4.0, SUITE.presets["quick"].budget)
    file = write('suite = "records"\nengine = ["memory"]\nduration = 9\n')
    run_plan = overridden(file, "--budget", "4")
    assert (run_plan.duration, run_plan.budget) == (None, 4.0)
    both = refusal(lambda: overridden(file, "--budget", "4", "--duration", "4"))
    assert both.startswith("budget (the maximum) and duration (fixed) of a phase exclude each other")


WRONG_FILES = {
    "no suite": ("samples = 3", '{file}: suite is missing; add suite = "records"'),
    "not TOML": ("suite = ", "{file} is not TOML: "),
    "unknown key": ('suite = "records"\nsample = 3', "{file}: key sample is not known; did you mean samples?"),
    "string for a number": (
        'suite = "records"\nsamples = "3"',
        "{file}: samples: expected a whole number, got '3'",
    ),
    "fraction for a whole number": (
        'suite = "records"\nsamples = 2.5',
        "{file}: samples: expected a whole number, got 2.5",
    ),
    "yes for a number": (
        'suite = "records"\nseed = true',
        "{file}: seed: expected a whole number, got True",
    ),
    "string for a list": (
        'suite = "records"\nengine = "lmdb"',
        "{file}: engine: expected a list, got 'lmdb'",
    ),
    "list for a table": (
        'suite = "records"\nparam = [1]',
        "{file}: param: expected a table, got [1]",
    ),
    "number for a string": ("suite = 3", "{file}: suite: expected a string, got 3"),
    "date for seconds": (
        'suite = "records"\nbudget = 1979-05-27',
        "{file}: budget: expected a number or a string, got .*",
    ),
    "table for a rate": (
        'suite = "records"\nrate = { a = 1 }',
        "{file}: rate: expected a number or a string or a list, got {'a': 1}",
    ),
    "yes for a rate": (
        'suite = "records"\nrate = true',
        "{file}: rate: expected a number or a string or a list, got True",
    ),
    "no rate": (
        'suite = "records"\nrate = [10, 0]',
        "suite records: parameter rate=0: expected operations per second",
    ),
    "word for a rate": ('suite = "records"\nrate = "abc"', "suite records: parameter rate=abc: expected operations"),
    "number for arrivals": (
        'suite = "records"\narrivals = 5',
        "{file}: arrivals: expected a string, got 5",
    ),
    "arrivals": ('suite = "records"\narrivals = "even"', "arrivals even is not known; "),
    "loop": ('suite = "records"\nloop = "pyton"', "loop pyton is not known; did you mean python?"),
    "rate twice": (
        'suite = "records"\nrate = 5\nparam = { rate = 6 }',
        "rate is given twice: by --rate and by -p rate=",
    ),
    "budget and duration": (
        'suite = "records"\nbudget = 1\nduration = 1',
        "budget (the maximum) and duration (fixed) of a phase exclude each other",
    ),
    "engine that is neither": (
        'suite = "records"\nengine = [{ nam = "lmdb" }]',
        "{file}: engine: expected a name or a table with a name, got {'nam': 'lmdb'}",
    ),
    "engine": ('suite = "records"\nengine = [{ name = "sqlit" }]', "engine sqlit is not known; did you mean sqlite?"),
    "option": (
        'suite = "records"\nengine = [{ name = "sqlite", cache = 1 }]',
        "engine sqlite: option cache is not known; did you mean cache_mib?",
    ),
    "parameter": (
        'suite = "records"\nparam = { valuesize = 3 }',
        "suite records: parameter valuesize is not known; did you mean value_size?",
    ),
    "value": (
        'suite = "records"\nparam = { records = [100, "many"] }',
        "suite records: parameter records=many: expected a whole number from 1 to 1000000000000",
    ),
    "nested value": (
        'suite = "records"\nparam = { records = { a = 1 } }',
        "{file}: param: expected a text or a number, got {'a': 1}",
    ),
}


@pytest.mark.parametrize("name", WRONG_FILES)
def test_invalid_plan_file_is_refused_in_one_line(write: Write, name: str) -> None:
    text, said = WRONG_FILES[name]
    file = write(text)
    message = refusal(lambda: plan.make(plan_file.read(file)))
    literal = re.escape(said.replace("{file}", str(file))).replace(r"\.\*", ".*")
    assert re.match(literal, message), message


def test_missing_or_binary_plan_file_is_refused(tmp_path: Path) -> None:
    missing = tmp_path / "none.toml"
    assert refusal(lambda: plan_file.read(missing)) == f"can't read {missing}: No such file or directory"
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    assert refusal(lambda: plan_file.read(binary)).startswith(f"{binary} is not TOML: ")


# Lines of a plan file with values out of range, and the hint in each message.
OUT_OF_RANGE = {
    "samples = 0": "samples: expected at least 1",
    "samples = -1": "samples: expected at least 1",
    "seed = -1": "seed: expected at least 0",
    "budget = 0": "budget: expected at least 0.01",
    "budget = inf": "budget: expected at least 0.01",
    "budget = nan": "budget: expected at least 0.01",
    "duration = 0": "duration: expected at least 0.01",
    "duration = inf": "duration: expected at least 0.01",
    "warmup = -1": "warmup: expected at least 0",
    "warmup = nan": "warmup: expected at least 0",
    "timeout = -5": "timeout: expected at least 1",
    "memory = 0": "memory: expected at least 50 MiB",
    "retries = -1": "retries: expected at least 0",
    "until = 5\nwithin = 0": "within: expected at least 1",
    "until = 5\nwithin = inf": "within: expected at least 1",
    "until = 0": "until 0: expected a percentage over 0 and up to 100, such as 5%, or decided",
    "until = nan": "until nan: expected a percentage over 0 and up to 100, such as 5%, or decided",
    'until = "narrow"': "until narrow: expected a percentage over 0 and up to 100, such as 5%, or decided",
    "phases = [1]": "suite records: phase 1 is not known; there are: ",
    "param = { records = [] }": "suite records: parameter records has no value",
    "param = { clients = [] }": "suite records: parameter clients has no value",
    "rate = []": "{file}: rate: expected at least one value, got []",
    "clients = []": "{file}: clients: expected at least one value, got []",
    "budget = 1e10": "budget: expected at most 1,000,000,000",
    "timeout = 9223372036854775807": "timeout: expected at most 1,000,000,000",
    "samples = 9223372036854775807": "samples: expected at most 1,000,000",
    "retries = 9223372036854775807": "retries: expected at most 1,000",
    "memory = 1e20": "memory: expected less than 8 EiB",
    "memory = nan": "memory: expected less than 8 EiB",
    "seed = 9223372036854775808": "{file}: seed: expected a number of at most 64 bits, got 9223372036854775808",
    f"seed = 0x{'f' * 6000}": "{file}: seed: expected a number of at most 64 bits, got a value too long to show",
    f"seed = {'9' * 5000}": "{file} is not TOML: ",
    f"param = {{ records = {'[' * 5000}{']' * 5000} }}": "{file}: nested too deeply",
    "param = { records = [1979-05-27] }": "{file}: param: expected a text or a number, got datetime.date",
    f"param = {{ encoder = '{'x' * 60_000}' }}": "{file}: param: expected a text of at most 50,000 characters",
    'param = { records = "9223372036854775808" }': (
        "suite records: parameter records=9223372036854775808: expected a whole number from 1 to 1000000000000"
    ),
    f"clients = {[*range(1, 1001)]}\nrate = {[*range(1, 102)]}": (
        "suite records: 101,000 combinations of parameters: expected at most 100,000"
    ),
    "clients = [1, 2000]": "suite records: parameter clients=2000: expected a whole number from 1 to 1024",
}


@pytest.mark.parametrize("text", OUT_OF_RANGE, ids=lambda text: text[:40])
def test_plan_file_value_out_of_range_is_refused(write: Write, text: str) -> None:
    file = write(f'suite = "records"\nengine = ["memory"]\n{text}\n')
    message = refusal(lambda: plan.make(plan_file.read(file)))
    assert message.startswith(OUT_OF_RANGE[text].replace("{file}", str(file)))


def test_address_is_masked_before_error_truncates_it(write: Write) -> None:
    file = write(f'suite = "records"\nengine = [{{ url = "postgresql://u:{"pw" * 60}@h" }}]\n')
    assert "pwpw" not in refusal(lambda: plan_file.read(file))


def test_run_file_plan_is_plain_json_data() -> None:
    data = make("sqlite:cache_mib=8", samples=2).data()
    assert "cells" not in data
    assert data["phases"] == list(SUITE.presets["quick"].phases)
    counts = {"samples", "seed", "budget", "timeout", "memory", "retries"}
    assert set(data) == {
        "suite",
        "phases",
        *counts,
        "awake",
        "duration",
        "warmup",
        "arrivals",
        "loop",
        "until",
        "within",
        "confine",
    }
    assert json.loads(json.dumps(data)) == data


def test_tiers_have_a_meaning() -> None:
    assert [tier.value for tier in Tier] == ["volatile", "process", "power"]
    assert all(tier.meaning for tier in Tier)


def test_timeout_includes_every_server_start() -> None:
    def timeout(suite: str, engine: str, **others: Any) -> float:
        return plan.make(RunRequest(suite, engines=(engine,), **others)).timeout

    require(registry.engine("cassandra"))
    given = registry.suite("series").presets["quick"].timeout
    one = registry.engine("cassandra").start_seconds({"url": "", "nodes": 1})
    warm, cold = ("insert",), ("insert", "extract-one-cold")
    assert one > 0 and registry.engine("sqlite").start_seconds({}) == 0
    assert timeout("series", "sqlite", phases=cold) == given
    assert timeout("series", "cassandra", phases=warm) == given + one
    assert timeout("series", "cassandra", phases=cold) == given + 2 * one
    assert timeout("series", "cassandra:nodes=3", phases=cold) == given + 6 * one
    assert timeout("series", "cassandra:nodes=3", phases=cold, timeout=5.0) == 5.0


# -- labels ---------------------------------------------------------------------------------------------------


def test_engine_label_works_in_text_and_table() -> None:
    table = {"name": "sqlite", "label": "by table", "cache_mib": 8}
    run_plan = plan.make(RunRequest(suite="records", engines=["wal=sqlite:journal_mode=wal", table, "lmdb"]))
    names = {cell.asked: (cell.label, cell.name) for cell in run_plan.cells if not cell.floor}
    assert names == {
        "sqlite:journal_mode=wal": ("wal", "wal"),
        "sqlite:cache_mib=8": ("by table", "by table"),
        "lmdb": ("lmdb", None),
    }


def test_two_labels_may_name_the_same_engine() -> None:
    cells = [cell for cell in make("a=sqlite", "b=sqlite").cells if not cell.floor]
    assert [(cell.row, cell.asked) for cell in cells] == [("a", "sqlite"), ("b", "sqlite")]


@pytest.mark.parametrize(
    ("engines", "said"),
    [
        (["a=sqlite", "a=lmdb"], "label a is given to two rows"),
        (["sqlite", "sqlite=sqlite"], "label sqlite is given to two rows"),
        (["lmdb=sqlite"], "label lmdb is the name of another engine"),
        (["=sqlite"], "1 to 40 letters"),
        (["a/b=sqlite"], "1 to 40 letters"),
        (["a=nowhere"], "engine nowhere is not known"),
    ],
)
def test_invalid_label_or_labelled_engine_is_refused(engines: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        plan.make(RunRequest(suite="records", engines=engines))
    assert "\n" not in str(raised.value)


ALL_REPORTED = ("volume", "oltp", "cpu", "memory", "commands")


@pytest.mark.parametrize(
    ("suite", "phases", "reason"),
    [
        ("records", ["insert", "update"], "insert, update (txn=all makes each one call; -p txn=1 paces them)"),
        ("series", ["extract-all-hot"], "extract-all-hot (one call does it all)"),
        *((name, [], "an outside tool does the work") for name in ALL_REPORTED),
    ],
)
def test_rate_without_any_effect_is_refused(suite: str, phases: list[str], reason: str) -> None:
    declared = registry.suite(suite)
    chosen = [phase for phase in declared.phases if not phases or {phase.name, phase.alias} & {*phases}]
    params = {setting.name: setting.default for setting in declared.params}
    cells = [Cell(suite, "null", {}, None, {**params, "rate": rate}) for rate in (9, UNPACED)]
    with pytest.raises(UsageError, match=re.escape(reason)) as refused:
        check_rates(chosen, cells)
    assert str(refused.value).endswith("leave it out")
    check_rates(chosen, cells[1:])
