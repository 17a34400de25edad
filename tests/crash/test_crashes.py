"""Guards `dyno crash` through the shell. It finds and describes lost commits of engines that are known to lose some,
and no loss in engines that are known to keep all. Its results can be read, however the command ended.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from needed import require, unavailable
from shell import TESTS, Shell, is_one_line, small, wait_for

from dyno import registry
from dyno.cli.selftest import crash_command
from dyno.contracts.model import UsageError
from dyno.crash import device, recorder
from dyno.host import directories
from dyno.runner.work_directory import fast_root, find_dead

pytestmark = pytest.mark.usefixtures("processes")

KEYS = {"engine", "tier", "settings", "version", "verdict", "why", "traced", "model", "system", "faults", "notes"}
WAYS = {"killed", "cut", "recovery", "birth", "device"}


def prepare(shell: Shell) -> None:
    """Adds the careless engines and a separate cache, which keeps their results out of the user's. It links to the
    installed programs.
    """
    shell.plugins = [TESTS / "plugins" / "careless"]
    cache = shell.home / "cache" / "dyno"
    cache.mkdir(parents=True)
    (cache / "programs").symlink_to(directories.cache() / "programs")
    shell.given["XDG_CACHE_HOME"] = str(cache.parent)


@pytest.fixture
def shell(shell: Shell) -> Shell:
    prepare(shell)
    return shell


@pytest.fixture(autouse=True, scope="module")
def patience() -> Iterator[None]:
    """Each command starts a few hundred processes and recoveries, on machines of any speed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shell.PATIENCE", 3_000.0)
        yield


def crashed(shell: Shell, *arguments: object, status: int) -> list[dict[str, Any]]:
    """The rows of the file of a command that ends with this status and leaves nothing behind."""
    path = shell.home / "crash.json"
    ended = shell.dyno("crash", "--untraced", "-o", path, "--overwrite", *arguments)
    assert ended.status == status, ended
    assert shell.left() == [] and states_left(shell) == []
    header, *rows = map(json.loads, path.read_text().splitlines())
    assert header["kind"] == "crash" and all(row.pop("kind") == "row" for row in rows)
    assert all(row.keys() == KEYS | WAYS for row in rows)
    return rows


def states_left(shell: Shell) -> list[Path]:
    """Directories where a command that has ended built states. Other commands on this machine may still run."""
    return list(find_dead(fast_root(shell.work)))


def able(*names: str) -> None:
    for name in names:
        require(registry.engine(name))
    if why := recorder.explain_unavailability():
        unavailable(why)


def words(row: Mapping[str, Any]) -> str:
    return " ".join(line for fault in row["faults"] for line in fault["witness"])


# -- power cuts ----------------------------------------------------------------------------------------------

Rows = Mapping[str, Mapping[str, Any]]


@pytest.fixture(scope="module")
def prepared(shared_shell: Shell) -> Shell:
    able("sqlite", "lmdb", "rocksdb", "redis", "zarr")
    prepare(shared_shell)
    return shared_shell


@pytest.fixture(scope="module")
def cuts(prepared: Shell) -> Rows:
    """The rows of a command that cuts the power, by engine. Stores of faults are kept in `stores`."""
    own = prepared.home / "stores" / "careless-lmdb-power-cut-lost" / "letter.txt"
    own.parent.mkdir(parents=True)
    own.write_text("dear")
    engines = "sqlite,lmdb,careless-sqlite,careless-lmdb"
    asked = (engines, "--tier", "power", "--kills", "2", "--states", "30", "--keep", own.parents[1])
    rows = crashed(prepared, *asked, status=1)
    assert [row["engine"] for row in rows] == engines.split(",")
    return {row["engine"]: row for row in rows}


