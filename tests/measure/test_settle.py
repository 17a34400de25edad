"""Tests that background work of an engine belongs to the phase before it: Dyno waits until the engine is at rest, and
only then reads its written bytes and the sizes of its files, as allocated on the device.

The waiting is tested on a fake clock, then with real threads, processes and files, and in whole runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from shell import TESTS, Shell, small, wait_for

from dyno import registry
from dyno.contracts.model import Tier
from dyno.contracts.pace import Pace
from dyno.contracts.suite import Job
from dyno.host.filesystem import filesystem, size_on_disk
from dyno.host.usage import NOTHING, UNKNOWN, Usage, has_waiting_threads, measure_own
from dyno.measure import phase as module
from dyno.measure.clients import run_phase
from dyno.measure.phase import Stopwatch, measure_phase, rest, settle
from dyno.measure.tally import Tally

pytestmark = pytest.mark.usefixtures("processes")

MS = 1_000_000
TICK = 10 * MS
LIVELY = TESTS / "plugins" / "lively"


# -- on a fake clock ------------------------------------------------------------------------------------------


class World:
    """A fake clock that moves when a test or the tested code sleeps, and counters that the test sets."""

    def __init__(self) -> None:
        self.now = self.watched = 0
        self.mine: Callable[[int], Usage] = lambda now: NOTHING
        self.servers: Callable[[int], Usage] = lambda now: NOTHING
        self.looking_ns = 0

    def sleep(self, seconds: float) -> None:
        self.now += round(seconds * 1e9)

    def own(self) -> Usage:
        used = self.mine(self.now)
        return used if used.user_ns is None else replace(used, user_ns=used.user_ns + self.watched)

    def of_tree(self, pids: list[int]) -> Usage:
        assert pids == [7, 8]
        self.watched += self.looking_ns
        return self.servers(self.now)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(module, "sleep", made.sleep)
    # The real function would look at other threads of the test process.
    monkeypatch.setattr(module, "has_waiting_threads", lambda: False)
    monkeypatch.setattr(module, "monotonic_ns", lambda: made.now)
    monkeypatch.setattr(module, "measure_own", made.own)
    monkeypatch.setattr(module, "of_tree", made.of_tree)
    monkeypatch.setattr(module, "of_thread_ns", lambda: (made.watched, 0))
    return made


def until(end: int, share: float = 1.0, tick: int = 1, **counts: int) -> Callable[[int], Usage]:
    """Returns a usage that grows until `end`: CPU time in whole ticks, or each named counter by its value per ms."""

    def used(now: int) -> Usage:
        at = min(now, end)
        if counts:
            return replace(NOTHING, **{name: each * (at // MS) for name, each in counts.items()})
        return replace(NOTHING, system_ns=int(at * share) // tick * tick)

    return used


def test_idle_engine_settles_after_two_windows(world: World) -> None:
    assert settle(())
    assert world.now == 20 * MS


def test_settle_waits_for_computing(world: World) -> None:
    world.mine = until(100 * MS)
    assert settle(())
    assert world.now == 120 * MS


def test_settle_waits_for_writes_without_cpu_time(world: World) -> None:
    world.mine = until(100 * MS, written_bytes=512)
    assert settle(())
    assert world.now == 120 * MS


@pytest.mark.parametrize("pause", [15 * MS, 25 * MS])
def test_settle_needs_two_consecutive_quiet_windows(world: World, pause: int) -> None:
    """Rest takes two consecutive quiet windows, and no more."""
    busy = [(0, 30 * MS), (30 * MS + pause, 60 * MS + pause)]
    world.mine = lambda now: replace(NOTHING, user_ns=sum(max(min(now, end) - begin, 0) for begin, end in busy))
    assert settle(())
    assert world.now == (50 * MS if pause > 20 * MS else 100 * MS)


def test_low_cpu_use_counts_as_rest(world: World) -> None:
    world.mine = until(10**12, share=0.05)
    assert settle(())
    world.mine = until(10**12, share=0.15)
    assert not settle(())


@pytest.mark.parametrize("windows", [1, 2, 5])
def test_settle_waits_for_requested_number_of_windows(world: World, windows: int) -> None:
    world.mine = until(30 * MS)
    assert settle((), windows=windows)
    assert world.now == (30 + 10 * windows) * MS


@pytest.mark.claim("Background work after a phase is waited for and counted")
def test_settle_returns_false_after_the_time_limit(world: World) -> None:
    world.mine = until(10**12)
    assert not settle((), longest_ns=500 * MS)
    assert world.now == 500 * MS


def test_settle_waits_for_cancelled_writes(world: World) -> None:
    world.mine = until(100 * MS, written_bytes=-512)
    assert settle(())
    assert world.now == 120 * MS


def test_settle_waits_for_starved_threads(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "has_waiting_threads", lambda: world.now < 7 * TICK)
    assert settle([]) is True
    assert world.now == 8 * TICK


def test_starved_thread_is_detected_by_its_state(tmp_path: Path, busy: threading.Event) -> None:
    for state, wants in (("R", True), ("S", False), ("D", False)):
        task = tmp_path / "proc/self/task/7"
        task.mkdir(parents=True, exist_ok=True)
        # The name of a program may contain brackets.
        (task / "stat").write_text(f"7 (a) R (b) {state} 1 1")
        assert has_waiting_threads(root=tmp_path) is wants
    (task / "stat").unlink()
    assert not has_waiting_threads(root=tmp_path), "it has ended"
    if sys.platform == "linux":
        assert wait_for(has_waiting_threads)


def test_settle_ignores_unknown_usage(world: World) -> None:
    world.mine = lambda now: UNKNOWN
    assert settle(())
    world.mine, world.servers = until(0), lambda now: UNKNOWN
    assert settle([7, 8])


@pytest.mark.parametrize("share", [1.0, 0.5, 0.3])
def test_settle_waits_for_server_despite_coarse_ticks(world: World, share: float) -> None:
    world.servers = until(1_000 * MS, share, TICK)
    assert settle([7, 8])
    assert world.now >= 1_000 * MS


def test_settle_excludes_dynos_own_cpu_time(world: World) -> None:
    """Searching all processes of the machine takes some milliseconds of Dyno's own CPU time."""
    world.looking_ns = 30 * MS
    assert settle([7, 8])


