"""`dyno run --profile`: one more trial of each row says where its CPU time goes, and changes no figure."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from shell import FAULTY, Shell, small, wait_for

from dyno import results
from dyno.contracts.profile import MOST_FRAMES, OTHERS, Frame, ProfiledTrial
from dyno.host import perf, strace
from dyno.measure.profiler import reduce_stacks
from dyno.report import export
from dyno.stats.profile import list_profiles

pytestmark = pytest.mark.usefixtures("processes")

TROUBLE = {"perf": perf.find_trouble(), "strace": strace.find_trouble()}
needs_perf = pytest.mark.skipif(TROUBLE["perf"] is not None, reason=str(TROUBLE["perf"]))
needs_strace = pytest.mark.skipif(TROUBLE["strace"] is not None, reason=str(TROUBLE["strace"]))
SYNTHETIC = "fast=synthetic,slow=synthetic:slower=300,calls=synthetic:calls=50"


def profiles(shell: Shell) -> dict[str, ProfiledTrial]:
    """The profiled trials of the run file, by the label of their row."""
    run = results.load(shell.file)
    return {run.cells[profiled.cell].label: profiled for profiled in run.profiled}


@needs_perf
def test_profile_names_the_function_that_takes_the_time(shell: Shell) -> None:
    options = ("--samples", 1, "--duration", "0.5", "--profile", "-o", shell.file)
    status, _, err = shell.dyno("run", "selftest", "-e", SYNTHETIC, *options)
    assert status == 0, err
    by_row = {profile.cell.label: profile for profile in list_profiles(results.load(shell.file))}
    assert [*by_row] == ["fast", "slow", "calls"], "null engines have no profile"
    assert by_row["slow"].samples > 20
    (_, function), share = next(iter(by_row["slow"].functions().items()))
    assert function == "binascii_crc_hqx"
    assert share > 0.5
    if not perf.hides_kernel():
        kernel = {name: profile.libraries().get(perf.KERNEL, 0.0) for name, profile in by_row.items()}
        assert kernel["calls"] > kernel["slow"] + 0.1
    printed = shell.dyno("why", shell.file).out
    assert "binascii_crc_hqx (" in printed
    assert "Profiles: shares of the CPU time" in printed
    first, *_ = json.loads(shell.dyno("why", shell.file, "--json").out)["profiles"]
    assert first["engine"] == "synthetic"
    assert first["functions"][0]["function"] == "binascii_crc_hqx"


@needs_perf
def test_profile_of_records_is_small_and_changes_no_figure(shell: Shell) -> None:
    options = small(samples=2, param_records=2000, phases="insert,get")
    status, _, err = shell.dyno("run", "records", "-e", "lmdb,sqlite", *options, "--profile", "-o", shell.file)
    assert status == 0, err
    trials = profiles(shell)
    assert [*trials] == ["lmdb", "sqlite"]
    for profiled in trials.values():
        assert profiled.outcome == "ok"
        assert [each.phase for each in profiled.phases] == list(results.load(shell.file).plan.phases)
        assert profiled.missing == []
    lines = shell.file.read_bytes().splitlines(keepends=True)
    for line in lines:
        if b'"kind":"profile"' in line:
            assert len(line) < 100_000
    with_profiles = results.load(shell.file)
    shell.file.write_bytes(b"".join(line for line in lines if b'"kind":"profile"' not in line))
    without = results.load(shell.file)
    assert without.profiled == ()
    assert export.as_json(with_profiles) == export.as_json(without)
    assert with_profiles.progress == without.progress


@needs_perf
def test_profile_of_client_and_server_has_no_profiler_in_it(shell: Shell) -> None:
    options = ("--samples", 1, "--duration", "0.5", "--profile", "-o", shell.file)
    status, _, err = shell.dyno("run", "selftest", "-e", "synthetic:server=yes", *options)
    assert status == 0, err
    (profile,) = list_profiles(results.load(shell.file))
    assert profile.profile is not None
    assert profile.profile.server is not None
    assert {stack[0] for stack in profile.stacks} == {("client", "client")}, "the server only sleeps"
    assert "perf" not in profile.libraries()


@needs_perf
def test_profiles_are_added_to_a_run_without(shell: Shell) -> None:
    plan = ("run", "records", "-e", "lmdb", *small(samples=1), "-o", shell.file)
    assert shell.dyno(*plan).status == 0
    before = shell.file.read_bytes()
    assert profiles(shell) == {}
    assert shell.dyno(*plan, "--profile", "--resume").status == 0
    assert [*profiles(shell)] == ["lmdb"]
    after = shell.file.read_bytes()
    assert after.startswith(before), "written lines never change"
    assert shell.dyno(*plan, "--profile", "--resume").status == 0
    assert shell.file.read_bytes() == after, "a row is profiled once"


@needs_perf
def test_profile_comes_after_the_last_block(shell: Shell) -> None:
    plan = ("run", "records", "-e", "lmdb", *small(samples=2), "--profile", "-o", shell.file)
    assert shell.dyno(*plan, "--blocks", 1).status == 0
    assert profiles(shell) == {}
    assert shell.dyno(*plan, "--resume").status == 0
    assert [*profiles(shell)] == ["lmdb"]


@needs_perf
def test_run_that_ended_by_itself_stays_ended_with_profiles(shell: Shell) -> None:
    plan = ("run", "selftest", "-e", "synthetic", "--until", "90%", "--budget", "0.05", "--within", 30)
    status, _, err = shell.dyno(*plan, "--profile", "-o", shell.file)
    assert status == 0, err
    assert [*profiles(shell)] == ["synthetic"]
    assert results.load(shell.file).complete
    # A version that doesn't know profiles takes the last line.
    assert json.loads(shell.file.read_text().splitlines()[-1])["kind"] == "end"


@needs_perf
def test_interrupted_profile_leaves_a_complete_run(shell: Shell) -> None:
    gate = shell.home / "gate"
    gate.mkdir()
    shell.plugins = [FAULTY]
    shell.given = {"FAULTY_GATE": str(gate), "FAULTY_FREE": "1"}
    plan = ("run", "records", "-e", "waiter", *small(samples=1), "--profile", "-o", shell.file)
    with shell.started(*plan) as process:
        # The second trial is the profiled one, and waits.
        assert wait_for(lambda: len(list(gate.glob("arrived-*"))) == 2), process.poll()
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert "--resume" in err
    assert shell.left() == []
    assert not shell.strays()
    assert results.load(shell.file).complete
    assert profiles(shell) == {}
    (gate / "open").touch()
    assert shell.dyno(*plan, "--resume").status == 0
    assert [*profiles(shell)] == ["waiter"]


@needs_perf
def test_row_without_a_number_is_not_profiled(shell: Shell) -> None:
    shell.plugins = [FAULTY]
    options = ("--retries", 0, *small(samples=1), "--profile", "-o", shell.file)
    assert shell.dyno("run", "records", "-e", "crasher:after=0,memory", *options).status == 1
    assert [*profiles(shell)] == ["memory"]


def test_run_without_perf_says_how_to_get_it(shell: Shell, tmp_path: Path) -> None:
    shell.given = {"PATH": str(tmp_path)}
    status, _, err = shell.dyno("run", "records", "-e", "memory", *small(samples=1), "--profile", "-o", shell.file)
    assert status == 0, err
    assert "no profiles: perf not found: on Debian, install the package linux-perf" in err
    assert "system calls are not counted: strace not found: on Debian, install the package strace" in err
    assert profiles(shell) == {}
    assert results.load(shell.file).complete


@needs_strace
def test_system_calls_of_an_item_are_counted_without_perf(shell: Shell, tmp_path: Path) -> None:
    for program in ("strace", "sleep"):
        path = shutil.which(program)
        assert path is not None
        (tmp_path / program).symlink_to(path)
    shell.given = {"PATH": str(tmp_path)}
    options = ("--samples", 1, "-p", "operations=1000", "--budget", "0.1", "--profile", "-o", shell.file)
    status, _, err = shell.dyno("run", "selftest", "-e", SYNTHETIC, *options)
    assert status == 0, err
    assert "no profiles" in err
    calls = {profile.cell.label: profile.calls() for profile in list_profiles(results.load(shell.file))}
    assert calls["calls"]["getppid"] == pytest.approx(50, rel=0.1)
    assert calls["fast"].get("getppid", 0.0) < 1
    assert " getppid" in shell.dyno("why", shell.file).out


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo Error: >&2; echo 'No permission to enable cpu-clock event.' >&2; exit 255", "No permission to enable"),
        ("exit 1", "it printed nothing"),
    ],
)
def test_refused_perf_is_explained(
    script: str, why: str, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "perf"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    trouble = perf.find_trouble()
    assert trouble is not None
    assert why in trouble or "perf_event_paranoid" in trouble


def test_profile_excludes_a_search_and_remote_clients(shell: Shell) -> None:
    _, _, err = shell.dyno("run", "records", "-e", "memory", "--limit", "p99<5ms", "--profile", *small()[:2])
    assert "limit and profile exclude each other" in err
    _, _, err = shell.dyno("run", "records", "-e", "memory", "--load-from", "tls://host:1", "--profile")
    assert "profile and load-from exclude each other" in err


SCRIPT = """
    ffffffff8138 __task_pid_nr_ns ([kernel.kallsyms])
    ffffffff8139 do_syscall_64 ([kernel.kallsyms])
           d54f7 __GI___getppid (/usr/lib/x86_64-linux-gnu/libc.so.6)
    7f134a25b000 [unknown] ([unknown])


           1c70c core::ptr::drop::h0123456789abcdef (/x/lmdb/cpython.cpython-311-x86_64-linux-gnu.so (deleted))

              12 operator() (bool) (/x/python3.11/site-packages/db.abi3.so)

              12 jitted (/tmp/perf-12.map)

              12 [unknown] ([unknown])
