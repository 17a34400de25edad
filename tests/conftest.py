"""Fixtures of all tests. Pytest puts this directory on the path, so tests can import `shell` and its siblings."""

from __future__ import annotations

import gc
import signal
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import pytest
from data_directories import TEMPLATES, copy_data_directories
from durations import Durations
from hypothesis import HealthCheck, settings
from rooms import deselect_other_rooms
from shell import DISK, Shell

from dyno.cli import doctor
from dyno.host import keep_awake
from dyno.runner import parent
from dyno.runner.worker_pool import WorkerPools

with suppress(ImportError):
    # A trial has only one engine's libraries in its process, but a process of tests has all of them. The library of
    # _mysql_connector needs space in static TLS, which is small. Python's OpenSSL must be loaded before its own.
    import ssl  # noqa: F401

    import _mysql_connector  # noqa: F401

# nohup ignores SIGHUP. Started processes would inherit this and never end.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# No deadline for Hypothesis: an example may take as long as a busy machine needs.
settings.register_profile("unhurried", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

STARTS_PROCESS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"})
_in_process_test: str | None = None


@pytest.fixture(scope="session")
def processes() -> None:
    """Allows a test or fixture to start processes. `make check` excludes tests that request it."""


@pytest.fixture(scope="session", autouse=True)
def shared_servers() -> Iterator[None]:
    """Ends the servers that the tests share, because a test process may be killed without running its exit
    handlers."""
    yield
    stores = sys.modules.get("stores")
    if stores is not None:
        stores.SHARING.close()


INSTANT = 0.05
"""Seconds for which a run in a test's process observes the machine."""


@pytest.fixture(scope="session", autouse=True)
def shortcuts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """In a test's process, servers copy their data directories, and a run observes the machine for an instant,
    measures its wakeups once for all tests, and starts one fork server for all blocks."""
    renew = WorkerPools.renew
    wakeups_once = cache(lambda seconds: keep_awake.wakeups(INSTANT))

    def renew_once(pools: WorkerPools, block: int | None = None) -> None:
        if block is None or not pools._by_python:
            renew(pools, block or 0)

    with directory_on_disk(tmp_path_factory.mktemp("templates")) as templates, pytest.MonkeyPatch.context() as patch:
        patch.setenv(TEMPLATES, str(templates))
        copy_data_directories()
        for module in (parent, doctor):
            patch.setattr(module, "PRESSURE_SECONDS", INSTANT)
            patch.setattr(module, "wakeups", wakeups_once)
        patch.setattr(WorkerPools, "renew", renew_once)
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--durations-file", type=Path, help="write the tests' durations to this file")
    parser.addoption("--room", help="run the tests of this folder of src/dyno, such as engines/redis")


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--durations-file")
    is_xdist_worker = hasattr(config, "workerinput")
    if file is not None and not is_xdist_worker:
        config.pluginmanager.register(Durations(file))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "processes" in getattr(item, "fixturenames", ()):
            item.add_marker("processes")
    room = config.getoption("--room")
    if room is not None:
        deselect_other_rooms(config, items, room)
    # Short files are last, so that all test processes end together.
    slow = {item.path for item in items if item.get_closest_marker("processes")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="module", autouse=True)
def small_heap() -> None:
    """Excludes what was imported so far from garbage collections, since each measured phase begins with one."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    global _in_process_test
    _in_process_test = None if item.get_closest_marker("processes") else item.nodeid
    try:
        return (yield)
    finally:
        _in_process_test = None


def refuse_process(event: str, _: object) -> None:
    """Audit hook: fails a test that starts a process without the fixture `processes`."""
    if event in STARTS_PROCESS and _in_process_test is not None:
        raise AssertionError(f"{_in_process_test} starts a process ({event}): request the fixture `processes`")


sys.addaudithook(refuse_process)


@pytest.fixture
def plant(tmp_path: Path) -> Callable[[Mapping[str, str]], Path]:
    """Returns a function that writes a tree of kernel files and returns its root."""

    def write(files: Mapping[str, str]) -> Path:
        for name, text in files.items():
            file = tmp_path / "root" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return tmp_path / "root"

    return write


@contextmanager
def directory_on_disk(otherwise: Path) -> Iterator[Path]:
    """A directory on a disk with a short path that the accounts of servers may enter. Without a disk: in
    `otherwise`."""
    with tempfile.TemporaryDirectory(prefix="dyno-tests-", dir=DISK if DISK.is_dir() else otherwise) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory on a disk with a short path that the accounts of servers may enter."""
    with directory_on_disk(tmp_path) as directory:
        yield directory


@pytest.fixture
def work(place: Path) -> Path:
    """A work directory that does not exist yet."""
    return place / "work"


@pytest.fixture
def shell(tmp_path: Path, work: Path, processes: None) -> Iterator[Shell]:
    """A command line whose processes are killed at the end of the test."""
    made = Shell(tmp_path, work)
    yield made
    made.kill_strays()


@pytest.fixture(scope="module")
def shared_shell(tmp_path_factory: pytest.TempPathFactory, processes: None) -> Iterator[Shell]:
    """A command line for a run whose results several tests of a module read."""
    home = tmp_path_factory.mktemp("shared")
    with directory_on_disk(home) as directory:
        shell = Shell(home, directory / "work")
        yield shell
        shell.kill_strays()
