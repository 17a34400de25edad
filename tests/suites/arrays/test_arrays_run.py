"""Runs the arrays suite like a user: every engine that can run here, on files and servers, with the facts of each
phase; and an engine with slightly wrong answers, whose cells are void.
"""

from __future__ import annotations

from typing import Any

import pytest
from needed import available, require, unavailable, used
from shell import TESTS, Shell

from dyno import registry
from dyno.host import confine
from dyno.suites.arrays.dataset import ROW_BYTES

pytestmark = pytest.mark.usefixtures("processes")

SUITE = registry.suite("arrays")
ROWS, MORE_ROWS = 30_000, 200_000
"""Enough rows that opening a file doesn't read all of it ahead. Engines with several columns per block need more
rows.
"""

WRITE = ("--phases", "write")


def few(*words: object, rows: int = ROWS) -> list[str]:
    """Flags of a small table, for the parameters that the phases in `words` use."""
    given = used("arrays", words, {"rows": rows, "slices": 4, "slice_rows": 50, "updates": 3, "repeats": 2})
    return [word for name, value in given.items() for word in ("-p", f"{name}={value}")]


PHASES = [phase.name for phase in SUITE.phases]
ENGINES = {
    ROWS: (
        *("numpy_memory", "numpy_memmap", "sqlite", "hdf5", "zarr", "parquet", "tiledb", "chdb", "wendelin"),
        *("postgresql", "mariadb"),
    ),
    MORE_ROWS: ("duckdb",),
}
"""The engines to run, by the number of rows."""


def moved(rows: int) -> dict[str, int]:
    """Bytes per unit of a phase: a row, a sum, a slice."""
    sums = ("read-sum-cold", "read-sum-pandas-cold", "read-sum-hot", "read-sum-pandas-hot")
    whole = {**dict.fromkeys(sums, rows * 8), "read-column-stats": rows * 24}
    return {"write": ROW_BYTES, "append": ROW_BYTES, "read-slice": 50 * ROW_BYTES, "update-slice": 50 * 16, **whole}


def need(engine: str) -> None:
    require(registry.engine(engine).reduce_to_port("arrays"))


Samples = dict[str, dict[str, Any]]
"""The samples of an engine by phase."""


def run(shell: Shell, engines: str, *words: object, rows: int = ROWS) -> dict[str, Samples]:
    """Returns the samples of each engine."""
    params = few(*words, rows=rows)
    command = ("run", "arrays", "-e", engines, *params, "--samples", 1, "-o", shell.file, "--overwrite", *words)
    ended = shell.dyno(*command)
    assert ended.status == 0, ended.out + ended.err
    assert shell.invalid() == []
    return shell.samples()


@pytest.fixture(scope="module")
def samples_by_engine(shared_shell: Shell) -> dict[str, Samples]:
    """The samples of all engines that are available here."""
    samples = {}
    for rows, engines in ENGINES.items():
        samples.update(run(shared_shell, ",".join(available("arrays", engines)), rows=rows))
    return samples


@pytest.mark.parametrize(("engine", "rows"), [(engine, rows) for rows in ENGINES for engine in ENGINES[rows]])
def test_all_phases_are_valid_and_cold_phases_cold(
    engine: str, rows: int, samples_by_engine: dict[str, Samples]
) -> None:
    need(engine)
    spec = registry.engine(engine)
    samples = samples_by_engine[engine]
    wanted = [name for name in PHASES if not (spec.in_memory and name.endswith("-cold"))]
    gaps = {gap.check for gap in spec.gaps}
    assert list(samples) == [name for name in wanted if name != "update-slice" or "updates" not in gaps]
    for name, sample in samples.items():
        assert sample["void"] is None and sample["checked"] > 0, name
        if name.endswith("-cold"):
            assert (sample["temperature"], sample["operations"]) == ("cold", 1)
        assert sample["bytes"] == sample["items"] * moved(rows)[name], name
    assert samples["write"]["items"] == rows and samples["append"]["items"] == rows // 100
    assert samples["append"]["facts"] == {"array_bytes": (rows + rows // 100) * ROW_BYTES}
    if not spec.in_memory:
        # Random numbers don't compress to a quarter of their size.
        assert samples["write"]["bytes_on_disk"] > rows * ROW_BYTES / 4


def test_server_start_does_not_warm_cold_phases(shell: Shell) -> None:
    need("wendelin")
    engine, phases = "wendelin:blocks=ZBlk1+storage=zeo", ["write", "read-sum-cold", "read-sum-pandas-cold"]
    samples = run(shell, engine, "--phases", ",".join(phases))[engine]
    assert list(samples) == phases
    assert {samples[phase]["temperature"] for phase in phases[1:]} == {"cold"}


@pytest.mark.parametrize(("engine", "limit_mib"), [("numpy_memmap", 160), ("wendelin:pages_mib=32", 256)])
def test_array_larger_than_memory_limit_is_summed(engine: str, limit_mib: int, shell: Shell) -> None:
    need(engine.partition(":")[0])
    limit_bytes = limit_mib << 20
    try:
        with confine.create_group(limit_bytes, shell.home / "tried.group"):
            pass
    except confine.CannotConfine as why:
        unavailable(str(why))
    rows = limit_bytes * 3 // 2 // ROW_BYTES + 1
    words = ("--phases", "write,read-sum-cold", "--confine", f"{limit_bytes / 2**30:g}")
    samples = run(shell, engine, *words, rows=rows)[engine]
    assert list(samples) == ["write", "read-sum-cold"]
    (line,) = shell.attempts(engine.partition(":")[0])
    assert samples["read-sum-cold"]["temperature"] == "cold"
    # By then, the rows that exceeded the first phase's budget are inserted too.
    assert samples["read-sum-cold"]["facts"]["array_bytes"] > 1.5 * limit_bytes
    assert 0 < line["resources"]["peak_anonymous_bytes"] < limit_bytes


def test_appends_are_limited_to_rows_left_to_append(shell: Shell) -> None:
    need("parquet")
    # The number of appends is at most the number of rows left to append.
    samples = run(shell, "parquet", "--phases", "write,append", "-p", "appends=1000")["parquet"]
    assert samples["append"]["operations"] == samples["append"]["items"] == ROWS // 100


def test_single_phases_without_write_find_table_loaded(shell: Shell) -> None:
    need("numpy_memmap")
    phases = ["read-sum-cold", "read-sum-hot", "append"]
    # The second trial begins with a copy of the first one's table.
    words = ("--phases", ",".join(phases), "--samples", 2, "-p", "column=explanation_uid")
    assert list(run(shell, "numpy_memmap", *words)["numpy_memmap"]) == phases


def test_slightly_wrong_sum_voids_the_cell(shell: Shell) -> None:
    need("numpy_memory")
    shell.plugins = [TESTS / "plugins" / "lossy"]
    wrong_sums = {"lossy:how=half": "the sum of quantity", "lossy:how=one": "the sum of node_uid"}
    engines = ",".join(wrong_sums)
    ended = shell.dyno("run", "arrays", "-e", engines, *few(*WRITE), "--samples", 1, "-o", shell.file, *WRITE)
    # Only the null engine was measured.
    assert ended.status == 3, ended.out + ended.err
    cells = {name: cell for (name, _), cell in shell.cells().items()}
    for engine, reason in wrong_sums.items():
        assert not cells[engine]["valid"] and reason in cells[engine]["why"]


def test_two_clients_are_refused(shell: Shell) -> None:
    need("numpy_memory")
    ended = shell.run_here("run", "arrays", "-e", "numpy_memory", "--clients", 2, *few())
    assert ended.status == 2 and "client" in ended.err