def test_engines_that_lose_nothing_get_verdict_held(cuts: Rows) -> None:
    for row in (cuts["sqlite"], cuts["lmdb"]):
        assert (row["verdict"], row["why"]) == ("held", "")
        assert (row["cut"]["outcomes"], row["killed"]["outcomes"]) == ({"ok": 30}, {"ok": 2})
        assert row["recovery"]["outcomes"].keys() == {"ok"}
    # Maintenance must be among the cut operations, or else the test would prove little.
    assert cuts["sqlite"]["cut"]["seldom"] == 10


def test_unflushed_journal_removal_loses_exactly_the_last_commit(cuts: Rows) -> None:
    row = cuts["careless-sqlite"]
    assert row["verdict"] == "broken" and row["killed"]["outcomes"] == {"ok": 2}
    assert row["cut"]["outcomes"].keys() == {"ok", "lost"} and row["cut"]["lost"] == 1
    assert "the removal of store/records.sqlite-journal was lost" in words(row)
    (lost,) = [fault for fault in row["faults"] if fault["when"] == "cut"]
    assert lost["held"] == lost["acknowledged"] - 1


def test_unflushed_root_page_loses_exactly_the_last_commit(cuts: Rows, prepared: Shell) -> None:
    row = cuts["careless-lmdb"]
    assert row["verdict"] == "broken"
    assert row["cut"]["outcomes"].keys() == {"ok", "lost"} and row["cut"]["lost"] == 1
    assert "store/data.mdb" in words(row)
    # The kept store can be opened by hand, and overwrites nothing.
    own = prepared.home / "stores" / "careless-lmdb-power-cut-lost"
    stores = {place for place in own.parent.glob("careless-lmdb-*") if place != own}
    assert {Path(fault["directory"]) for fault in row["faults"]} == stores
    assert all((place / "store" / "data.mdb").exists() for place in stores)
    assert [path.read_text() for path in own.iterdir()] == ["dear"]
    assert own.with_name(f"{own.name}-2") in stores


def test_time_limit_reduces_the_number_of_crashes(shell: Shell) -> None:
    able("sqlite")
    asked = ("sqlite", "--tier", "power", "--kills", 100_000, "--states", 100_000, "--within", "5s")
    (row,) = crashed(shell, *asked, status=0)
    assert all(0 < row[way]["count"] < 100_000 for way in ("killed", "cut", "recovery", "birth"))
    (note,) = row["notes"]
    assert note.startswith(f"as often as the time allowed: killed {row['killed']['count']:,} of 100,000, cut ")


# -- killed processes ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kills(prepared: Shell) -> Rows:
    """The rows of a command that kills processes twice, by engine."""
    engines = "careless-rocksdb,careless-dying,careless-leaking,redis,zarr"
    rows = crashed(prepared, engines, "--tier", "process", "--kills", "2", "--within", "10m", status=1)
    assert [row["engine"] for row in rows] == engines.split(",")
    # With enough time, the counts are as requested.
    assert {row["killed"]["count"] for row in rows} == {2}
    return {row["engine"]: row for row in rows}


def test_commits_buffered_only_in_memory_break_tier_process(kills: Rows) -> None:
    row = kills["careless-rocksdb"]
    assert row["verdict"] == "broken" and row["why"].startswith("killed: ")
    assert row["killed"]["outcomes"].keys() <= {"ok", "lost"} and row["killed"]["lost"] > 0
    # Tier process promises nothing about a power cut.
    assert row["cut"] is None
    assert "acknowledged commits are not there" in row["faults"][0]["why"]


def test_engine_that_kills_its_opener_counts_as_crash(kills: Rows) -> None:
    row = kills["careless-dying"]
    assert row["killed"]["outcomes"]["crash"] >= 1
    assert "signal SIGBUS" in row["faults"][0]["why"]


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param("careless-leaking", id="files-left-open"),
        pytest.param("redis", id="server"),
        pytest.param("zarr", id="no-transactions"),
    ],
)
def test_killed_engine_keeps_its_commits(kills: Rows, engine: str) -> None:
    assert kills[engine]["killed"]["outcomes"] == {"ok": 2}
    assert kills[engine]["notes"] == []


