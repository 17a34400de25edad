"""Tests the measuring of resource usage, with real work and with a tree of made-up kernel files."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from dyno.host import usage
from dyno.host.filesystem import filesystem
from dyno.host.usage import NOTHING, UNKNOWN, Usage

SIZE = 4 << 20
MS = 10**6
BURN = "import time; end = time.process_time() + 0.2\nwhile time.process_time() < end: pass"
# The name of a program may contain blanks and parentheses. From the tenth field on: minor faults of the process and
# of its ended children, major faults of both, user and system time of the process, and of the children.
STAT = "42 (a ) b) S 1 1 1 0 -1 0 900 901 7 70 3 5 300 500 20 0\n"
IO = "rchar: 5000\nwchar: 1\nsyscr: 1\nsyscw: 1\nread_bytes: 4096\nwrite_bytes: {}\ncancelled_write_bytes: {}\n"
SWITCHES = "Name:\tx\nVmHWM:\t  1234 kB\nvoluntary_ctxt_switches:\t{}\nnonvoluntary_ctxt_switches:\t{}\n"

Plant = Callable[[Mapping[str, str]], Path]


class Child:
    """Process that executes code and then prints its variable `answer`."""

    SERVE = """
import sys
names = {"answer": 0}
for line in sys.stdin:
    exec(eval(line), names)
    print(names["answer"], flush=True)
