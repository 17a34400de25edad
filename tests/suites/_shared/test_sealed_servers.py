"""The loaded data of a server that Dyno starts are sealed: only the first trial of a cell loads them. Later trials,
and phases after a phase that wrote, begin with a copy of the server's data directory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from needed import require
from shell import TESTS, Shell

from dyno import registry
from dyno.contracts.model import Tier
from dyno.contracts.pace import Pace
from dyno.contracts.suite import Job
from dyno.host import filesystem
from dyno.measure.phase import Stopwatch, measure_phase
from dyno.suites._shared import store

pytestmark = pytest.mark.usefixtures("processes")

SMALL: dict[str, dict[str, object]] = {
    "records": {"records": 300},
    "arrays": {"rows": 20_000, "slices": 10},
    "series": {"variables": 11, "per_half_hour": 100, "batch": 1_000},
}
CASES = [
    ("postgresql", "arrays", "read-sum-hot", "append"),
    ("mariadb", "series", "extract-all-hot", "visible"),
    ("redis", "records", "rand-key", "delete"),
    ("clickhouse", "series", "extract-all-hot", "visible"),
]
"""Engine, suite, a phase that reads the loaded store, and one that changes it."""


class Trial:
    """A trial in this process, which counts its loads."""

    def __init__(self, job: Job, suite: Any) -> None:
        self.job, self.loads = job, 0
        self._phases = {phase.name: phase for phase in suite.phases}
        self.workload = suite.workload(job)
        load = self.workload.load

        def counted(fill: Callable[[], None]) -> None:
            def filled() -> None:
                self.loads += 1
                fill()

            load(filled)

        self.workload.load = counted

    def measure(self, phase: str) -> None:
        """Measures a phase, whose answers must be right."""
        self.workload.prepare(self._phases[phase])
        sample = measure_phase(self.workload, self._phases[phase], self.job, Pace(), Stopwatch())
        assert sample.void is None
        assert sample.errors == 0 and sample.checked > 0


@contextmanager
def trial(home: Path, engine: str, suite: str, tier: Tier | None = None) -> Iterator[Trial]:
    declared = registry.suite(suite)
    spec = registry.reduce_to_suite(declared, registry.engine(engine))
    assert spec is not None and spec.server is not None
    home.mkdir()
    options, tier = spec.resolve({}), tier or Tier.PROCESS
    params: dict[str, Any] = {each.name: each.default for each in declared.params} | SMALL[suite]
    server = spec.create_server(home / "server", tier, options, 1)
    assert server is not None
    with closing(server):
        server.start()
        one = Trial(Job(spec, home, tier, options, params, 1, 1, server, home.parent / "sealed" / "0"), declared)
        one.workload.conformance()
        yield one
        one.workload.close()
        assert {path.name for path in home.iterdir()} <= {"server", "conformance"}


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seals stores of any size."""
    monkeypatch.setattr(store, "LEAST_BYTES", 0)


@pytest.mark.claim("Every trial of a cell begins with the same loaded store")
@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(("engine", "suite", "read", "change"), CASES)
def test_later_trials_begin_with_copy_of_server_data(
    place: Path, engine: str, suite: str, read: str, change: str
) -> None:
    require(registry.engine(engine).reduce_to_port(registry.suite(suite).ports[0]))
    for number in range(2):
        with trial(place / str(number), engine, suite) as one:
            before = list(one.job.server.pids())  # type: ignore[union-attr]
            one.measure(read)
            # Also the first trial measures a copy, which a new process serves.
            assert list(one.job.server.pids()) != before  # type: ignore[union-attr]
            assert one.loads == (number == 0)
            one.measure(change)


