"""Runs the suite oltp like a user: both servers, every phase, the tools' figures, and errors for missing tools."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from needed import require
from shell import Shell
from teed import printed_figures, tee_tools

from dyno import registry
from dyno.engines.postgresql.server import places

pytestmark = pytest.mark.usefixtures("processes")

SUITE = registry.suite("oltp")
ENGINES = ("postgresql", "mariadb")
PGBENCH = {"select-only", "tpcb-like"}
TOOLS = {"sysbench", "pgbench"}


class Measured(NamedTuple):
    samples: dict[str, dict[str, Any]]
    """By phase."""
    output: Path
    """The output of the tools."""


@pytest.fixture(scope="module")
def measured(shared_shell: Shell) -> Callable[[str], Measured]:
    """Returns the run of an engine, which several tests read."""
    output = tee_tools(shared_shell, shared_shell.home / "tools", "sysbench", "pgbench")

    @cache
    def measure(engine: str) -> Measured:
        require(registry.engine(engine).reduce_to_port("transactions"))
        words = ("-p", "table_size=2000", "--clients", 2, "--samples", 1, "--budget", 1)
        output.unlink(missing_ok=True)
        ended = shared_shell.dyno("run", "oltp", "-e", engine, *words, "-o", shared_shell.file, "--overwrite")
        assert ended.status == 0, ended.out + ended.err
        (line,) = shared_shell.attempts(engine)
        kept = output.rename(output.with_name(engine))
        return Measured({sample["phase"]: sample for sample in line["samples"]}, kept)

    return measure


@pytest.mark.parametrize("engine", ENGINES)
def test_every_phase_is_reported_and_checked(engine: str, measured: Callable[[str], Measured]) -> None:
    samples = measured(engine).samples
    assert samples.keys() == {phase.name for phase in SUITE.phases} - (PGBENCH if engine == "mariadb" else set())
    for name, sample in samples.items():
        assert sample["void"] is None and sample["items"] > 0 and sample["clients"] == 2, sample
        assert sample["reported_by"].split()[0] == ("pgbench" if name in PGBENCH else "sysbench")
        assert sample["checked"] > 0
        if name not in PGBENCH:
            assert sample["facts"]["reconnects"] == 0
            assert sample["facts"]["latency_p95_ns"] > 0 and sample["histogram"] is not None
        if name.endswith("-cold"):
            assert sample["temperature"] in ("cold", "lukewarm") and sample["residency"] is not None


def test_aborted_transactions_are_counted_as_errors(shell: Shell) -> None:
    require(registry.engine("postgresql").reduce_to_port("transactions"))
    ended = shell.dyno(
        *("run", "oltp", "-e", "postgresql:set.default_transaction_isolation=serializable", "-p", "table_size=100"),
        *("--phases", "write-only,tpcb-like", "--clients", 2, "--samples", 1, "--budget", 1, "-o", shell.file),
    )
    assert ended.status == 0, ended.out + ended.err
    (line,) = shell.attempts("postgresql")
    assert [sample["void"] for sample in line["samples"]] == [None, None]
    (bank,) = [sample for sample in line["samples"] if sample["phase"] == "tpcb-like"]
    assert bank["errors"] > 0 and bank["operations"] == bank["items"] + bank["errors"]
    assert "serialization failure" in bank["first_error"]
    assert (
        f"{bank['errors']:,} of {bank['operations']:,} operations failed"
        in shell.dyno("show", shell.file, "--failures").out
    )


def test_figures_are_those_that_the_tools_print(measured: Callable[[str], Measured]) -> None:
    """Compares the last run of each tool: a hot phase has an untimed run before it."""
    samples, output = measured("postgresql")
    *_, by_sysbench = (sample for name, sample in samples.items() if name not in PGBENCH)
    *_, by_pgbench = (sample for name, sample in samples.items() if name in PGBENCH)
    *_, printed_by_sysbench = printed_figures(output, r"transactions:\s+\d+\s+\(([\d.]+) per sec")
    *_, printed_by_pgbench = printed_figures(output, r"tps = ([\d.]+)")
    assert by_sysbench["items"] / by_sysbench["elapsed_ns"] * 1e9 == pytest.approx(printed_by_sysbench, rel=0.05)
    assert by_pgbench["items"] / by_pgbench["elapsed_ns"] * 1e9 == pytest.approx(printed_by_pgbench, rel=0.001)
    *_, errors = printed_figures(output, r"ignored errors:\s+(\d+)")
    assert by_sysbench["errors"] == errors


def without(tmp_path: Path, tool: str) -> str:
    """Creates a PATH with every program except this tool."""
    for place in [*os.environ["PATH"].split(os.pathsep), "/usr/sbin"]:
        for path in Path(place).iterdir() if Path(place).is_dir() else ():
            if path.name not in TOOLS and not (tmp_path / path.name).exists():
                (tmp_path / path.name).symlink_to(path)
    for name in TOOLS - {tool}:
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    return str(tmp_path)


@pytest.mark.parametrize("engine", ENGINES)
def test_missing_sysbench_names_the_install_command(engine: str, shell: Shell, tmp_path: Path) -> None:
    require(registry.engine(engine))
    bin = tmp_path / "bin"
    bin.mkdir()
    shell.given["PATH"] = without(bin, "sysbench")
    ended = shell.run_here("run", "oltp", "-e", engine)
    assert ended.status == 2
    assert ended.err.splitlines()[-1:] == [f"dyno: engine {engine} needs sysbench: dyno install sysbench"]


def test_missing_pgbench_names_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian installs pgbench beside the server's programs, so changing PATH does not hide it."""
    require(registry.engine("postgresql"))
    spec = registry.engine("postgresql").reduce_to_port("transactions")
    assert places(), "where it would be"
    monkeypatch.setattr("dyno.engines.postgresql.program", lambda *names, places: None)
    assert spec.explain_unavailability() == "needs pgbench: apt-get install -y postgresql"


def test_run_without_engine_lists_the_servers(shell: Shell) -> None:
    for engine in ENGINES:
        require(registry.engine(engine).reduce_to_port("transactions"))
    ended = shell.run_here("run", "oltp")
    assert ended.status == 2
    assert ended.err.splitlines()[-1].startswith("dyno: suite oltp: its engines run only if named: -e ")
