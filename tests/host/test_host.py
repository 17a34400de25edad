"""Tests that facts are read correctly from the kernel's files, and that a missing file means unknown."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from dyno.host import facts as host
from dyno.host.procfs import input_bytes

CPUINFO = """processor\t: 0
model name\t: Some CPU @ 3.00GHz
cpu MHz\t\t: 2596.122
flags\t\t: fpu tsc {flag}

processor\t: 1
model name\t: Some CPU @ 3.00GHz
cpu MHz\t\t: 1200.000
"""
MEMINFO = """MemTotal:       16000000 kB
MemFree:         1000000 kB
MemAvailable:    8000000 kB
SwapTotal:       2000000 kB
SwapFree:        1500000 kB
HugePages_Total:       0
"""
MOUNT = "{id} 1 {number} / {point} rw,relatime shared:1 - {type} {source} rw,{options}\n"

Plant = Callable[[Mapping[str, str]], Path]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def mount(
    point: object, type: str = "ext4", source: str = "/dev/sda1", number: str = "8:1", options: str = "rw"
) -> str:
    return MOUNT.format(id=20, number=number, point=point, type=type, source=source, options=options)


def leaves(value: Any) -> list[Any]:
    return [leaf for part in value.values() for leaf in leaves(part)] if isinstance(value, dict) else [value]


def test_machine_facts_are_json_without_the_host_name(work: Path) -> None:
    told = host.facts(work)
    assert json.loads(json.dumps(told)) == told
    assert told["clock"]["cost_ns"] >= 1
    assert socket.gethostname() not in [str(leaf) for leaf in leaves(told)]


@pytest.mark.claim("Facts of the machine that are unknown are null")
def test_facts_without_proc_and_sys_are_unknown(tmp_path: Path, work: Path) -> None:
    told = host.facts(work, root=tmp_path / "nothing-here")
    for part in ("cpu", "memory", "load"):
        assert set(leaves(told[part])) == {None}
    assert told["steal_percent"] is None and told["psi"] is None
    assert told["filesystem"]["type"] is None and told["filesystem"]["ram_backed"] is None
    watched = host.pressure(0, root=tmp_path / "nothing-here")
    assert {v for k, v in watched.items() if k != "seconds"} == {None}


def test_garbage_in_kernel_files_is_unknown(plant: Plant, work: Path) -> None:
    names = ("cpuinfo", "meminfo", "loadavg", "stat", "vmstat", "pressure/io")
    own = ("self/status", "self/stat", "self/cgroup", "self/mountinfo")
    root = plant({f"proc/{name}": "cpu : x - y\ncpu\n:::\n-\n" for name in names + own})
    told = host.facts(work, root=root)
    assert told["memory"]["total_bytes"] is None
    assert told["cpu"]["available_cores"] is None
    assert told["steal_percent"] is None
    host.pressure(0, root=root)


def test_cpu_facts_are_read_from_kernel_files(plant: Plant, work: Path) -> None:
    root = plant(
        {
            "proc/cpuinfo": CPUINFO.format(flag="sse2"),
            "proc/self/status": "Name:\tpython\nCpus_allowed_list:\t0-2,5\n",
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
            "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance\n",
            "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "3000000\n",
            "sys/devices/system/cpu/intel_pstate/no_turbo": "1\n",
        }
    )
    assert host.facts(work, root=root)["cpu"] == {
        "model": "Some CPU @ 3.00GHz",
        "logical_cores": 2,
        "available_cores": 4,
        "quota_cores": None,
        "governor": "performance, powersave",
        "mhz": 2596,
        "max_mhz": 3000,
        "turbo": False,
        "virtualised": False,
    }


def test_hypervisor_flag_marks_cpu_as_virtualised(plant: Plant, work: Path) -> None:
    root = plant({"proc/cpuinfo": CPUINFO.format(flag="hypervisor")})
    assert host.facts(work, root=root)["cpu"]["virtualised"] is True


@pytest.mark.parametrize(
    ("files", "cores", "limit"),
    [
        pytest.param(
            {
                "proc/self/cgroup": "0::/app/one\n",
                "sys/fs/cgroup/app/one/cpu.max": "max 100000",
                "sys/fs/cgroup/app/cpu.max": "150000 100000",
                "sys/fs/cgroup/app/one/memory.max": "4000000000",
                "sys/fs/cgroup/app/memory.max": "max",
            },
            1.5,
            4_000_000_000,
            id="version 2, the group above is the tighter",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "50000",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "1000000000",
            },
            0.5,
            1_000_000_000,
            id="version 1, seen from inside a container",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "4:memory:/\n2:cpu:/\n0::/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
            },
            None,
            None,
            id="version 1 without a limit",
        ),
    ],
)
def test_cgroup_cpu_and_memory_limits_are_read(
    plant: Plant, work: Path, files: dict[str, str], cores: float | None, limit: int | None
) -> None:
    told = host.facts(work, root=plant({"proc/meminfo": MEMINFO, **files}))
    assert told["cpu"]["quota_cores"] == cores
    assert told["memory"]["cgroup_limit_bytes"] == limit


def test_inputs_are_smaller_if_memory_is_limited(plant: Plant) -> None:
    limited = plant({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000000"})
    assert input_bytes(64_000, limited) == 50_000 and input_bytes(40_000, limited) == 40_000
    assert input_bytes(64_000, plant({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max"})) == 64_000


def test_memory_load_clock_and_stalls_are_read(plant: Plant, work: Path) -> None:
    root = plant(
        {
            "proc/meminfo": MEMINFO,
            "proc/loadavg": "0.50 1.25 2.00 1/80 3415\n",
            "proc/stat": "cpu  100 0 100 700 50 0 0 50 20 0\ncpu0 1 2 3\n",
            "proc/pressure/io": "some avg10=1.50 avg60=0 avg300=0 total=1\nfull avg10=0.25 avg60=0 total=1\n",
            "sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n",
            "etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12"\n',
        }
    )
    told = host.facts(work, root=root)
    assert told["memory"] == {
        "total_bytes": 16_000_000 * 1024,
        "available_bytes": 8_000_000 * 1024,
        "swap_total_bytes": 2_000_000 * 1024,
        "swap_used_bytes": 500_000 * 1024,
        "cgroup_limit_bytes": None,
    }
    assert told["load"] == {"minutes_1": 0.5, "minutes_5": 1.25, "minutes_15": 2.0}
    # User time includes that of guests: the sum is 1000, not 1020.
    assert told["steal_percent"] == 5.0
    assert told["psi"] == {"io": {"some_avg10_percent": 1.5, "full_avg10_percent": 0.25}}
    assert told["clock"]["source"] == "hpet"
    assert told["system"]["os"] == "Debian GNU/Linux 12"


def test_filesystem_facts_use_nearest_mount_and_parent_disk(plant: Plant, work: Path) -> None:
    root = plant(
        {
            "proc/self/mountinfo": mount("/", "tmpfs", "tmpfs", "0:20")
            + mount(work.parent, "xfs", "/dev/old", "8:9")
            + mount(work.parent, "ext4", "/dev/sda1", "8:1", "discard,errors=remount-ro"),
            "sys/devices/pci/sda/queue/rotational": "0\n",
            "sys/devices/pci/sda/queue/write_cache": "write back\n",
            "sys/devices/pci/sda/sda1/partition": "1\n",
        }
    )
    (root / "sys/dev/block").mkdir(parents=True)
    (root / "sys/dev/block/8:1").symlink_to("../../devices/pci/sda/sda1")
    told = host.filesystem(work, root=root)
    assert told["mount_point"] == str(work.parent)
    assert (told["type"], told["device"]) == ("ext4", "/dev/sda1")
    assert told["options"] == ["rw", "relatime", "discard", "errors=remount-ro"]
    assert (told["rotational"], told["write_cache"]) == (False, "write back")
    assert (told["ram_backed"], told["network"]) == (False, False)
    assert told["free_bytes"] is not None and told["total_bytes"] is not None
    assert told["free_bytes"] <= told["total_bytes"]


def test_blank_in_mount_point_is_decoded(plant: Plant, tmp_path: Path) -> None:
    work = tmp_path / "my disk" / "work"
    work.mkdir(parents=True)
    point = str(tmp_path / "my disk")
    root = plant({"proc/self/mountinfo": mount("/") + mount(point.replace(" ", r"\040"), "xfs")})
    assert host.filesystem(work, root=root)["mount_point"] == point


@pytest.mark.parametrize(
    ("line", "ram", "network"),
    [
        (mount("/", "tmpfs", "tmpfs", "0:5"), True, False),
        (mount("/", "ramfs", "none", "0:5"), True, False),
        (mount("/", "ext4", "/dev/zram0", "253:0"), True, False),
        (mount("/", "btrfs", "/dev/sda1", "0:31"), False, False),
        (mount("/", "zfs", "tank/data", "0:31"), False, False),
        (mount("/", "overlay", "overlay", "0:31"), None, False),
        (mount("/", "nfs4", "server:/export", "0:40"), None, True),
        (mount("/", "cifs", "//server/share", "0:40"), None, True),
        (mount("/", "fuse.sshfs", "me@server:/home", "0:40"), None, True),
    ],
)
def test_ram_and_network_file_systems_are_recognised(
    plant: Plant, work: Path, line: str, ram: bool | None, network: bool
) -> None:
    root = plant({"proc/self/mountinfo": line, "sys/class/block/zram0/queue/rotational": "0"})
    told = host.filesystem(work, root=root)
    assert (told["ram_backed"], told["network"]) == (ram, network)


def test_loop_device_backed_by_tmpfs_is_ram_backed(plant: Plant, work: Path) -> None:
    root = plant(
        {
            "proc/self/mountinfo": mount("/", "ext4", "/dev/loop0", "7:0")
            + mount("/dev/shm", "tmpfs", "tmpfs", "0:5"),
            "sys/dev/block/7:0/queue/rotational": "0",
            "sys/dev/block/7:0/loop/backing_file": "/dev/shm/disk.img\n",
        }
    )
    assert host.filesystem(work, root=root)["ram_backed"] is True


def test_mount_facts_omit_server_and_user_names(plant: Plant, work: Path) -> None:
    options = "vers=4.2,hard,addr=10.1.2.3,clientaddr=10.1.2.4,username=alice,upperdir=/home/alice/up"
    root = plant({"proc/self/mountinfo": mount("/", "nfs4", "fileserver:/export/alice", "0:40", options)})
    told = host.filesystem(work, root=root)
    assert told["device"] is None
    assert told["options"] == ["rw", "relatime", "vers=4.2", "hard"]


def test_pressure_measures_others_cpu_steal_and_swapping(plant: Plant) -> None:
    own = "42 (a ) b) S 1 1 1 0 -1 0 0 0 0 0 {user} {system} 0 0 20\n"
    root = plant(
        {
            "proc/stat": "cpu  1000 0 500 8000 0 0 0 500 0 0\n",
            "proc/self/stat": own.format(user=10, system=5),
            "proc/vmstat": "nr_free_pages 5\npswpin 3\npswpout 7\n",
        }
    )
    slept: list[float] = []

    def meanwhile(seconds: float) -> None:
        slept.append(seconds)
        plant(
            {
                "proc/stat": "cpu  1030 0 510 8140 0 0 0 520 0 0\n",
                "proc/self/stat": own.format(user=18, system=7),
                "proc/vmstat": "nr_free_pages 5\npswpin 3\npswpout 9\n",
            }
        )

    told = host.pressure(0.25, root=root, sleep=meanwhile)
    assert slept == [0.25]
    # 40 of 200 ticks are busy (10 of them ours) and 20 are stolen.
    assert told["others_busy_percent"] == 15.0
    assert told["steal_percent"] == 10.0
    assert told["swapped_in_bytes"] == 0
    assert told["swapped_out_bytes"] is not None and told["swapped_out_bytes"] > 0


def test_steal_over_less_than_a_tick_is_unknown(plant: Plant) -> None:
    root = plant({"proc/stat": "cpu  1000 0 500 8000 0 0 0 500 0 0\n"})
    assert host.pressure(0, root=root)["steal_percent"] is None


def test_flush_probe_leaves_no_file(work: Path) -> None:
    taken = host.fsync_ns(work)
    assert isinstance(taken, int) and taken > 0
    assert list(work.iterdir()) == []


def test_flush_time_in_missing_directory_is_unknown(work: Path) -> None:
    assert host.fsync_ns(work / "missing") is None


def test_missing_work_directory_is_judged_by_nearest_parent(work: Path) -> None:
    assert host.nearest_existing(work / "a" / "b") == work.resolve()
    host.facts(work / "a" / "b")
    assert list(work.iterdir()) == []