"""


SUMMARY = """
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 61.47    0.251939        3149        80        40 wait4
 21.81    0.089371           2     39385           getppid
------ ----------- ----------- --------- --------- ----------------
100.00    0.341310           8     39465        40 total
"""


def test_calls_are_parsed_with_and_without_errors() -> None:
    assert strace.parse_summary(SUMMARY.splitlines()) == {"wait4": 80, "getppid": 39385}


def test_stacks_are_parsed_without_paths_and_wrong_addresses() -> None:
    stacks = list(perf.parse_stacks(iter(SCRIPT.splitlines())))
    assert stacks == [
        (("libc.so.6", "__GI___getppid"), ("[kernel]", "do_syscall_64"), ("[kernel]", "__task_pid_nr_ns")),
        (("lmdb/cpython.so", "core::ptr::drop"),),
        (("db.so", "operator() (bool)"),),
        (("[jit]", "jitted"),),
        (("[unknown]", "[unknown]"),),
    ]


def test_reduced_stacks_keep_the_share_of_each_function() -> None:
    samples: dict[tuple[Frame, ...], int] = {(("a", "main"), ("b", f"f{at}")): 1000 - at for at in range(900)}
    samples[(("a", "main"),)] = 5
    whole = reduce_stacks(samples, 1 << 20)
    assert {tuple(stack): count for stack, count in whole.named()} == samples
    small_stacks = reduce_stacks(samples, 20_000)
    assert small_stacks.samples == whole.samples
    assert len(json.dumps([small_stacks.frames, small_stacks.stacks, small_stacks.counts])) < 25_000
    kept = {stack[-1]: count for stack, count in small_stacks.named() if stack[-1] != (OTHERS, OTHERS)}
    assert all(count == samples[(("a", "main"), frame)] for frame, count in kept.items())
    assert len(kept) > 100
    many = reduce_stacks({(("a", f"f{at}"),): 1 for at in range(2 * MOST_FRAMES)}, 1 << 30)
    assert len(many.frames) <= MOST_FRAMES


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"cell": 9}, "cell: 9 of"),
        ({"phases": [{"phase": "nothing", "items": 1}]}, "is not in the plan"),
        (
            {"phases": [{"phase": "work", "items": 1, "client": {"frames": [], "stacks": [[0]], "counts": [1]}}]},
            "not listed",
        ),
        (
            {"phases": [{"phase": "work", "items": 1, "client": {"frames": [], "stacks": [], "counts": [1]}}]},
            "counts",
        ),
    ],
)
def test_damaged_profile_is_refused(changed: dict[str, Any], why: str) -> None:
    from dyno.results.read import profiled_trial

    data = {"cell": 0, "outcome": "ok", "started": "2026-01-01T00:00:00+00:00", "duration_ns": 1, "phases": []}
    assert profiled_trial(data, 1, {"work"}).phases == []
    with pytest.raises(ValueError, match=why):
        profiled_trial({**data, **changed}, 1, {"work"})