# -- the command ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nosuch",), "engine nosuch is not known"),
        (("fio",), "engine fio has no port of a suite that proves tiers"),
        (("sqlite", "--tier", "forever"), "tier forever is not known"),
        (("sqlite", "--model", "fat"), "'fat' is not one of"),
        (("sqlite", "--states", "-1"), "-1 is not in the range"),
        (("sqlite", "-o", "."), "a directory"),
    ],
)
def test_invalid_arguments_are_refused_in_one_line(shell: Shell, arguments: Iterable[str], said: str) -> None:
    status, out, err = Shell(shell.home, shell.work).run_here("crash", *arguments)
    assert (status, out) == (2, "") and is_one_line(err) and said in err


def test_cuts_are_refused_without_the_native_recorder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dyno._native", ModuleType("dyno._native"))
    with pytest.raises(UsageError, match=r"the native recorder, .* --states 0 leaves the kills"):
        crash_command.main(["lmdb", "--tier", "power"], standalone_mode=False)


def test_file_of_another_kind_is_never_overwritten(shell: Shell) -> None:
    path = shell.home / "crash.json"
    path.write_text("mine")
    for more in ((), ("--overwrite",)):
        status, out, err = Shell(shell.home, shell.work).run_here("crash", "sqlite", "-o", path, *more)
        assert (status, out) == (2, "") and is_one_line(err) and path.read_text() == "mine"


def test_interrupted_command_leaves_only_a_valid_file(shell: Shell) -> None:
    able("sqlite", "redis")
    path = shell.home / "crash.json"
    asked = ("sqlite,redis", "--tier", "process", "--kills", "1", "--untraced", "-o", path)
    with shell.started("crash", "redis,sqlite", "--tier", "process", "--kills", "100000", "-o", path) as process:
        wait_for(lambda: any(shell.work.rglob("home/server/redis.sock")))
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    assert shell.left() == [] and states_left(shell) == []
    assert json.loads(path.read_text())["kills"] == 100_000
    assert shell.dyno("crash", *asked, "--overwrite").status == 0


