"""Runs the compute suite like a user: right answers at every size, unsupported operations, curves that end at the
memory limit, Dask clusters of Dyno and of the user, and a killed cluster worker.
"""

from __future__ import annotations

import json
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from needed import require
from shell import Shell, is_one_line, wait_for

from dyno import registry
from dyno.engines.compute.engine_dask import Cluster
from dyno.suites.compute.port import OPERATIONS

pytestmark = pytest.mark.usefixtures("processes")

LIBRARIES = ("python", "numpy", "pandas", "polars", "pyarrow", "numexpr", "numba", "sqlite", "duckdb")
SMALL = ("-p", "repeats=5", "--budget", 0.2, "--samples", 1)


def need(*engines: str) -> None:
    for engine in engines:
        require(registry.engine(engine).reduce_to_port("compute"))


def test_libraries_are_valid_and_report_unsupported_operations(shell: Shell) -> None:
    need(*LIBRARIES)
    words = ("-e", ",".join(LIBRARIES), "-p", "size=200", "-p", "dtype=float64", *SMALL)
    ended = shell.dyno("run", "compute", *words, "-o", shell.file)
    assert ended.status == 0, ended.out + ended.err
    cells = shell.shown()["cells"]
    assert all(cell["valid"] for cell in cells), [cell["why"] for cell in cells if not cell["valid"]]
    for engine in LIBRARIES:
        gaps = {gap.check for gap in registry.engine(engine).reduce_to_port("compute").gaps}
        phases = [cell["phase"] for cell in cells if cell["engine"] == engine]
        assert phases == [name for name in ("first-result", *OPERATIONS) if name not in gaps]
    assert "Dyno's own process has imported NumPy before" in ended.out
    assert "SQLite has no aggregate for a correlation" in ended.out
    for line in shell.attempts("polars"):
        assert all(sample["facts"]["threads"] >= 1 for sample in line["samples"])
        (first,) = (sample for sample in line["samples"] if sample["phase"] == "first-result")
        assert set(first["by_part"]) == {"open", "load", "compute"} and first["checked"] > 0


def test_out_of_memory_ends_curve_and_run_continues(shell: Shell) -> None:
    sizes = "size=1_000,200_000_000"
    words = ("-e", "numpy", "-p", sizes, "--phases", "sum", "--memory", 0.5, "--retries", 0, "--samples", 1)
    ended = shell.dyno("run", "compute", *words, "-o", shell.file)
    assert ended.status == 1, ended.out + ended.err
    attempts = {line["cell"]: line["outcome"] for line in shell.attempts("numpy")}
    assert sorted(attempts.values()) == ["ok", "out-of-memory"]
    shown = shell.dyno("plot", shell.file, "--chart", "sweep:size", "-o", shell.home / "sweep.svg")
    assert shown.status == 0, shown.err
    # A single value is no sweep, so a second engine completes several sizes.
    words = ("-e", "numpy", "-p", f"{sizes},5_000", *words[4:])
    ended = shell.dyno("run", "compute", *words, "-o", shell.file, "--overwrite")
    assert "numpy stops at size = 5,000: at 200,000,000 out-of-memory" in ended.out
    assert "p50 of the latency by size" in ended.out
    shown = shell.dyno("plot", shell.file, "--chart", "sweep:size", "-o", shell.home / "sweep.svg")
    assert shown.status == 0, shown.err
    assert shell.left() == [] and shell.strays() == []


def test_killed_dask_worker_is_reported_and_trial_retried(shell: Shell) -> None:
    need("dask")
    from distributed import Client

    # The phase ends by its number of operations, not by time.
    phase = ("-p", "size=100", "-p", "repeats=80", "--phases", "avg", "--budget", 200)
    words = ("-e", "dask:workers=2", *phase, "--samples", 1)
    with shell.started("run", "compute", *words, "-o", shell.file) as running:
        assert wait_for(lambda: scheduler(shell.work))
        with closing(Client(scheduler(shell.work), set_as_default=False)) as client:
            # Conformance checks cause fewer state changes, so the phase has begun.
            assert wait_for(lambda: changes(client) > 700)
        victim, _ = workers(shell)
        victim.kill()
        assert running.wait(200) == 0, running.communicate()
    is_told_and_tried_again(shell, "dask")