"""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", self.SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self.process.pid

    def do(self, code: str) -> int:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(repr(code) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def end(self) -> None:
        self.process.communicate()


@pytest.fixture
def child() -> Iterator[Child]:
    child = Child()
    yield child
    child.end()


@pytest.fixture
def cold(tmp_path: Path) -> Path:
    """File of SIZE bytes on a device, evicted from the page cache."""
    if filesystem(tmp_path)["ram_backed"] is not False:
        pytest.skip("no file system on a device")
    file = tmp_path / "cold"
    with file.open("wb") as f:
        f.write(os.urandom(SIZE))
        f.flush()
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return file


def burn() -> None:
    end = time.process_time_ns() + 100 * MS
    while time.process_time_ns() < end:
        sum(range(10_000))  # Uses user time; reading the clock may be a system call.


def cpu_ns(used: Usage) -> int:
    assert used.user_ns is not None and used.system_ns is not None
    return used.user_ns + used.system_ns


def part(used: int | None) -> float:
    """Returns bytes as a share of SIZE."""
    assert used is not None
    return used / SIZE


def test_usages_add_and_subtract_field_by_field() -> None:
    one, two = Usage(1, 2, 3, 4, 5, 6, 7, 8), Usage(11, 22, 33, 44, 55, 66, 77, 88)
    assert two - one == Usage(10, 20, 30, 40, 50, 60, 70, 80)
    assert one + two == Usage(12, 24, 36, 48, 60, 72, 84, 96)
    assert one + NOTHING == one


def test_unknown_stays_unknown() -> None:
    known = Usage(*range(1, 14))
    partly = replace(known, user_ns=None, read_bytes=None)
    for result in (known - partly, partly - known, known + partly, partly + known):
        assert [n for n, value in enumerate(astuple(result)) if value is None] == [0, 6]
    assert known - UNKNOWN == UNKNOWN - known == known + UNKNOWN == UNKNOWN


def test_shrunken_counter_is_unknown_except_written_bytes() -> None:
    before = Usage(*[9] * 13)
    assert before - Usage(*[10] * 13) == replace(UNKNOWN, written_bytes=-1)


def test_own_cpu_time_includes_all_threads() -> None:
    before = usage.measure_own()
    burn()
    between = usage.measure_own()
    thread = threading.Thread(target=burn)
    thread.start()
    thread.join()
    after = usage.measure_own()
    assert cpu_ns(between - before) >= 90 * MS
    user = (between - before).user_ns
    assert user is not None and user >= 50 * MS
    assert cpu_ns(after - between) >= 90 * MS, "a thread that has ended"


def test_thread_cpu_time_excludes_other_threads() -> None:
    before = usage.of_thread_ns()
    burn()
    between = usage.of_thread_ns()
    thread = threading.Thread(target=burn)
    thread.start()
    thread.join()
    after = usage.of_thread_ns()
    assert sum(between) - sum(before) >= 90 * MS
    assert sum(after) - sum(between) < 50 * MS
    assert all(isinstance(ns, int) and ns % 1000 == 0 for ns in after)


def test_waiting_is_a_voluntary_switch() -> None:
    before = usage.measure_own()
    for _ in range(20):
        time.sleep(0.0001)
    switched = (usage.measure_own() - before).voluntary_switches
    # A sleep may end before the thread has left its core.
    assert switched is not None and switched >= 10


@pytest.mark.claim("Bytes from the device are counted separately from those of the page cache")
def test_device_reads_are_separate_from_cache_reads(cold: Path) -> None:
    before = usage.measure_own()
    cold.read_bytes()
    between = usage.measure_own()
    cold.read_bytes()
    after = usage.measure_own()
    first, second = between - before, after - between
    assert part(first.read_bytes) >= 0.9
    assert part(second.read_bytes) < 0.1
    assert part(first.asked_bytes) == pytest.approx(1, abs=0.1)
    assert part(second.asked_bytes) == pytest.approx(1, abs=0.1)


@pytest.mark.claim("Bytes from the device are counted separately from those of the page cache")
def test_mapped_reads_count_as_faults_not_requests(cold: Path) -> None:
    with cold.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        before = usage.measure_own()
        assert len(mapped[::4096]) == SIZE // 4096
        used = usage.measure_own() - before
    assert part(used.read_bytes) >= 0.9
    assert part(used.asked_bytes) < 0.1
    assert used.major_faults is not None and used.major_faults >= 1


def test_written_bytes_count_before_a_flush(cold: Path) -> None:
    data = os.urandom(SIZE)
    before = usage.measure_own()
    with (cold.parent / "written").open("wb") as file:
        file.write(data)
        # The data is not flushed: the kernel counts bytes when pages are dirtied.
        used = usage.measure_own() - before
    assert part(used.written_bytes) == pytest.approx(1, abs=0.1)
    assert part(used.read_bytes) < 0.1


@pytest.mark.usefixtures("processes")
def test_usage_of_another_process_is_measured(child: Child, cold: Path) -> None:
    own_before, before = usage.measure_own(), usage.measure_process(child.pid)
    child.do(BURN)
    child.do(f"data = open({str(cold)!r}, 'rb').read()")
    child.do("for _ in range(20): time.sleep(0.0001)")
    used, own = usage.measure_process(child.pid) - before, usage.measure_own() - own_before
    # CPU time is the sum of two counters, each rounded down to ticks of 10 ms.
    assert cpu_ns(used) >= 160 * MS
    assert cpu_ns(own) < 100 * MS
    assert part(used.read_bytes) >= 0.9
    assert part(used.asked_bytes) == pytest.approx(1, abs=0.1)
    assert used.voluntary_switches is not None and used.voluntary_switches >= 20
    assert None not in astuple(replace(used, device_wait_ns=0))


@pytest.mark.usefixtures("processes")
def test_usage_of_ended_process_is_unknown(child: Child) -> None:
    child.end()
    assert usage.measure_process(child.pid) == UNKNOWN
    assert usage.of_tree([child.pid]) == UNKNOWN
    assert usage.of_tree([os.getpid(), child.pid]) == UNKNOWN
    assert usage.peak_resident_bytes(child.pid) is None


@pytest.mark.claim("A server's resources are separate from its client's")
@pytest.mark.usefixtures("processes")
def test_tree_counts_running_and_ended_descendants_once(child: Child) -> None:
    assert usage.of_tree([]) == NOTHING
    burner = f"{BURN}\nprint(flush=True); time.sleep(600)"
    child.do("import os, subprocess, sys")
    child.do(
        f"below = subprocess.Popen([sys.executable, '-S', '-c', {burner!r}],"
        " stdin=subprocess.DEVNULL, stdout=subprocess.PIPE); below.stdout.readline(); answer = below.pid"
    )
    below = child.do("")
    tree = usage.of_tree([child.pid])
    try:
        assert cpu_ns(tree) - cpu_ns(usage.measure_process(child.pid)) >= 160 * MS
        twice = usage.of_tree([child.pid, below, below])
        assert cpu_ns(twice) - cpu_ns(tree) < 100 * MS
    finally:
        child.do("below.kill(); below.communicate()")
    ended = usage.of_tree([child.pid])
    assert not Path(f"/proc/{below}").exists()
    assert cpu_ns(ended) >= 160 * MS
    assert (ended - tree).user_ns is not None


@pytest.mark.usefixtures("processes")
def test_tree_omits_descendant_that_has_just_ended(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = SimpleNamespace(pid=child.pid)
    child.end()
    monkeypatch.setattr(psutil.Process, "children", lambda self, recursive: [gone])
    assert None not in astuple(replace(usage.of_tree([os.getpid()]), device_wait_ns=0))


@pytest.mark.usefixtures("processes")
def test_peak_memory_stays_after_memory_is_freed(child: Child) -> None:
    child.do("data = b'x' * (64 << 20)")
    child.do("del data")
    peak = usage.peak_resident_bytes(child.pid)
    assert peak is not None and 64 << 20 <= peak < 256 << 20


@pytest.mark.usefixtures("processes")
def test_resetting_the_peak_keeps_the_overall_peak(child: Child) -> None:
    if not usage.reset_peaks([os.getpid()]):
        pytest.skip("the kernel does not measure peaks anew")
    child.do("data = b'x' * (64 << 20)")
    child.do("del data")
    assert usage.reset_peaks([child.pid])
    rest = usage.peaks_since_reset([child.pid])
    assert rest is not None and 0 < rest < 48 << 20
    child.do("data = b'x' * (32 << 20)")
    child.do("del data")
    again = usage.peaks_since_reset([child.pid])
    assert again is not None and 32 << 20 <= again < 64 << 20
    whole = usage.peak_resident_bytes(child.pid)
    assert whole is not None and whole >= 64 << 20


def test_own_peak_survives_a_reset() -> None:
    len(b"x" * (64 << 20))
    before = usage.own_peak_resident_bytes()
    usage.reset_peaks([os.getpid()])
    assert usage.own_peak_resident_bytes() >= before >= 64 << 20


def test_peaks_are_summed_over_existing_processes(plant: Plant) -> None:
    status = SWITCHES.format(0, 0)
    root = plant({f"proc/{pid}/{name}": text for pid in (77, 78) for name, text in (("status", status),)})
    assert usage.peaks_since_reset([77, 78, 79], root=root) == 2 * 1234 * 1024
    assert usage.peaks_since_reset([79], root=root) is None
    assert usage.peaks_since_reset([], root=root) is None


def test_failed_peak_reset_is_reported(plant: Plant) -> None:
    """A directory can't be written to, like the file of another user's process."""
    root = plant({"proc/77/clear_refs/x": "", "proc/78/clear_refs": ""})
    assert usage.reset_peaks([78], root=root)
    assert (root / "proc/78/clear_refs").read_text() == "5"
    assert not usage.reset_peaks([77, 78], root=root)
    assert usage.reset_peaks([79], root=root), "a process that is gone"


@pytest.mark.parametrize(("setting", "ticks"), [("1\n", 4 + 5), ("0\n", None), (None, None)])
def test_device_wait_is_known_if_kernel_counts_it(plant: Plant, setting: str | None, ticks: int | None) -> None:
    files = {
        "proc/42/stat": STAT,
        "proc/42/task/42/stat": f"42 (a) S {'0 ' * 38}4 0 0\n",
        "proc/42/task/43/stat": f"43 (a) S {'0 ' * 38}5 0 0\n",
    }
    if setting is not None:
        files["proc/sys/kernel/task_delayacct"] = setting
    tick = 10**9 // os.sysconf("SC_CLK_TCK")
    expected = None if ticks is None else ticks * tick
    assert usage.measure_process(42, root=plant(files)).device_wait_ns == expected


def test_usage_is_read_from_kernel_files(plant: Plant) -> None:
    root = plant(
        {
            "proc/42/stat": STAT,
            "proc/42/io": IO.format(10_000, 4_000),
            "proc/42/status": SWITCHES.format(100, 10),
            "proc/42/task/42/status": SWITCHES.format(100, 10),
            "proc/42/task/43/status": SWITCHES.format(11, 1),
            "proc/42/task/42/schedstat": "5000 300 7\n",
            "proc/42/task/43/schedstat": "6000 20 8\n",
            "proc/42/task/44/other": "a thread that is just ending",
        }
    )
    tick = 10**9 // os.sysconf("SC_CLK_TCK")
    assert usage.measure_process(42, root=root) == Usage(
        user_ns=(3 + 300) * tick,
        system_ns=(5 + 500) * tick,
        voluntary_switches=111,
        involuntary_switches=11,
        major_faults=7 + 70,
        asked_bytes=5000,
        read_bytes=4096,
        written_bytes=6_000,
        core_wait_ns=320,
        minor_faults=900 + 901,
        read_calls=1,
        write_calls=1,
    )
    assert usage.peak_resident_bytes(42, root=root) == 1234 * 1024


def test_written_bytes_may_be_negative(plant: Plant) -> None:
    root = plant({"proc/42/stat": STAT, "proc/42/io": IO.format(0, 4_096)})
    assert usage.measure_process(42, root=root).written_bytes == -4_096


def test_bytes_are_unknown_without_permission(plant: Plant) -> None:
    root = plant(
        {
            "proc/42/stat": STAT,
            "proc/42/task/42/status": SWITCHES.format(100, 10),
        }
    )
    used = usage.measure_process(42, root=root)
    assert (used.asked_bytes, used.read_bytes, used.written_bytes) == (None, None, None)
    assert None not in astuple(replace(used, device_wait_ns=0))[:5]


def test_process_that_ends_during_reading_is_unknown(plant: Plant) -> None:
    root = plant({"proc/42/io": IO.format(1, 0), "proc/42/task/42/status": SWITCHES.format(100, 10)})
    assert usage.measure_process(42, root=root) == UNKNOWN


def test_garbage_in_kernel_files_is_unknown(plant: Plant) -> None:
    files = ("stat", "io", "status", "task/42/status")
    root = plant({f"proc/42/{name}": "rchar: x\nVmHWM: - kB\n:::\n) 1 - -\n" for name in files})
    assert usage.measure_process(42, root=root) == UNKNOWN
    assert usage.peak_resident_bytes(42, root=root) is None


def test_device_counts_read_and_written_bytes(cold: Path) -> None:
    before = usage.device(cold)
    if before == {"read_bytes": None, "written_bytes": None}:
        pytest.skip("the file system's device is not seen")
    cold.read_bytes()
    between = usage.device(cold)
    with (cold.parent / "written").open("wb") as file:
        file.write(os.urandom(SIZE))
        file.flush()
        os.fsync(file.fileno())
    after = usage.device(cold)
    assert None not in (*before.values(), *between.values(), *after.values())
    assert part(between["read_bytes"]) - part(before["read_bytes"]) >= 0.9
    assert part(after["written_bytes"]) - part(between["written_bytes"]) >= 0.9


BLOCK_STAT = "  100 5 2048 30 200 6 4096 70 0 80 90 1 2 3 4 5 6\n"
COUNTED = {"read_bytes": 2048 * 512, "written_bytes": 4096 * 512}


def mounted(source: str, type: str = "ext4") -> dict[str, str]:
    return {"proc/self/mountinfo": f"20 1 0:31 / / rw,relatime shared:1 - {type} {source} rw\n"}


def number(place: Path) -> str:
    device = place.stat().st_dev
    return f"{os.major(device)}:{os.minor(device)}"


def test_a_device_is_found_by_its_number(plant: Plant, tmp_path: Path) -> None:
    root = plant({f"sys/dev/block/{number(tmp_path)}/stat": BLOCK_STAT})
    assert usage.device(tmp_path, root=root) == COUNTED
    assert usage.device(tmp_path / "to" / "be", root=root) == COUNTED


def test_device_without_number_is_found_by_mount(plant: Plant, tmp_path: Path) -> None:
    root = plant({**mounted("/dev/mapper/data", "btrfs"), "sys/class/block/dm-3/stat": BLOCK_STAT})
    (root / "dev/mapper").mkdir(parents=True)
    (root / "dev/mapper/data").symlink_to("../dm-3")
    assert usage.device(tmp_path, root=root) == COUNTED


@pytest.mark.parametrize("source", ["tmpfs", "sda", "overlay", "server:/export", "/dev/gone", "//server/share"])
def test_mount_without_local_device_is_unknown(plant: Plant, tmp_path: Path, source: str) -> None:
    root = plant({**mounted(source), "sys/class/block/sda/stat": BLOCK_STAT, "sys/class/block/stat": BLOCK_STAT})
    assert usage.device(tmp_path, root=root) == {"read_bytes": None, "written_bytes": None}


def test_device_usage_is_unknown_without_sys(tmp_path: Path) -> None:
    assert usage.device(tmp_path, root=tmp_path / "nothing-here") == {"read_bytes": None, "written_bytes": None}


@pytest.mark.parametrize("switch", ["sda/sda1/queue", "sda/queue"], ids=["a disk", "a partition"])
def test_device_with_disabled_iostats_is_unknown(plant: Plant, tmp_path: Path, switch: str) -> None:
    root = plant({"sys/devices/sda/sda1/stat": BLOCK_STAT, f"sys/devices/{switch}/iostats": "1\n"})
    (root / "sys/dev/block").mkdir(parents=True)
    (root / "sys/dev/block" / number(tmp_path)).symlink_to("../../devices/sda/sda1")
    assert usage.device(tmp_path, root=root) == COUNTED
    plant({f"sys/devices/{switch}/iostats": "0\n"})
    assert usage.device(tmp_path, root=root) == {"read_bytes": None, "written_bytes": None}