@pytest.mark.usefixtures("tiny")
def test_copied_store_has_planner_statistics(place: Path) -> None:
    require(registry.engine("postgresql").reduce_to_port("records"))
    for number in range(2):
        with trial(place / str(number), "postgresql", "records") as one:
            one.measure("rand-key")
            store: Any = one.workload.engine()
            query = "SELECT count(*) FROM pg_stats WHERE schemaname = %s"
            ((columns,),) = store.client.execute(query, (store.name,)).fetchall()
            assert columns > 0
            assert one.loads == (number == 0)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("why", ["no room", "tier volatile", "no right to move"])
def test_unsealable_server_is_loaded_in_each_trial(place: Path, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    require(registry.engine("postgresql").reduce_to_port("records"))
    if why == "no room":
        monkeypatch.setattr(filesystem, "SPARE_BYTES", 1 << 60)
    rename = Path.rename

    def refuse(path: Path, target: Path) -> Path:
        if path.name == "data":
            raise PermissionError(path)
        return rename(path, target)

    if why == "no right to move":
        monkeypatch.setattr(Path, "rename", refuse)
    for number in range(2):
        tier = Tier.VOLATILE if why == "tier volatile" else Tier.PROCESS
        with trial(place / str(number), "postgresql", "records", tier) as one:
            one.measure("rand-key")
            assert one.loads == 1
    assert not list((place / "sealed").rglob("*")) or not (place / "sealed" / "0" / "loaded").exists()


def test_a_small_store_is_loaded_rather_than_copied(place: Path) -> None:
    require(registry.engine("redis").reduce_to_port("records"))
    with trial(place / "0", "redis", "records") as one:
        before = list(one.job.server.pids())  # type: ignore[union-attr]
        one.measure("rand-key")
        assert list(one.job.server.pids()) == before  # type: ignore[union-attr]
    assert not (place / "sealed").exists()


# -- the suite `sql`, from the command line ------------------------------------------------------------------------

ROWS = 22_000
SHOP = f'''
suite = "sql"
samples = 2
[sql]
schema = "CREATE TABLE item (id integer PRIMARY KEY, kind integer, name varchar(1000))"
after = "CREATE INDEX by_kind ON item (kind)"
[sql.tables]
item = {{ rows = {ROWS}, id = "serial", kind = "uniform:1..1000", name = "text:900" }}
[sql.transactions.first]
script = """
\\\\set k random(1, 1000)
SELECT id, kind, name FROM item WHERE kind = :k;
"""
[sql.transactions.push]
script = "INSERT INTO item (id, kind, name) VALUES (1000000 + :n, 1, 'new');"
affects = [1]
[sql.transactions.last]
script = "SELECT count(*) FROM item;"
[[sql.checks]]
says = "each acknowledged item is there"
query = "SELECT count(*) - {ROWS} FROM item"
grows_by = ["push"]
'''


def loaded(shell: Shell, link: str) -> list[int]:
    """Runs the plan; returns the numbers of rows of all loads."""
    shell.plugins = [TESTS / "plugins" / "counted"]
    (shell.home / "shop.toml").write_text(SHOP)
    log = shell.home / "log"
    engine = f"counted:log={log}+link={link}"
    ended = shell.dyno("run", "shop.toml", "-e", engine, "-p", "operations=100", "--budget", 5, "-o", shell.file)
    assert ended.status == 0, ended.out + ended.err
    assert all(cell["valid"] for cell in shell.cells().values())
    assert shell.strays() == [] and shell.left() == []
    return [int(line) for line in log.read_text().splitlines()]


@pytest.mark.claim("Every trial of a cell begins with the same loaded store")
def test_sealed_sql_tables_are_loaded_once(shell: Shell) -> None:
    require(registry.engine("postgresql").reduce_to_port("sql"))
    assert sum(loaded(shell, "no")) == ROWS


def test_unsealable_sql_tables_are_reloaded_after_writes(shell: Shell) -> None:
    require(registry.engine("postgresql").reduce_to_port("sql"))
    # Two trials, each with a phase after one that wrote.
    assert sum(loaded(shell, "yes")) == 4 * ROWS