def is_told_and_tried_again(shell: Shell, engine: str) -> None:
    first, second = shell.attempts(engine)
    assert (first["outcome"], second["outcome"]) == ("error", "ok")
    assert "its server ended in the middle of the phase" in first["why"]
    assert shell.left() == [] and shell.strays() == []


def scheduler(work: Path) -> str:
    """The scheduler's address from its file; None until it is written."""
    for path in work.rglob("scheduler.json"):
        with suppress(ValueError):
            return str(json.loads(path.read_text())["address"])
    return ""


def changes(client: Any) -> int:
    """Number of state changes of tasks in the scheduler: about twenty for an average."""
    return int(client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.transition_counter))


def workers(shell: Shell) -> list[psutil.Process]:
    processes = [psutil.Process(pid) for pid in shell.alive()]
    return [each for each in processes if each.cmdline()[1:4] == ["-m", "dask", "worker"]]


@pytest.fixture
def cluster(tmp_path: Path) -> Any:
    need("dask")
    cluster = Cluster(tmp_path / "cluster", 1, 1)
    cluster.start()
    yield cluster.launch()
    cluster.close()


def test_engines_run_on_the_users_own_cluster(shell: Shell, cluster: str) -> None:
    words = ("-p", "size=100", "--phases", "avg,sin", *SMALL)
    ended = shell.dyno("run", "compute", "--on", cluster, *words, "-o", shell.file)
    assert ended.status == 0, ended.out + ended.err
    (attempt,) = shell.attempts("dask")
    assert [sample["phase"] for sample in attempt["samples"]] == ["avg", "sin"]
    assert all(sample["server"] is None for sample in attempt["samples"]), "it is not accounted for"
    assert "declared" in {caveat["code"] for caveat in attempt["caveats"]}
    assert {line["cell"] for line in shell.attempts()} == {0, 1}, "and the null engine"
    again = shell.dyno("run", "compute", "-e", "dask", "--on", cluster, *words, "-o", shell.file, "--overwrite")
    assert again.status == 0, again.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--on", "http://here:1"), "no engine takes http://here:1"),
        (("-e", "numpy", "--on", "tcp://here:1"), "engine numpy can't run on a server of yours"),
        (("-e", "dask", "--on", "spark://here:1"), "begins with tcp:// or tls://"),
    ],
)
def test_unsupported_cluster_address_is_a_one_line_error(shell: Shell, words: tuple[str, ...], said: str) -> None:
    need("dask")
    ended = shell.run_here("run", "compute", *words, "-o", shell.file)
    assert ended.status == 2 and is_one_line(ended.err) and said in ended.err
    assert not shell.file.exists()


@pytest.mark.soak
def test_spark_cpu_time_is_counted_as_server(shell: Shell) -> None:
    need("spark")
    words = ("-e", "spark:threads=1", "-p", "size=100", "--phases", "first-result,avg", *SMALL)
    ended = shell.dyno("run", "compute", *words, "-o", shell.file)
    assert ended.status == 0, ended.out + ended.err
    (attempt,) = shell.attempts("spark")
    assert [sample["facts"]["threads"] for sample in attempt["samples"]] == [1, 1]
    assert attempt["samples"][1]["server"]["user_ns"] > 0
    assert shell.left() == [] and shell.strays() == []


@pytest.mark.soak
def test_killed_spark_is_reported_and_trial_retried(shell: Shell) -> None:
    need("spark")
    # Each average of two partitions writes shuffle files, whose number shows the progress.
    phase = ("-p", "size=100", "-p", "repeats=1_000", "--phases", "avg", "--budget", 200)
    words = ("-e", "spark:threads=2", *phase, "--samples", 1)
    with shell.started("run", "compute", *words, "-o", shell.file) as running:
        assert wait_for(lambda: len({path.name for path in shell.work.rglob("shuffle_*.data")}) > 100, 120)
        (victim,) = (psutil.Process(pid) for pid in shell.alive() if psutil.Process(pid).name() == "java")
        victim.kill()
        assert running.wait(300) == 0, running.communicate()
    is_told_and_tried_again(shell, "spark")
