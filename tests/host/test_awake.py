"""Keeping cores awake during a run: one process of idle priority per core. These processes end with the run, and
their usage isn't counted. If one dies the run stops, and runs with and without awake cores are never compared.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from shell import Shell, is_one_line, small, wait_for

from dyno.host import keep_awake
from dyno.host.keep_awake import CannotKeepAwake

PLAN = ("run", "records", "-e", "waiter,memory", *small(samples=2))
CORES = sorted(os.sched_getaffinity(0))


def allowed() -> str | None:
    try:
        with keep_awake.keep_cores_awake():
            return None
    except CannotKeepAwake as error:
        return str(error)


pytestmark = [
    pytest.mark.usefixtures("processes"),
    pytest.mark.serial,
    pytest.mark.skipif(bool(why := allowed()), reason=why or ""),
]


@pytest.fixture
def shell(shell: Shell) -> Shell:
    """The first trial of the engine `waiter` passes; its second waits for `open_gate`."""
    shell.close_gate(passing=1)
    return shell


@contextmanager
def waiting(shell: Shell) -> Iterator[subprocess.Popen[str]]:
    """A run with its cores kept awake, in the middle of a trial."""
    with shell.started(*PLAN, "--awake", "-o", shell.file) as process:
        arrived = wait_for(lambda: len(shell.at_gate()) == 2)
        assert arrived, process.poll()
        yield process


def idlers(shell: Shell) -> dict[int, set[int]]:
    """The run's processes of idle priority, with the cores that each may use."""
    cores = {}
    for pid in shell.alive():
        # The process may have ended.
        with suppress(ProcessLookupError):
            if os.sched_getscheduler(pid) == os.SCHED_IDLE:
                cores[pid] = os.sched_getaffinity(pid)
    return cores


def parents(pid: int) -> Iterator[int]:
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        yield pid


@pytest.mark.claim("--awake keeps each core awake by processes that no usage includes and that end with the run")
def test_idle_process_runs_on_each_core_outside_trials(shell: Shell) -> None:
    with waiting(shell) as process:
        idle = idlers(shell)
        assert sorted(map(sorted, idle.values())) == [[core] for core in CORES]
        # The idle processes are children of the run, not of a process whose usage or memory is measured.
        worker = next(pid for pid in shell.alive() if "/trial-" in str(Path(f"/proc/{pid}/cwd").readlink()))
        for pid in idle:
            assert process.pid in parents(pid) and worker not in parents(pid)
        if Path("/proc/self/autogroup").exists():
            # If the kernel balances sessions against each other, their session has the least weight.
            assert {Path(f"/proc/{pid}/autogroup").read_text().split()[-1] for pid in idle} == {"19"}
        shell.open_gate()
        process.communicate()
        assert process.returncode == 0
        assert shell.strays() == []
    for attempt in shell.attempts():
        # Unknown, because the idle processes wait for a core whenever another process works.
        assert attempt["strain"]["cpu_stall_ns"] is None
        assert attempt["strain"]["elapsed_ns"] > 0


def killed(shell: Shell, process: subprocess.Popen[str]) -> None:
    process.kill()


def interrupted(shell: Shell, process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGINT)


@pytest.mark.claim("--awake keeps each core awake by processes that no usage includes and that end with the run")
@pytest.mark.parametrize("end", [killed, interrupted])
def test_idle_processes_end_with_killed_or_interrupted_run(
    shell: Shell, end: Callable[[Shell, subprocess.Popen[str]], None]
) -> None:
    with waiting(shell) as process:
        assert len(idlers(shell)) == len(CORES)
        end(shell, process)
        process.communicate()
        assert shell.strays() == []


@pytest.mark.claim("A sample is discarded if a core slept that should have been awake")
def test_trial_is_discarded_when_an_idle_process_dies(shell: Shell) -> None:
    with waiting(shell) as process:
        before, found = shell.trial_lines(), idlers(shell)
        os.kill(next(iter(found)), signal.SIGKILL)
        assert wait_for(lambda: not idlers(shell), seconds=10), "the others end, too"
        shell.open_gate()
        out, err = process.communicate()
        assert (process.returncode, out) == (2, "")
        assert (
            is_one_line(err)
            and "can't be kept awake: a process that kept a core awake was killed" in err
            and "--resume" in err
        )
        assert shell.strays() == []
    assert shell.trial_lines() == before
    status, _, err = shell.dyno(*PLAN, "--awake", "-o", shell.file, "--resume")
    assert status == 0, err
    assert shell.shown()["complete"] is True


# -- if cores can't be kept awake --------------------------------------------------------------------------------

FORBIDDING = """
import os
def forbidden(*_):
    raise PermissionError(1, "Operation not permitted")
os.sched_setscheduler = forbidden
"""


@pytest.mark.claim("Keeping cores awake is refused where it would use up a CPU limit or is not allowed")
def test_awake_without_permission_is_a_one_line_error(shell: Shell, tmp_path: Path) -> None:
    """Imitates a container whose rules forbid the system call."""
    place = tmp_path / "forbidding"
    place.mkdir()
    (place / "sitecustomize.py").write_text(FORBIDDING)
    shell.plugins = [place]
    status, out, err = shell.dyno("run", "records", "-e", "memory", *small(), "--awake", "-o", shell.file)
    assert (status, out) == (2, "")
    assert is_one_line(err) and "idle priority is not allowed here (Operation not permitted)" in err
    assert not shell.file.exists() and shell.strays() == []