# -- real threads and processes -------------------------------------------------------------------------------


@pytest.fixture
def busy() -> Iterator[threading.Event]:
    """A thread of this process that computes until it is told to stop."""
    stop = threading.Event()

    def compute() -> None:
        while not stop.is_set():
            sum(range(1000))

    thread = threading.Thread(target=compute)
    thread.start()
    yield stop
    stop.set()
    thread.join()


def test_settle_fails_while_a_thread_computes(busy: threading.Event) -> None:
    assert not settle((), longest_ns=200 * MS)
    busy.set()
    assert settle(())


def test_settle_waits_for_thread_to_finish() -> None:
    """The work is bounded by CPU time: elapsed time depends on the machine."""
    done, begun = threading.Event(), measure_own()

    def compute() -> None:
        while (used := measure_own() - begun).user_ns + used.system_ns < 200 * MS:  # type: ignore[operator]
            pass
        done.set()

    thread = threading.Thread(target=compute)
    thread.start()
    assert settle(())
    assert done.is_set()
    thread.join()


SLEEPS, COMPUTES = "print(flush=True); input()", "print(flush=True)\nwhile True: pass"


@pytest.mark.parametrize(("script", "rests"), [(SLEEPS, True), (COMPUTES, False)], ids=["sleeps", "computes"])
def test_sleeping_process_settles_and_computing_one_does_not(script: str, rests: bool) -> None:
    words = [sys.executable, "-I", "-S", "-c", script]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            assert settle([process.pid], longest_ns=10_000 * MS if rests else 400 * MS) is rests
        finally:
            process.kill()


# -- before a phase -------------------------------------------------------------------------------------------


def test_engine_settles_before_a_phase(world: World, tmp_path: Path) -> None:
    world.mine = until(30 * MS)
    rest((), tmp_path)
    assert world.now == 40 * MS


def test_dirty_pages_are_flushed_before_a_phase(work: Path) -> None:
    """If written pages were still dirty, the kernel would not count further writes to them in the phase."""
    if filesystem(work)["type"] in ("tmpfs", "ramfs") or measure_own().written_bytes is None:
        pytest.skip("what is written is not counted here")
    file = work / "store" / "file"
    file.parent.mkdir(parents=True)

    def write() -> int:
        before = measure_own().written_bytes
        with file.open("r+b" if file.exists() else "wb") as opened:
            opened.write(b"x" * 4096)
        return (measure_own().written_bytes or 0) - (before or 0)

    # The count may include pages of the file system.
    assert write() >= 4096
    rest((), work)
    assert write() >= 4096


