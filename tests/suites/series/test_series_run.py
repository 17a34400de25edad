"""Runs the series suite like a user: every engine that can run here, on files and servers, with the facts of each
phase and the same digest from all engines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from needed import available, require, used
from shell import Shell

from dyno import registry

pytestmark = pytest.mark.usefixtures("processes")

SUITE = registry.suite("series")
VARIABLES, PER_HALF_HOUR = 100, 300
SAMPLES = VARIABLES * PER_HALF_HOUR
FEW = {
    "variables": VARIABLES,
    "per_half_hour": PER_HALF_HOUR,
    "batch": 2_000,
    "late_ppm": 10_000,
    "resent_ppm": 10_000,
    "corrected_ppm": 5_000,
    "reads": 2,
    "watched": 3,
}
PHASES = [phase.name for phase in SUITE.phases if phase.by_default]
WITH_RESTARTS = ("insert", "extract-one-hot", "extract-all-cold", "extract-all-hot", "latest-hot", "visible")
"""Phases of servers that start slowly: each cold phase starts them again."""


class Table(NamedTuple):
    """Parameters that differ from FEW, and the engines and phases to run with them."""

    engines: Sequence[str]
    given: Mapping[str, int] = MappingProxyType({})
    phases: Sequence[str] = PHASES


TABLES = (
    Table(("numpy_memory", "sqlite", "duckdb", "parquet", "rocksdb", "chdb", "postgresql", "mariadb", "clickhouse")),
    # VictoriaMetrics can't correct a sample.
    Table(("victoriametrics", "sqlite"), {"corrected_ppm": 0}),
    # The read-ahead at opening covers most of a small file and leaves little to read cold, or the files are longer
    # than their content.
    Table(("questdb",), {"variables": 400}, WITH_RESTARTS),
    Table(("lmdb",), {"variables": 600}),
    Table(("influxdb",), {"variables": 1_000}, WITH_RESTARTS),
)


def flags(*words: object, **given: int) -> list[str]:
    params = {**used("series", words, FEW), **given}
    return [word for name, value in params.items() for word in ("-p", f"{name}={value}")]


Samples = dict[str, dict[str, Any]]
"""The samples of a trial by phase."""


def run(shell: Shell, engines: str, *words: object, **given: int) -> dict[str, Samples]:
    """Runs engines, of which each cell is valid."""
    params = (*flags(*words, **given), "--samples", 1, "--timeout", 300)
    ended = shell.dyno("run", "series", "-e", engines, *params, "-o", shell.file, "--overwrite", *words)
    assert ended.status == 0, ended.out + ended.err
    assert shell.invalid() == []
    return shell.samples()


@pytest.fixture(scope="module")
def measure(shared_shell: Shell) -> Callable[[int], dict[str, Samples]]:
    """Returns a function that runs the available engines of one of TABLES, once for all tests."""

    @cache
    def measure(number: int) -> dict[str, Samples]:
        engines, given, phases = TABLES[number]
        words = () if phases is PHASES else ("--phases", ",".join(phases))
        return run(shared_shell, ",".join(available("series", engines)), *words, **given)

    return measure


@pytest.mark.parametrize(
    ("number", "engine"), [(number, engine) for number, table in enumerate(TABLES) for engine in table.engines]
)
def test_all_phases_are_valid_and_cold_phases_cold(
    number: int, engine: str, measure: Callable[[int], dict[str, Samples]]
) -> None:
    require(registry.engine(engine).reduce_to_port("series"))
    table, phases = TABLES[number], measure(number)[engine]
    count = table.given.get("variables", VARIABLES) * PER_HALF_HOUR
    in_memory = registry.engine(engine).in_memory
    assert "live" not in table.phases
    assert list(phases) == [name for name in table.phases if not (in_memory and name.endswith("-cold"))]
    # DuckDB's file is too small here to be cold; the tests of the suite arrays have a larger one.
    is_cold = not in_memory and engine != "duckdb"
    for name, sample in phases.items():
        assert sample["checked"] > 0, name
        if name.endswith("-cold"):
            assert sample["operations"] == 1
            residency = sample["residency"]
            assert not is_cold or residency["resident_bytes"] <= 0.01 * residency["file_bytes"], name
    assert phases["insert"]["items"] == count
    if is_cold:
        assert phases["extract-all-cold"]["temperature"] == "cold"
    if not in_memory:
        assert 0 < phases["insert"]["facts"]["bytes_per_sample"] < 2_000
    assert phases["extract-all-hot"]["items"] == count and phases["extract-all-hot"]["bulk"]
    assert phases["extract-one-hot"]["items"] == 2 * PER_HALF_HOUR
    assert set(phases["visible"]["by_part"]) == {"acknowledged", "readable"}


@pytest.mark.claim("All engines return the same samples, in whatever order they arrive")
def test_all_engines_have_the_same_digest(measure: Callable[[int], dict[str, Samples]]) -> None:
    for by_engine in map(measure, range(len(TABLES))):
        digests = {
            (phases["insert"]["facts"]["digest"], phases["visible"]["facts"]["digest"])
            for engine, phases in by_engine.items()
            if engine != "null"
        }
        assert len(digests) == 1, by_engine.keys()


@pytest.mark.nightly
def test_cassandra_node_matches_digest_of_other_engines(shell: Shell) -> None:
    """Only hot phases: the server starts slowly, and each cold phase would start it again. `test_archive_servers.py`
    runs these phases on a node that its tests share.
    """
    require(registry.engine("cassandra").reduce_to_port("series"))
    names = ["insert", "extract-one-hot", "extract-all-hot", "latest-hot"]
    trials = run(shell, "cassandra,sqlite", "--phases", ",".join(names), variables=20)
    assert list(trials["cassandra"]) == list(trials["sqlite"]) == names
    # Compare the facts after all insertions.
    for name in names[1:]:
        assert trials["cassandra"][name]["facts"]["digest"] == trials["sqlite"][name]["facts"]["digest"]
    assert 0 < trials["cassandra"]["insert"]["facts"]["bytes_per_sample"] < 2_000


def test_a_single_phase_loads_its_archive(shell: Shell) -> None:
    phases = run(shell, "sqlite", "--phases", "latest-cold,visible")["sqlite"]
    assert list(phases) == ["latest-cold", "visible"]


def test_samples_cut_by_budget_are_loaded_afterwards(shell: Shell) -> None:
    phases = run(shell, "sqlite", "--phases", "insert,extract-all-hot", "--budget", "0.02", batch=300)["sqlite"]
    assert phases["insert"]["ended_by"] == "budget" and 0 < phases["insert"]["items"] < SAMPLES
    assert phases["extract-all-hot"]["facts"]["samples"] == SAMPLES


def test_two_clients_are_refused(shell: Shell) -> None:
    ended = shell.run_here("run", "series", "-e", "sqlite", "--clients", 2, *flags())
    assert ended.status == 2 and "client" in ended.err
