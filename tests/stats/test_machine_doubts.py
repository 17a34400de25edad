"""Tests that each doubtful fact about the machine raises its doubt, and that a quiet machine raises none."""

from __future__ import annotations

import copy
import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec import convert
from rich.console import Console

from dyno.cli.doctor import doctor_command, render
from dyno.contracts.model import UsageError
from dyno.results.header import Host, drop_unknown_facts
from dyno.stats import machine
from dyno.stats.machine import Finding

GIB = 2**30
QUIET: dict[str, Any] = {
    "cpu": {
        "model": "Some CPU",
        "logical_cores": 8,
        "available_cores": 8,
        "quota_cores": None,
        "governor": "performance",
        "mhz": 3000,
        "max_mhz": 3000,
        "turbo": False,
        "virtualised": False,
    },
    "memory": {
        "total_bytes": 32 * GIB,
        "available_bytes": 30 * GIB,
        "swap_total_bytes": 8 * GIB,
        "swap_used_bytes": 0,
        "cgroup_limit_bytes": None,
    },
    "system": {"os": "Debian", "kernel": "6.1", "architecture": "x86_64", "libc": "glibc 2.36"},
    "python": {"version": "3.11.7", "implementation": "CPython"},
    "filesystem": {
        "mount_point": "/data",
        "type": "xfs",
        "device": "/dev/nvme0n1p1",
        "options": ["rw", "noatime"],
        "ram_backed": False,
        "network": False,
        "rotational": False,
        "write_cache": "write back",
        "total_bytes": 1000 * GIB,
        "free_bytes": 500 * GIB,
        "fsync_ns": 800_000,
    },
    "clock": {"source": "tsc", "cost_ns": 40, "resolution_ns": 1},
    "load": {"minutes_1": 0.2, "minutes_5": 0.1, "minutes_15": 0.1},
    "steal_percent": 0.0,
    "psi": None,
    "wakeups": None,
    "pressure": {
        "seconds": 0.5,
        "steal_percent": 0.0,
        "others_busy_percent": 1.0,
        "swapped_in_bytes": 0,
        "swapped_out_bytes": 0,
    },
}


def machine_doubts(facts: dict[str, Any]) -> list[Finding]:
    return machine.machine_doubts(convert(drop_unknown_facts({"host": facts})["host"], Host))


def planted(changes: dict[str, Any]) -> dict[str, Any]:
    """Returns the facts of a quiet machine with some changed, for example by {'cpu.governor': 'powersave'}."""
    facts = copy.deepcopy(QUIET)
    for path, value in changes.items():
        *parts, last = path.split(".")
        at = facts
        for part in parts:
            at = at[part]
        at[last] = value
    return facts


def test_a_quiet_machine_raises_no_doubt() -> None:
    assert machine_doubts(QUIET) == []


@pytest.mark.parametrize(
    ("changes", "code", "severity", "number"),
    [
        ({"cpu.governor": "powersave"}, "governor", "warn", "powersave"),
        ({"cpu.governor": "performance, powersave"}, "governor", "warn", "powersave"),
        ({"cpu.governor": None, "cpu.virtualised": True}, "virtual-machine", "ok", "virtual"),
        ({"filesystem.ram_backed": True, "filesystem.type": "tmpfs"}, "ram-filesystem", "bad", "tmpfs"),
        ({"filesystem.network": True, "filesystem.type": "nfs4"}, "network-filesystem", "warn", "nfs4"),
        ({"filesystem.free_bytes": 3 * GIB}, "low-disk", "warn", "3.0 GiB"),
        ({"filesystem.fsync_ns": 5_000}, "fast-flush", "bad", "5.0 µs"),
        ({"load.minutes_1": 4.5}, "load", "warn", "4.5"),
        ({"load.minutes_1": 8.5}, "load", "bad", "8.5"),
        ({"pressure.others_busy_percent": 25.0}, "others-busy", "warn", "25 %"),
        ({"steal_percent": 2.5}, "steal", "warn", "2.5 %"),
        ({"pressure.steal_percent": 20.0}, "steal", "bad", "20.0 %"),
        ({"memory.swap_used_bytes": GIB}, "swap-used", "warn", "1.0 GiB"),
        ({"pressure.swapped_in_bytes": 2**20}, "swapping", "bad", "1.0 MiB"),
        ({"memory.available_bytes": GIB}, "low-memory", "warn", "1.0 GiB"),
        ({"memory.cgroup_limit_bytes": GIB // 2}, "low-memory", "warn", "0.5 GiB"),
        ({"cpu.available_cores": 1}, "few-cores", "warn", "1 core"),
        ({"cpu.quota_cores": 2.5}, "cpu-quota", "warn", "2.5 cores"),
        ({"clock.source": "hpet", "clock.cost_ns": 1200}, "clock-source", "warn", "1200 ns"),
        ({"clock.cost_ns": 250}, "slow-clock", "warn", "250 ns"),
        ({"wakeups": {"cost_ns": 22_400}}, "wake-ups", "ok", "22 µs"),
    ],
)
def test_doubtful_fact_raises_exactly_its_doubt(
    changes: dict[str, Any], code: str, severity: str, number: str
) -> None:
    [finding] = machine_doubts(planted(changes))
    assert (finding.code, finding.severity) == (code, severity)
    assert number in finding.text
    assert "\n" not in finding.text + finding.remedy
    assert finding.remedy or severity == "ok"


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"memory.swap_used_bytes": 20 * 2**20}, id="a few pages in swap that nobody missed"),
        pytest.param({"cpu.quota_cores": 8.0}, id="a quota of all the cores"),
        pytest.param({"memory.cgroup_limit_bytes": 16 * GIB}, id="a generous memory limit"),
        pytest.param({"clock.source": "arch_sys_counter"}, id="another processor's own counter"),
        pytest.param({"cpu.governor": None}, id="a governor that is not told"),
        pytest.param({"wakeups": {"cost_ns": 5_000}}, id="a wake-up as on a machine of one's own"),
        pytest.param({"wakeups": {"cost_ns": None}}, id="a wake-up that is not told"),
        pytest.param({"filesystem.ram_backed": None}, id="a file system that does not tell its store"),
    ],
)
def test_harmless_fact_raises_no_doubt(changes: dict[str, Any]) -> None:
    assert machine_doubts(planted(changes)) == []


