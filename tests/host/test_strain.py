"""Tests that strain is the difference of the kernel's counters, and that a missing counter isn't taken for 0."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dyno.host import facts

PAGE = os.sysconf("SC_PAGE_SIZE")
NAMES = {
    "steal_percent",
    "swapped_in_bytes",
    "swapped_out_bytes",
    "memory_stall_ns",
    "io_stall_ns",
    "cpu_stall_ns",
    "throttled_ns",
    "thermal_throttles",
    "elapsed_ns",
}

Plant = Callable[[Mapping[str, str]], Path]
Told = dict[str, float | int | None]


@pytest.fixture
def between(plant: Plant) -> Callable[[Mapping[str, str], Mapping[str, str]], Told]:
    """Returns the strain of a machine whose files change from one set to the other."""

    def tell(first: Mapping[str, str], second: Mapping[str, str]) -> Told:
        before = facts.counters(root=plant(first))
        return facts.subtract_counters(before, facts.counters(root=plant(second)), 10**9)

    return tell


def pressure(total_us: int) -> str:
    return (
        f"some avg10=1.50 avg60=0.10 avg300=0.00 total={total_us}\n"
        f"full avg10=9.00 avg60=9.00 avg300=9.00 total={total_us + 999_000}\n"
    )


def test_strain_of_this_machine_is_valid_json() -> None:
    before = facts.counters()
    told = facts.subtract_counters(before, facts.counters(), 12_345)
    assert set(told) == NAMES
    assert told["elapsed_ns"] == 12_345
    assert json.loads(json.dumps(told)) == told


@pytest.mark.claim("Strain on the machine during a trial is recorded")
def test_strain_is_unknown_without_proc_and_sys(tmp_path: Path) -> None:
    nothing = facts.counters(root=tmp_path / "nothing-here")
    assert facts.subtract_counters(nothing, nothing, 5) == {**dict.fromkeys(NAMES), "elapsed_ns": 5}


def test_garbage_in_kernel_files_is_unknown(plant: Plant) -> None:
    names = ("proc/stat", "proc/vmstat", *(f"proc/pressure/{what}" for what in ("cpu", "io", "memory")))
    groups = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.stat": "throttled_usec x\nthrottled_time\n"}
    heat = {"sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": "hot\n"}
    root = plant({**dict.fromkeys(names, "cpu : x - y\nsome total=x\npswpin x\n\n"), **groups, **heat})
    told = facts.subtract_counters(facts.counters(root=root), facts.counters(root=root), 5)
    assert told == {**dict.fromkeys(NAMES), "elapsed_ns": 5}


@pytest.mark.claim("Strain on the machine during a trial is recorded")
def test_strain_is_the_difference_of_kernel_counters(between: Callable[..., Told]) -> None:
    heat = "sys/devices/system/cpu/cpu{}/thermal_throttle/core_throttle_count"
    told = between(
        {
            "proc/stat": "cpu  1000 0 500 8000 0 0 0 500 77 0\ncpu0 1 2 3\n",
            "proc/vmstat": "nr_free_pages 5\npswpin 3\npswpout 7\n",
            "proc/pressure/memory": pressure(100),
            "proc/pressure/io": pressure(200),
            "proc/pressure/cpu": pressure(300),
            heat.format(0): "4\n",
            heat.format(11): "5\n",
        },
        {
            "proc/stat": "cpu  1030 0 510 8140 0 0 0 520 99 0\ncpu0 1 2 3\n",
            "proc/vmstat": "nr_free_pages 9\npswpin 5\npswpout 17\n",
            "proc/pressure/memory": pressure(101),
            "proc/pressure/io": pressure(202),
            "proc/pressure/cpu": pressure(303),
            heat.format(0): "5\n",
            heat.format(11): "7\n",
        },
    )
    assert told == {
        # 20 of 200 ticks are stolen.
        "steal_percent": 10.0,
        "swapped_in_bytes": 2 * PAGE,
        "swapped_out_bytes": 10 * PAGE,
        "memory_stall_ns": 1_000,
        "io_stall_ns": 2_000,
        "cpu_stall_ns": 3_000,
        "throttled_ns": None,
        "thermal_throttles": 3,
        "elapsed_ns": 10**9,
    }


def test_strain_of_quiet_machine_is_zero(between: Callable[..., Told]) -> None:
    files = {
        "proc/vmstat": "pswpin 3\npswpout 7\n",
        "proc/pressure/io": pressure(200),
        "proc/self/cgroup": "0::/app\n",
        "sys/fs/cgroup/app/cpu.stat": "throttled_usec 5\n",
    }
    told = between(
        {**files, "proc/stat": "cpu  10 0 0 0 0 0 0 5 0 0\n"}, {**files, "proc/stat": "cpu  20 0 0 0 0 0 0 5 0 0\n"}
    )
    for name in ("steal_percent", "swapped_in_bytes", "swapped_out_bytes", "io_stall_ns", "throttled_ns"):
        assert told[name] == 0 and told[name] is not None
    assert told["memory_stall_ns"] is None


def test_steal_within_one_tick_is_unknown(between: Callable[..., Told]) -> None:
    files = {"proc/stat": "cpu  10 0 0 0 0 0 0 5 0 0\n"}
    assert between(files, files)["steal_percent"] is None


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("proc/stat", {"steal_percent"}),
        ("proc/vmstat", {"swapped_in_bytes", "swapped_out_bytes"}),
        ("proc/pressure/io", {"io_stall_ns"}),
        ("sys/fs/cgroup/app/cpu.stat", {"throttled_ns"}),
    ],
)
def test_counter_missing_at_either_end_is_unknown(plant: Plant, file: str, names: set[str]) -> None:
    root = plant({"proc/self/cgroup": "0::/app\n"})
    without = facts.counters(root=root)
    texts = {
        "proc/stat": "cpu  {} 0 0 0 0 0 0 5 0 0\n",
        "proc/vmstat": "pswpin {0}\npswpout {0}\n",
        "proc/pressure/io": "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\n",
        "sys/fs/cgroup/app/cpu.stat": "throttled_usec {}\n",
    }
    plant({file: texts[file].format(10)})
    before = facts.counters(root=root)
    plant({file: texts[file].format(20)})
    after = facts.counters(root=root)

    def known(told: Told) -> set[str]:
        return {name for name, value in told.items() if value is not None} - {"elapsed_ns"}

    assert known(facts.subtract_counters(before, after, 1)) == names
    assert known(facts.subtract_counters(without, after, 1)) == set()
    assert known(facts.subtract_counters(before, without, 1)) == set()


def test_a_counter_that_ran_backwards_is_unknown(between: Callable[..., Told]) -> None:
    heat = "sys/devices/system/cpu/cpu{}/thermal_throttle/core_throttle_count"
    told = between({heat.format(0): "9\n"}, {heat.format(0): "4\n"})
    assert told["thermal_throttles"] is None


@pytest.mark.claim("Strain on the machine during a trial is recorded")
@pytest.mark.parametrize(
    ("cgroup", "first", "second", "throttled_ns"),
    [
        pytest.param(
            "0::/app/one\n",
            {"app/one/cpu.stat": "usage_usec 9\nthrottled_usec 100\n", "app/cpu.stat": "throttled_usec 900\n"},
            {"app/one/cpu.stat": "usage_usec 99\nthrottled_usec 130\n", "app/cpu.stat": "throttled_usec 910\n"},
            30_000,
            id="version 2, in microseconds: the longest difference, not the longest counter or the sum",
        ),
        pytest.param(
            "0::/app/one\n",
            {"app/one/cpu.stat": "throttled_usec 100\n", "app/cpu.stat": "throttled_usec 0\n"},
            {"app/one/cpu.stat": "throttled_usec 110\n", "app/cpu.stat": "throttled_usec 70\n"},
            70_000,
            id="version 2, the group above",
        ),
        pytest.param(
            "4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n",
            {"cpu,cpuacct/cpu.stat": "nr_periods 1\nnr_throttled 1\nthrottled_time 5000\n"},
            {"cpu,cpuacct/cpu.stat": "nr_periods 9\nnr_throttled 2\nthrottled_time 5700\n"},
            700,
            id="version 1, in nanoseconds, seen from inside a container",
        ),
        pytest.param(
            "0::/\n", {"cpu.stat": "usage_usec 9\n"}, {"cpu.stat": "usage_usec 99\n"}, None, id="the top of version 2"
        ),
    ],
)
def test_throttled_time_is_read_from_control_groups(
    between: Callable[..., Told],
    cgroup: str,
    first: dict[str, str],
    second: dict[str, str],
    throttled_ns: int | None,
) -> None:
    def placed(files: dict[str, str]) -> dict[str, str]:
        return {"proc/self/cgroup": cgroup} | {f"sys/fs/cgroup/{name}": text for name, text in files.items()}

    assert between(placed(first), placed(second))["throttled_ns"] == throttled_ns


def test_counters_omit_control_group_names(plant: Plant) -> None:
    root = plant({"proc/self/cgroup": "0::/user-alice\n", "sys/fs/cgroup/user-alice/cpu.stat": "throttled_usec 1\n"})
    assert "alice" not in str(facts.counters(root=root))
