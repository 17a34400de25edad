"""Tests the memory limit of trials: page cache is reclaimed, allocations beyond the limit are refused, and no control
group is left, however a run ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from shell import DISK, FAULTY, Shell, is_one_line, small, wait_for

from dyno.contracts.model import UsageError
from dyno.host import confine
from dyno.host.confine import CannotConfine, ControlGroup, create_group
from dyno.host.procfs import Mount
from dyno.options import RunRequest
from dyno.runner import parent, plan

pytestmark = pytest.mark.usefixtures("processes")

MIB = 1 << 20
LIMIT = 64 * MIB


def unavailable() -> str | None:
    try:
        with confine.create_group(LIMIT, DISK / "tried.group"):
            pass
    except CannotConfine as error:
        return str(error)
    return None


needs_groups = pytest.mark.skipif(bool(why := unavailable()), reason=why or "")


@contextmanager
def started(group: ControlGroup, program: str) -> Iterator[subprocess.Popen[str]]:
    """Starts a process in the group that waits for a line before it runs the program."""
    words = [sys.executable, "-c", f"import os, subprocess, sys; sys.stdin.readline(); {program}"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        group.add(process.pid)
        yield process
        process.kill()


def ended(group: ControlGroup, program: str) -> tuple[int, str]:
    with started(group, program) as process:
        out, _ = process.communicate("go\n", timeout=60)
        return process.returncode, out


def groups() -> set[Path]:
    return {path for above, _ in confine._parents() for path in above.glob(f"{confine.PREFIX}*")}


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return tmp_path / "trial.group"


@pytest.mark.claim("A confined trial is held to its limit, and is not killed for what it reads")
@needs_groups
def test_process_reading_beyond_the_limit_survives(place: Path, record: Path) -> None:
    file = place / "large"
    with file.open("wb") as out:
        for _ in range(256):
            out.write(os.urandom(MIB))
        out.flush()
        os.fsync(out.fileno())
        os.posix_fadvise(out.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with create_group(LIMIT, record) as group:
        assert group.limit_bytes == LIMIT
        read = f"print(sum(len(part) for part in iter(lambda f=open({str(file)!r}, 'rb'): f.read(1 << 20), b'')))"
        assert ended(group, read) == (0, f"{256 * MIB}\n")
        assert not group.killed
        used = "memory.current" if group.version == 2 else "memory.usage_in_bytes"
        assert int((group.path / used).read_text()) <= LIMIT
        peak = group.peak_bytes
        # The group came close to its limit.
        assert peak is None or LIMIT // 2 < peak <= LIMIT


@pytest.mark.claim("A confined trial is held to its limit, and is not killed for what it reads")
@needs_groups
def test_process_allocating_beyond_the_limit_is_killed(record: Path) -> None:
    with create_group(LIMIT, record) as group:
        assert ended(group, "b = bytearray(os.urandom(1 << 20)) * 200; print(len(b))") == (-signal.SIGKILL, "")
        assert group.killed
    with create_group(4 * LIMIT, record) as group:
        assert ended(group, "b = bytearray(os.urandom(1 << 20)) * 100; print(len(b))") == (0, f"{100 * MIB}\n")
        assert not group.killed


@needs_groups
def test_child_processes_are_confined_too(record: Path) -> None:
    with create_group(LIMIT, record) as group:
        inner = "import os; b = bytearray(os.urandom(1 << 20)) * 200"
        status, out = ended(group, f"print(subprocess.run([sys.executable, '-c', {inner!r}]).returncode)")
        assert (status, out) == (0, f"{-signal.SIGKILL}\n") and group.killed


@needs_groups
def test_group_and_its_processes_end_with_the_block(record: Path) -> None:
    before = groups()
    with create_group(LIMIT, record) as group:
        assert groups() - before == {group.path} and record.read_text().strip() == str(group.path)
        left = subprocess.Popen(["sleep", "600"])
        group.add(left.pid)
    assert left.wait(10) == -signal.SIGKILL
    assert groups() == before and not record.exists()


@needs_groups
def test_clear_removes_only_recorded_control_groups(tmp_path: Path, record: Path) -> None:
    other = tmp_path / "dyno-mine"
    other.mkdir()
    (tmp_path / "other.group").write_text(f"{other}\n")
    with create_group(LIMIT, record) as group:
        confine.clear(tmp_path)
        assert not group.path.exists()
    assert other.exists(), "it is no control group"


# -- in a run -----------------------------------------------------------------------------------------------------


@pytest.fixture
def shell(shell: Shell) -> Iterator[Shell]:
    """A shell that also removes the control groups of failed tests."""
    yield shell
    shell.kill_strays()
    for record in shell.work.rglob("*.group"):
        confine.clear(record.parent)


@pytest.mark.claim("A confined trial is held to its limit, and is not killed for what it reads")
@needs_groups
def test_confined_run_reports_limit_and_leaves_no_group(shell: Shell) -> None:
    before = groups()
    status, out, err = shell.dyno("run", "records", "-e", "lmdb", *small(confine=0.25, samples=1), "-o", shell.file)
    assert status == 0, err
    assert "trials confined to 256 MiB of memory" in out
    (took,) = (line for line in out.splitlines() if line.startswith("Peak of anonymous memory") and ": lmdb " in line)
    assert took.endswith(" MiB") and 1 < float(took.split()[-2]) < 256
    assert json.loads(shell.file.read_text().splitlines()[0])["plan"]["confine"] == 256 * MIB
    assert groups() == before and shell.left() == []
    # While the trial runs, its process is in the group.
    shell.close_gate(passing=0)
    asked = ("run", "records", "-e", "waiter", *small(confine=0.25, samples=1), "-o", "w.json")
    with shell.started(*asked) as process:
        assert wait_for(shell.at_gate)
        (arrived,) = shell.at_gate()
        (group,) = groups() - before
        assert str(arrived) in (group / "cgroup.procs").read_text().split()
        process.send_signal(signal.SIGINT)
        process.wait(60)
    assert groups() == before


@needs_groups
def test_trial_beyond_its_limit_is_out_of_memory(shell: Shell) -> None:
    shell.plugins = [FAULTY]
    asked = small(confine=0.2, memory=8, retries=0, samples=1)
    shell.dyno("run", "records", "-e", "leaker", *asked, "-o", shell.file)
    (attempt,) = shell.attempts("leaker")
    assert (attempt["outcome"], attempt["why"]) == (
        "out-of-memory",
        "killed by the kernel: confined to 0.20 GiB of memory",
    )


@needs_groups
def test_prepared_inputs_fit_beside_the_engine(shell: Shell) -> None:
    """In blocks of 32 MiB, the inputs alone took more than the limit."""
    asked = ("-e", "numpy_memmap", "-p", "shape=128x256x512", "-p", "chunks=64x64x64", "--phases", "write")
    shell.dyno("run", "ndarrays", *asked, "--confine", "90MiB", "--samples", "1", "-o", shell.file)
    for engine in ("numpy_memmap", "null"):
        (attempt,) = shell.attempts(engine)
        assert attempt["outcome"] == "ok", attempt["why"]
        (sample,) = attempt["samples"]
        assert sample["void"] is None and sample["operations"] == 16


@pytest.mark.claim("A confined trial is held to its limit, and is not killed for what it reads")
@needs_groups
def test_next_run_removes_group_of_killed_run(shell: Shell) -> None:
    before = groups()
    shell.close_gate(passing=0)
    asked = ("run", "records", "-e", "waiter", *small(confine=0.25, samples=1), "-o", "w.json")
    with shell.started(*asked) as process:
        assert wait_for(shell.at_gate)
        process.kill()
        process.wait(60)
        assert len(groups() - before) == 1
        shell.open_gate()
        status, _, err = shell.dyno("run", "records", "-e", "memory", *small(samples=1), "-o", shell.file)
        assert status == 0, err
        assert groups() == before


# -- if memory can't be limited -----------------------------------------------------------------------------------


def test_missing_memory_controller_refuses_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confine, "_parents", lambda: iter(()))
    made = plan.make(RunRequest("records", ["memory"], confine=LIMIT, samples=1))
    with pytest.raises(UsageError) as raised:
        parent.execute(made, tmp_path / "r.json", tmp_path / "work")
    assert is_one_line(f"{raised.value}\n") and "run as root, or in a group that is yours" in str(raised.value)
    assert not (tmp_path / "r.json").exists()


@pytest.mark.parametrize("flag", ["--confine", "--memory"])
def test_limit_below_interpreter_size_is_refused(shell: Shell, flag: str) -> None:
    status, _, err = shell.dyno("run", "records", "-e", "memory", flag, "0.01", "-o", shell.file)
    assert status == 2 and is_one_line(err) and flag in err


def test_cgroup_v2_group_is_made_as_a_sibling(tmp_path: Path, record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group with processes can't pass its controllers on, so the new group is a sibling."""
    mount = tmp_path / "cgroup"
    own = mount / "user.slice" / "ours.scope"
    own.mkdir(parents=True)
    (own / "cgroup.subtree_control").write_text("\n")
    (own.parent / "cgroup.subtree_control").write_text("cpu memory\n")
    (mount / "cgroup.subtree_control").write_text("cpu\n")
    cgroup2 = Mount(str(mount), "0:26", "cgroup2", "cgroup2", ("rw",))
    monkeypatch.setattr(confine, "mounts", lambda: [cgroup2])
    lines = {"cgroup": ["0::/user.slice/ours.scope"]}
    monkeypatch.setattr(confine, "read_lines", lambda file: lines.get(file.name, []))
    monkeypatch.setattr(confine, "PATIENCE_SECONDS", 0)
    with create_group(LIMIT, record) as group:
        assert (group.path.parent, group.version, group.limit_bytes) == (own.parent, 2, LIMIT)
        assert (group.path / "memory.swap.max").read_text() == "0"
        group.add(4711)
        assert (group.path / "cgroup.procs").read_text() == "4711"
