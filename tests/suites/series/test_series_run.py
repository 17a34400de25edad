"""Runs the series suite like a user: every engine that can run here, on files and servers, with the facts of each
phase and the same digest from all engines.
"""

from __future__ import annotations

from typing import Any

import pytest
from needed import require, used
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
ENGINES = (
    *("numpy_memory", "sqlite", "duckdb", "parquet", "lmdb", "rocksdb", "chdb", "postgresql", "mariadb"),
    *("influxdb", "questdb", "clickhouse"),
)
MORE = {"duckdb": 2_000, "lmdb": 600, "influxdb": 1_000, "questdb": 400}
"""Variables for engines that need more of them: the read-ahead at opening covers most of a small file and leaves
little to read cold, or the files are longer than their content.
"""
DIGESTS: dict[int, object] = {}


def flags(*words: object, **given: int) -> list[str]:
    params = {**used("series", words, FEW), **given}
    return [word for name, value in params.items() for word in ("-p", f"{name}={value}")]


def run(shell: Shell, engine: str, *words: object, **given: int) -> dict[str, dict[str, Any]]:
    require(registry.engine(engine).reduce_to_port("series"))
    ended = shell.dyno(
        "run",
        "series",
        "-e",
        engine,
        *flags(*words, **given),
        "--samples",
        1,
        "-o",
        shell.file,
        "--overwrite",
        *words,
    )
    assert ended.status == 0, ended.out + ended.err
    cells = shell.cells()
    assert all(cell["valid"] for cell in cells.values()), {key: cell["why"] for key, cell in cells.items()}
    return {
        sample["phase"]: sample for line in shell.attempts(engine) for sample in line["samples"] if not sample["void"]
    }


@pytest.mark.claim("All engines return the same samples, in whatever order they arrive")
@pytest.mark.parametrize("engine", ENGINES)
def test_all_phases_are_valid_and_cold_phases_cold(engine: str, shell: Shell) -> None:
    variables = MORE.get(engine, VARIABLES)
    phases, count = run(shell, engine, variables=variables), variables * PER_HALF_HOUR
    in_memory = registry.engine(engine).in_memory
    assert list(phases) == [name for name in PHASES if not (in_memory and name.endswith("-cold"))]
    for name, sample in phases.items():
        assert sample["checked"] > 0, name
        if name.endswith("-cold"):
            assert sample["residency"]["resident_bytes"] <= 0.01 * sample["residency"]["file_bytes"], name
            assert sample["operations"] == 1
    assert phases["insert"]["items"] == count
    if not in_memory:
        assert phases["extract-all-cold"]["temperature"] == "cold"
        facts = phases["insert"]["facts"]
        assert 0 < facts["bytes_per_sample"] < 2_000
    assert phases["extract-all-hot"]["items"] == count and phases["extract-all-hot"]["bulk"]
    assert phases["extract-one-hot"]["items"] == 2 * PER_HALF_HOUR
    assert set(phases["visible"]["by_part"]) == {"acknowledged", "readable"}
    # All engines give the same digest.
    digests = phases["insert"]["facts"]["digest"], phases["visible"]["facts"]["digest"]
    assert DIGESTS.setdefault(variables, digests) == digests


def test_cassandra_node_matches_digest_of_other_engines(shell: Shell) -> None:
    """Only hot phases: the server starts slowly, and each cold phase would start it again."""
    names = ["insert", "extract-one-hot", "extract-all-hot", "latest-hot"]
    results = [run(shell, each, "--phases", ",".join(names), variables=20) for each in ("cassandra", "sqlite")]
    assert list(results[0]) == list(results[1]) == names
    # Compare the facts after all insertions.
    for name in names[1:]:
        assert results[0][name]["facts"]["digest"] == results[1][name]["facts"]["digest"]
    assert 0 < results[0]["insert"]["facts"]["bytes_per_sample"] < 2_000


def test_engines_share_a_digest_without_corrections(shell: Shell) -> None:
    results = [run(shell, engine, corrected_ppm=0) for engine in ("victoriametrics", "sqlite")]
    assert list(results[0]) == list(results[1]) == PHASES
    assert results[0]["visible"]["facts"]["digest"] == results[1]["visible"]["facts"]["digest"]
    assert results[0]["extract-all-cold"]["temperature"] == "cold"


def test_a_single_phase_loads_its_archive(shell: Shell) -> None:
    phases = run(shell, "sqlite", "--phases", "latest-cold,visible")
    assert list(phases) == ["latest-cold", "visible"]


def test_samples_cut_by_budget_are_loaded_afterwards(shell: Shell) -> None:
    phases = run(shell, "sqlite", "--phases", "insert,extract-all-hot", "--budget", "0.02", batch=300)
    assert phases["insert"]["ended_by"] == "budget" and 0 < phases["insert"]["items"] < SAMPLES
    assert phases["extract-all-hot"]["facts"]["samples"] == SAMPLES


def test_two_clients_are_refused(shell: Shell) -> None:
    ended = shell.run_here("run", "series", "-e", "sqlite", "--clients", 2, *flags())
    assert ended.status == 2 and "client" in ended.err
