"""Tests the parts of the suite `volume` that measure nothing: the test for a steady rate, facts of a warm-up, the
command lines and reports of fio and dd, and the values of parameters.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dyno import registry
from dyno.contracts.model import UsageError
from dyno.engines.blockio import ddrun, fiorun
from dyno.engines.blockio.fiorun import Target
from dyno.suites.volume import IO, Round
from dyno.suites.volume.workload import explain_unsteady, steady_facts

MS, SECOND = 10**6, 10**9
BLOCK = 4096


def rounds(rates: Sequence[int]) -> list[Round]:
    return [Round((at + 1) * SECOND, SECOND, rate) for at, rate in enumerate(rates)]


# -- steady -------------------------------------------------------------------------------------------------------


@pytest.mark.claim("A warm-up ends when everything was written once and the rate is steady")
@pytest.mark.parametrize(
    ("rates", "is_steady"),
    [
        ([100] * 5, True),
        ([100] * 4, False),
        ([1, 1, 1, 100, 100, 100, 100, 100], True),
        # The least and the highest rate differ by 20.2 % of the mean.
        ([100, 100, 121, 100, 100], False),
        ([100, 100, 120, 100, 100], True),
        # These rates differ by less than 20 %, but rise by more than 10 %.
        ([95, 98, 100, 104, 108], False),
        ([98, 99, 100, 101, 102], True),
        ([0] * 5, False),
    ],
    ids=str,
)
def test_steady_rate_depends_on_last_five_rounds(rates: list[int], is_steady: bool) -> None:
    assert (explain_unsteady(rounds([1, *rates]), BLOCK, BLOCK) is None) is is_steady


@pytest.mark.claim("A warm-up ends when everything was written once and the rate is steady")
def test_warm_up_continues_until_all_blocks_are_written() -> None:
    area = 200 * BLOCK
    assert [explain_unsteady(rounds([50] * n), BLOCK, area) is None for n in range(1, 10)] == [False] * 8 + [True]


def test_warm_up_facts_compare_fresh_and_steady_rates() -> None:
    facts = steady_facts(rounds([10, 30, 60, 100, 100, 100, 100, 100]), BLOCK, 100 * BLOCK)
    assert facts == {
        "steady": True,
        "unsteady": None,
        "steady_after_ns": 3 * SECOND,
        # The hundredth block was written in the third second.
        "fresh_per_second": pytest.approx(100 / 3),
        "steady_per_second": pytest.approx(100),
        "penalty_percent": pytest.approx(200 / 3),
        "passes": 6,
    }


def test_unsteady_rate_has_no_penalty() -> None:
    facts = steady_facts(rounds([10, 90, 20, 80, 30, 70, 10]), BLOCK, 100 * BLOCK)
    assert facts["steady"] is False and "20%" in str(facts["unsteady"])
    assert facts["fresh_per_second"] == pytest.approx(50)
    assert facts["steady_after_ns"] is facts["steady_per_second"] is facts["penalty_percent"] is None


def test_a_faster_first_pass_has_a_negative_penalty() -> None:
    facts = steady_facts(rounds([200, 100, 100, 100, 100, 100]), BLOCK, 200 * BLOCK)
    assert facts["penalty_percent"] == pytest.approx(-100)


# -- fio ----------------------------------------------------------------------------------------------------------


def command_options(io: IO, **how: Any) -> dict[str, str]:
    whole = {"ioengine": "libaio", "direct": True, "limit_ns": 1500 * MS, **how}
    _, *words = fiorun.build_command(io, Target(Path(), "volume"), **whole)
    return {name: value for name, _, value in (word.removeprefix("--").partition("=") for word in words)}


def test_fio_command_has_the_jobs_parameters() -> None:
    options = command_options(IO("randrw", BLOCK, 1 << 20, depth=8, jobs=2, read_percent=70, seed=3))
    wanted = {"rw": "randrw", "bs": "4096", "size": "1048576", "iodepth": "8", "numjobs": "2", "rwmixread": "70"}
    wanted |= {"ioengine": "libaio", "direct": "1", "runtime": "1500ms", "randseed": "3"}
    assert wanted.items() <= options.items() and "fdatasync" not in options
    # fio must not create the file.
    assert options["allow_file_create"] == "0"


def test_only_sequential_jobs_divide_the_area() -> None:
    options = command_options(IO("write", BLOCK, 10 * BLOCK, jobs=3))
    assert options["size"] == options["offset_increment"] == str(3 * BLOCK)
    assert "offset_increment" not in command_options(IO("randwrite", BLOCK, 10 * BLOCK, jobs=3))


def test_flushed_writes_go_through_the_page_cache() -> None:
    options = command_options(IO("write", BLOCK, 1 << 20, flush=True), ioengine="io_uring")
    assert options["fdatasync"] == "1" and options["direct"] == "0" and options["ioengine"] == "psync"


def kind(ios: int = 0, at_ms: int = 0, bins: dict[str, int] | None = None) -> dict[str, Any]:
    latencies = {"bins": bins or {}}
    return {
        "total_ios": ios,
        "io_bytes": ios * BLOCK,
        "runtime": at_ms,
        "lat_ns": latencies,
        "clat_ns": latencies,
        "slat_ns": {},
    }


def printing(directory: Path, *states: dict[str, Any], before: str = "") -> list[str]:
    """Returns the command of a program that prints these states of a job as fio does."""
    texts = [json.dumps({"jobs": [state]}, indent=2) for state in states]
    (directory / "output").write_text(before + "\n".join(texts) + "\n")
    return ["sh", "-c", "cat output; exit 0"]


def state(write: dict[str, Any], read: dict[str, Any] | None = None, error: int = 0) -> dict[str, Any]:
    both = {"read": read or kind(), "write": write, "sync": {"lat_ns": {}}}
    return {**both, "error": error, "job_runtime": 500, "usr_cpu": 10.0, "sys_cpu": 30.0}


@pytest.mark.usefixtures("processes")
def test_rounds_are_the_differences_of_fios_states(tmp_path: Path) -> None:
    states = [
        state(kind(8, 30, {"1000": 8})),
        state(kind(100, 250, {"1000": 100})),
        state(kind(400, 500, {"1000": 200, "5000": 200})),
    ]
    seen: list[Round] = []

    def enough(so_far: Sequence[Round]) -> bool:
        seen[:] = so_far
        return False

    words, io = printing(tmp_path, *states), IO("randwrite", BLOCK, 1 << 20)
    report = fiorun.run(words, Target(tmp_path, "volume"), io, 250 * MS, enough, "fio 3.33")
    # A state that was printed too early is counted in the first round.
    assert seen == [Round(250 * MS, 250 * MS, 100), Round(500 * MS, 250 * MS, 300)]
    assert [(point["from_ns"], point["operations"]) for point in report.series] == [(0, 100), (250 * MS, 300)]
    p99s = [point["p99_ns"] or 0 for point in report.series]
    assert [p99 // 100 for p99 in p99s] == [10, 50]
    assert (report.operations, report.items, report.elapsed_ns, report.bytes) == (400, 400, 500 * MS, 400 * BLOCK)
    assert report.cpu_ns == (50 * MS, 150 * MS)
    assert dict(report.latencies) == {1000: 200, 5000: 200}


@pytest.mark.usefixtures("processes")
def test_a_failed_request_is_counted_with_its_reason(tmp_path: Path) -> None:
    # fio counts the failed request as done.
    last = state(kind(11, 20, {"1000": 10}), error=28)
    words = printing(tmp_path, last, before="fio: pid=1, err=28/file:io_u.c:1876, func=io_u error\n")
    report = fiorun.run(words, Target(tmp_path, "volume"), IO("randwrite", BLOCK, 1 << 20), 0, None, "fio 3.33")
    assert (report.operations, report.items, report.errors, report.bytes) == (11, 10, 1, 10 * BLOCK)
    assert report.first_error == "No space left on device"


@pytest.mark.usefixtures("processes")
def test_job_without_report_fails_with_its_output(tmp_path: Path) -> None:
    words = ["sh", "-c", "echo fio: bad option; exit 1"]
    with pytest.raises(fiorun.Failed, match="status 1: fio: bad option"):
        fiorun.run(words, Target(tmp_path, "volume"), IO("read", BLOCK, 1 << 20), 0, None, "fio 3.33")


# -- dd -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("processes")
def test_dd_reports_bytes_and_flush_time(tmp_path: Path) -> None:
    report = ddrun.run(Target(tmp_path, "copy"), "plain", BLOCK, 10 * BLOCK)
    assert (report.items, report.bytes, report.errors, report.first_error) == (10, 10 * BLOCK, 0, None)
    assert (tmp_path / "copy").read_bytes() == bytes(10 * BLOCK)
    assert report.facts["flush_after_ns"] and report.tool.startswith("dd ")
    assert not report.latencies, "it tells none"


def test_dd_never_truncates_a_device(tmp_path: Path) -> None:
    for how in ("plain", "urandom", "fdatasync", "direct"):
        words = ddrun.build_command(Target(tmp_path, "/proc/self/fd/9", (9,)), how, BLOCK, BLOCK)
        assert any("notrunc" in word for word in words), words


@pytest.mark.usefixtures("processes")
def test_a_failure_of_dd_is_reported(tmp_path: Path) -> None:
    report = ddrun.run(Target(tmp_path, "nowhere/copy"), "plain", BLOCK, 10 * BLOCK)
    assert report.errors == 1 and report.items == 0 and "nowhere/copy" in str(report.first_error)


# -- parameters ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"), [("512", 512), ("4k", 4096), ("4K", 4096), ("1m", 1 << 20), ("2g", 1 << 31), (4096, 4096)]
)
def test_size_accepts_a_unit_letter(text: object, value: int) -> None:
    (area,) = (setting for setting in registry.suite("volume").params if setting.name == "area")
    assert area.read(text, "") == value


@pytest.mark.parametrize("text", ["", "0", "1", "513", "-4k", "k", "4x", "4.5k", "99999999999g"])
def test_size_must_be_a_multiple_of_512(text: str) -> None:
    (block,) = (setting for setting in registry.suite("volume").params if setting.name == "block_size")
    with pytest.raises(UsageError, match="a multiple of 512"):
        block.read(text, "suite volume: parameter")