def test_results_appear_in_list_and_in_later_reports(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    able("sqlite")
    shell.plugins = []
    monkeypatch.setenv("XDG_CACHE_HOME", shell.given.pop("XDG_CACHE_HOME"))
    assert "killed" not in shell.dyno("list", "engines").out
    crashed(shell, "sqlite", "--tier", "process", "--kills", "2", status=0)
    listed = shell.dyno("list", "engines").out
    assert "Tiers tested by dyno crash" in listed and "2 ok" in listed
    asked = ("records", "-e", "sqlite", "--tier", "process", *small(samples=1))
    ended = shell.dyno("run", *asked, "-o", shell.file)
    assert ended.status == 0, ended
    said = "crashed here: sqlite, tier process"
    page = shell.home / "page.html"
    assert shell.dyno("report", shell.file, "-o", page).status == 0
    told = [shell.dyno("show", shell.file).out, shell.dyno("show", shell.file, "--markdown").out, page.read_text()]
    assert all(said in text and "killed 2: 2 ok" in text for text in told)


# -- a real file system --------------------------------------------------------------------------------------


def mounts() -> list[str]:
    """Backing files of loop devices in use, and mounts of loop devices."""
    used = [path.read_text() for path in Path("/sys/block").glob("loop*/loop/backing_file")]
    return [*used, *(line for line in Path("/proc/mounts").read_text().splitlines() if line.startswith("/dev/loop"))]


def able_to_mount(system: str) -> None:
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        # Mounting needs root and FUSE, which can't be installed.
        pytest.skip("only root mounts")
    if why := device.explain_unavailability(system):
        unavailable(why)


@pytest.mark.soak
@pytest.mark.parametrize("system", device.SYSTEMS)
def test_real_file_system_shows_losses_the_model_allows(shell: Shell, system: str) -> None:
    able("sqlite")
    able_to_mount(system)
    before = mounts()
    asked: tuple[str, ...] = ("careless-sqlite", "--kills", "0", "--states", "60", "--device", system)
    (row,) = crashed(shell, *asked, status=1)
    assert row["system"] == system and sum(row["device"]["outcomes"].values()) == 60
    assert row["device"]["outcomes"].keys() == {"ok", "lost"} and row["device"]["lost"] == 1
    assert f"{system} shows what the model ext4 allows: lost" in row["notes"]
    asked = ("sqlite:journal_mode=delete", "--tier", "power", "--kills", "0", "--states", "60", "--device", system)
    (row,) = crashed(shell, *asked, status=0)
    assert row["device"]["outcomes"] == {"ok": 60}
    assert mounts() == before


@pytest.mark.soak
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_loop_device_is_removed_after_interrupt_or_kill(shell: Shell, how: signal.Signals) -> None:
    able("sqlite")
    able_to_mount("ext4")
    before = mounts()
    asked = ("sqlite", "--tier", "power", "--kills", "0", "--states", "40", "--device", "ext4", "--untraced")
    with shell.started("crash", *asked) as process:
        wait_for(lambda: mounts() != before)
        process.send_signal(how)
        process.wait()
        # The kernel removes them when the last process has ended.
        wait_for(lambda: mounts() == before)
    assert shell.dyno("crash", "sqlite", "--tier", "process", "--kills", "1", "--untraced").status == 0
    assert shell.left() == [] and states_left(shell) == []


# -- known findings ------------------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.parametrize(
    ("engine", "model", "states", "found", "witness"),
    [
        ("careless-sqlite:how=wal-off", "ext4", 300, {"lost"}, "store/records.sqlite"),
        ("careless-sqlite:how=wal-normal", "ext4", 300, {"lost"}, "store/records.sqlite-wal"),
        ("careless-duckdb", "ext4", 2_000, {"refused"}, "at 12288 of store/records.duckdb"),
        ("careless-filestorage", "ext4", 800, {"refused"}, "store/Data.fs.pack"),
        ("careless-leveldb", "posix", 300, {"lost"}, "the name store/"),
        ("redis", "ordered", 1_500, {"refused"}, "appendonlydir"),
        ("careless-influxdb", "ext4", 20, {"hang"}, "_series"),
        ("careless-questdb", "ext4", 80, {"corrupt"}, "server/questdb/db/"),
        ("careless-duckdb", "posix", 200, {"refused"}, "store/records.duckdb"),
        ("careless-postgresql", "ext4", 400, set(), "base/"),
        ("careless-mariadb", "ext4", 120, set(), ""),
        # Includes a torn write of 16 KiB.
        ("mariadb", "ext4", 500, {"corrupt"}, ""),
    ],
)
def test_known_faults_are_found_again(
    shell: Shell, engine: str, model: str, states: int, found: set[str], witness: str
) -> None:
    able(engine.partition(":")[0].removeprefix("careless-"))
    asked = (engine, "--tier", "power", "--kills", "0", "--states", states, "--model", model)
    (row,) = crashed(shell, *asked, status=1)
    assert row["cut"]["outcomes"].keys() - {"ok"} >= found and len(row["cut"]["outcomes"]) > 1
    assert witness in words(row)


@pytest.mark.soak
@pytest.mark.parametrize("engine", ["sqlite", "sqlite:journal_mode=delete", "lmdb", "rocksdb", "postgresql"])
def test_strong_settings_lose_nothing(shell: Shell, engine: str) -> None:
    able(engine.partition(":")[0])
    (row,) = crashed(shell, engine, "--tier", "power", "--kills", "20", "--states", "400", status=0)
    assert row["verdict"] == "held"