def test_fast_flush_in_memory_raises_only_ram_doubt() -> None:
    changes = {"filesystem.ram_backed": True, "filesystem.fsync_ns": 900}
    assert [f.code for f in machine_doubts(planted(changes))] == ["ram-filesystem"]


def test_quota_below_two_cores_also_raises_few_cores() -> None:
    assert {f.code for f in machine_doubts(planted({"cpu.quota_cores": 1.5}))} == {"cpu-quota", "few-cores"}


def test_worst_doubt_is_listed_first() -> None:
    changes = {"cpu.governor": None, "cpu.virtualised": True, "clock.cost_ns": 250, "filesystem.fsync_ns": 1}
    assert [f.severity for f in machine_doubts(planted(changes))] == ["bad", "warn", "ok"]


@pytest.mark.parametrize("facts", [{}, dict.fromkeys(QUIET), {key: {} for key in QUIET if key != "steal_percent"}])
def test_unknown_facts_raise_no_doubt(facts: dict[str, Any]) -> None:
    assert machine_doubts(facts) == []
    assert "quiet" in shown(facts, [])


def shown(facts: dict[str, Any], findings: list[Finding]) -> str:
    out = io.StringIO()
    render(facts, findings, Console(file=out, width=100))
    return out.getvalue()


def test_doctor_prints_facts_and_one_verdict() -> None:
    text = shown(QUIET, [])
    assert "32.0 GiB" in text and "/dev/nvme0n1p1" in text and "800.0 µs" in text
    assert text.splitlines()[-1] == "quiet: ready to measure"


def test_doctor_prints_wake_up_cost() -> None:
    times = {"p50_ns": 57_000, "p99_ns": 90_500, "awake_p50_ns": 12_200, "awake_p99_ns": 20_000}
    text = shown(planted({"wakeups": {"cost_ns": 22_400, "apart": times, "free": dict.fromkeys(times)}}), [])
    assert "22.4 µs of a sleeping core" in text
    assert "57.0 µs (p99 90.5 µs) asleep and 12.2 µs (p99 20.0 µs) kept awake" in " ".join(text.split())
    assert "on any" not in text and "others keep" not in text
    facts = planted({"wakeups": {"cost_ns": 900}, "pressure.others_busy_percent": 80.0})
    assert "0.9 µs of a sleeping core (more on an idle machine)" in " ".join(shown(facts, []).split())


def test_doctor_prints_remedies_and_counts_doubts() -> None:
    facts = planted({"cpu.governor": "powersave", "clock.cost_ns": 250})
    text = shown(facts, machine_doubts(facts))
    assert "sudo cpupower frequency-set -g performance" in text
    assert text.splitlines()[-1] == "2 things would spoil a measurement"


def test_remark_leaves_the_verdict_quiet() -> None:
    assert shown(QUIET, [Finding("x", "ok", "[a] remark", "")]).splitlines()[-2:] == [
        "ok    [a] remark",
        "quiet: ready to measure",
    ]


def doctor(monkeypatch: pytest.MonkeyPatch, facts: dict[str, Any], *arguments: str) -> Any:
    monkeypatch.setattr("dyno.host.facts.pressure", lambda seconds: facts["pressure"])
    monkeypatch.setattr("dyno.host.facts.facts", lambda work: facts)
    monkeypatch.setattr("dyno.cli.doctor.wakeups", lambda seconds: None)
    return CliRunner().invoke(doctor_command, arguments, standalone_mode=False)


@pytest.mark.usefixtures("processes")
def test_doctor_gives_json(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = doctor(monkeypatch, planted({"clock.cost_ns": 250}), "--json", "--work", str(tmp_path))
    told = json.loads(result.stdout)
    assert told["facts"]["clock"]["cost_ns"] == 250
    assert [f["code"] for f in told["findings"]] == ["slow-clock"]
    assert result.return_value == 0


@pytest.mark.usefixtures("processes")
def test_doctor_fails_on_a_bad_finding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = doctor(monkeypatch, planted({"filesystem.fsync_ns": 5}), "--work", str(tmp_path / "to" / "be"))
    assert result.return_value == 1
    assert "1 thing would spoil a measurement" in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_doctor_refuses_work_directory_below_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = doctor(monkeypatch, QUIET, "--work", str(tmp_path / "file" / "below"))
    assert isinstance(result.exception, UsageError)
    assert str(tmp_path / "file") in str(result.exception)


def test_doctor_refuses_unwritable_work_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    result = doctor(monkeypatch, QUIET, "--work", "/proc")
    assert isinstance(result.exception, UsageError)
    assert "\n" not in str(result.exception)