def test_only_changed_files_are_flushed_again(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may have a thousand files, and each flush is a request to the device."""
    flushed: list[int] = []
    monkeypatch.setattr("dyno.measure.phase.os.fsync", lambda file: flushed.append(os.fstat(file).st_ino))
    work.mkdir()
    files = [work / name for name in ("kept", "changed", "replaced")]
    for file in files:
        file.write_bytes(b"before")
    rest((), work)
    assert sorted(flushed) == sorted(file.stat().st_ino for file in files)
    monkeypatch.setattr("dyno.measure.phase.MARGIN_NS", 0)
    # Wait for longer than the resolution of the file system's times.
    time.sleep(0.05)
    files[1].write_bytes(b"after")
    # The replacing file has an older date, which must not decide.
    (work / "other").write_bytes(b"other")
    os.utime(work / "other", (1, 1))
    (work / "other").rename(files[2])
    flushed.clear()
    rest((), work)
    assert sorted(flushed) == sorted(file.stat().st_ino for file in files[1:])


def test_flush_skips_special_and_unreadable_files(work: Path) -> None:
    (work / "folder").mkdir(parents=True)
    (work / "dangling").symlink_to(work / "nowhere")
    (work / "locked").touch(0o000)
    # Opening a pipe waits for a writer.
    os.mkfifo(work / "pipe")
    rest((), work)


# -- sizes ----------------------------------------------------------------------------------------------------


@pytest.mark.claim("The size on disk is that of allocated blocks")
def test_size_on_disk_counts_allocated_blocks(work: Path) -> None:
    work.mkdir()
    sparse, full = work / "sparse", work / "full"
    with sparse.open("wb") as file:
        file.write(b"x" * 8192)
        file.truncate(1 << 30)
    full.write_bytes(b"x" * 100_000)
    assert 8192 <= (size_on_disk([sparse]) or 0) < 1 << 20
    assert 100_000 <= (size_on_disk([full]) or 0) < 200_000
    assert size_on_disk(iter([sparse, full])) == (size_on_disk([sparse]) or 0) + (size_on_disk([full]) or 0)


def test_missing_files_have_no_size_on_disk(work: Path) -> None:
    work.mkdir()
    (work / "there").write_bytes(b"x" * 5000)
    assert size_on_disk([]) is None
    assert size_on_disk([work / "gone"]) is None
    assert size_on_disk([work / "gone", work / "there"]) == size_on_disk([work / "there"])
    (work / "empty").touch()
    assert size_on_disk([work / "empty"]) == 0


# -- whole runs -----------------------------------------------------------------------------------------------

LATE_BYTES = 1 << 20
"""Number of bytes that the `restless` engine writes at the end of its background work."""


def measured(shell: Shell, engine: str, phases: str) -> list[dict[str, Any]]:
    shell.plugins = [LIVELY]
    plan = small(samples=1, retries=0, phases=phases)
    ended = shell.dyno("run", "records", "-e", engine, *plan, "-o", shell.file)
    assert ended.status == 0, ended
    assert shell.strays() == []
    (attempt,) = shell.attempts(engine.partition(":")[0])
    found: list[dict[str, Any]] = attempt["samples"]
    return found


@pytest.mark.claim("Background work after a phase is waited for and counted")
@pytest.mark.parametrize("how", ["compute", "write"])
def test_background_work_is_awaited_and_counted(shell: Shell, how: str) -> None:
    insert, read = measured(shell, f"restless:how={how}", "insert-blind-indices,rand-key")
    assert insert["settled"] is True
    assert insert["bytes_on_disk"] >= LATE_BYTES
    assert insert["written_bytes"] is None or insert["written_bytes"] >= LATE_BYTES
    assert 300 * 150 < insert["payload_bytes"] < 300 * 200
    # A phase that only reads has nothing to settle.
    assert (read["settled"], read["payload_bytes"]) == (None, None)
    assert read["bytes_on_disk"] == insert["bytes_on_disk"]


def test_bytes_written_just_after_the_clients_are_counted(work: Path) -> None:
    work.mkdir()
    suite = registry.suite("records")
    spec = registry.reduce_to_suite(suite, registry.engine("memory"))
    assert spec is not None
    params = {each.name: each.default for each in suite.params} | {"records": 300}
    job = Job(spec, work, Tier.PROCESS, spec.resolve({}), params, 1, 1)
    phase = next(each for each in suite.phases if each.name == "insert-blind-indices")

    def run_and_write(*given: Any) -> Tally:
        tally = run_phase(*given)
        # Unlike a thread's write, always before the counters are read again.
        (work / "late").write_bytes(bytes(LATE_BYTES))
        return tally

    with closing(suite.workload(job)) as workload:
        workload.prepare(phase)
        sample = measure_phase(workload, phase, job, Pace(), Stopwatch(), run=run_and_write)
    assert sample.void is None
    assert sample.written_bytes is None or sample.written_bytes >= LATE_BYTES


@pytest.mark.parametrize("how", ["compute", "write"])
def test_background_work_after_loading_is_excluded_from_phase(shell: Shell, how: str) -> None:
    (mixed,) = measured(shell, f"restless:how={how}", "mixed")
    assert mixed["settled"] is True
    assert mixed["bytes_on_disk"] >= LATE_BYTES
    assert mixed["written_bytes"] is None or mixed["written_bytes"] < LATE_BYTES


def test_memory_engine_is_settled_and_has_no_size(shell: Shell) -> None:
    (update,) = measured(shell, "memory", "update")
    assert (update["settled"], update["bytes_on_disk"]) == (True, None)
