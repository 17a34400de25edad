"""Runs the series suite like a user: every engine that can run here, on files and servers, with the facts of each
phase and the same digest from all engines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
RUNS: Sequence[tuple[Mapping[str, int], Sequence[str]]] = (
    ({}, ("numpy_memory", "sqlite", "duckdb", "parquet", "rocksdb", "chdb", "postgresql", "mariadb", "clickhouse")),
    # VictoriaMetrics can't correct a sample.
    ({"corrected_ppm": 0}, ("victoriametrics", "sqlite")),
    # The read-ahead at opening covers most of a small file and leaves little to read cold, or the files are longer
    # than their content.
    ({"variables": 400}, ("questdb",)),
    ({"variables": 600}, ("lmdb",)),
    ({"variables": 1_000}, ("influxdb",)),
)
"""Parameters that differ from FEW, and the engines to run with them."""


def flags(*words: object, **given: int) -> list[str]:
    params = {**used("series", words, FEW), **given}
    return [word for name, value in params.items() for word in ("-p", f"{name}={value}")]


Samples = dict[str, dict[str, Any]]
"""The samples of a trial by phase."""


def run(shell: Shell, engines: str, *words: object, **given: int) -> dict[str, Samples]:
    """Runs engines, of which each cell is valid."""
    params = flags(*words, **given)
    command = ("run", "series", "-e", engines, *params, "--samples", 1, "-o", shell.file, "--overwrite", *words)
    ended = shell.dyno(*command)
    assert ended.status == 0, ended.out + ended.err
    assert shell.invalid() == []
    return shell.samples()


@pytest.fixture(scope="module")
def trials(shared_shell: Shell) -> list[dict[str, Samples]]:
    """The trials of each of RUNS, of the engines that are available here."""
    return [run(shared_shell, ",".join(available("series", engines)), **given) for given, engines in RUNS]


@pytest.mark.parametrize(
    ("number", "engine"), [(number, engine) for number, (_, engines) in enumerate(RUNS) for engine in engines]
)
def test_all_phases_are_valid_and_cold_phases_cold(
    number: int, engine: str, trials: list[dict[str, Samples]]
) -> None:
    require(registry.engine(engine).reduce_to_port("series"))
    phases = trials[number][engine]
    count = RUNS[number][0].get("variables", VARIABLES) * PER_HALF_HOUR
    in_memory = registry.engine(engine).in_memory
    assert "live" not in PHASES
    assert list(phases) == [name for name in PHASES if not (in_memory and name.endswith("-cold"))]
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
def test_all_engines_have_the_same_digest(trials: list[dict[str, Samples]]) -> None:
    for by_engine in trials:
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