Plant = Callable[[Mapping[str, str]], Path]


@pytest.mark.claim("Keeping cores awake is refused where it would use up a CPU limit or is not allowed")
@pytest.mark.parametrize(("quota", "refused"), [(len(CORES) - 0.5, True), (len(CORES), False), (None, False)])
def test_awake_is_refused_if_cpu_quota_is_short(plant: Plant, quota: float | None, refused: bool) -> None:
    limit = "max 100000" if quota is None else f"{int(quota * 100_000)} 100000"
    root = plant({"proc/self/cgroup": "0::/app\n", "sys/fs/cgroup/app/cpu.max": limit})
    if not refused:
        keep_awake.check(root)
        return
    with pytest.raises(CannotKeepAwake, match=f"allows the CPU time of {quota:g} of {len(CORES)} cores"):
        keep_awake.check(root)


# -- in reports ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shell, Path, Path]]:
    """A run with awake cores, by a plan file, and one without."""
    home = tmp_path_factory.mktemp("both")
    shell = Shell(home, home / "work")
    (home / "plan.toml").write_text(
        'suite = "records"\nengine = ["memory"]\nphases = ["rand-key"]\nsamples = 2\nawake = true\n'
        "[param]\nrecords = 300\n"
    )
    files = []
    for name, flags in (("kept.json", []), ("slept.json", ["--no-awake"])):
        files.append(home / name)
        status, _, err = shell.dyno("run", "plan.toml", *flags, "-o", files[-1])
        assert status == 0, err
    yield shell, files[0], files[1]
    shell.kill_strays()


@pytest.mark.claim("Runs with and without --awake are in no ratio, and each report says which it is")
def test_run_file_and_every_report_state_awake(both: tuple[Shell, Path, Path]) -> None:
    shell, kept, slept = both
    for path, awake_ in ((kept, True), (slept, False)):
        assert json.loads(path.read_text().splitlines()[0])["plan"]["awake"] is awake_
        for words in (["show", path], ["show", path, "--markdown"]):
            assert ("cores kept awake" in shell.dyno(*words).out) is awake_, words
        assert json.loads(shell.dyno("show", path, "--json").out)["plan"]["awake"] is awake_
        head, *lines = shell.dyno("show", path, "--csv").out.splitlines()
        at = head.split(",").index("awake")
        assert {line.split(",")[at] for line in lines} == {str(awake_)}
        status, out, _ = shell.dyno("compare", path, path)
        assert status == 0
        assert ("Measured with the cores kept awake." in out) is awake_
        assert json.loads(shell.dyno("compare", path, path, "--json").out)["awake"] is awake_


@pytest.mark.claim("Runs with and without --awake are in no ratio, and each report says which it is")
@pytest.mark.parametrize("words", [("compare",), ("check", "--against")])
@pytest.mark.parametrize("turned", [False, True])
def test_runs_with_and_without_awake_are_not_compared(
    both: tuple[Shell, Path, Path], words: tuple[str, ...], turned: bool
) -> None:
    shell, kept, slept = both
    one, other = (slept, kept) if turned else (kept, slept)
    command, *flags = words
    status, out, err = shell.dyno(command, one, *flags, other)
    assert (status, out) == (2, "")
    assert is_one_line(err)
    assert f"{kept} was measured with --awake and {slept} without" in err
    assert "both with --awake, or both without" in err


def test_resume_with_other_awake_setting_is_refused(both: tuple[Shell, Path, Path]) -> None:
    shell, kept, slept = both
    for path, flag, was in ((kept, "--no-awake", True), (slept, "--awake", False)):
        status, out, err = shell.dyno("run", "plan.toml", flag, "-o", path, "--resume")
        assert (status, out) == (2, "")
        assert is_one_line(err) and f"made by another plan (awake was {was})" in err


def test_run_file_lacking_awake_counts_as_not_awake(both: tuple[Shell, Path, Path], tmp_path: Path) -> None:
    shell, kept, slept = both
    header, *trials = slept.read_text().splitlines()
    data: dict[str, Any] = json.loads(header)
    del data["plan"]["awake"], data["host"]["wakeups"]
    old = tmp_path / "old.json"
    old.write_text("\n".join([json.dumps(data), *trials]) + "\n")
    assert shell.dyno("run", "plan.toml", "--no-awake", "-o", old, "--resume").status == 0
    status, out, _ = shell.dyno("compare", old, slept)
    assert status == 0 and "no recorded difference" in " ".join(out.split())
    assert shell.dyno("compare", old, kept).status == 2


def test_awake_in_plan_file_must_be_boolean(shell: Shell) -> None:
    (shell.home / "plan.toml").write_text('suite = "records"\nawake = "yes"\n')
    status, _, err = shell.dyno("run", "plan.toml")
    assert status == 2 and is_one_line(err)
    assert "awake: expected true or false, got 'yes'" in err
