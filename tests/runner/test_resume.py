"""An interrupted run can be read, and resumes where it stopped.

Guards rule 4 of measuring: the run file is appended to after every trial, written lines never change, no process and
no directory outlives a run, and a file with another plan is refused.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from shell import Ended, Shell, is_one_line, small, wait_for

pytestmark = pytest.mark.usefixtures("processes")

PLAN = ("run", "records", "-e", "waiter,memory", *small(samples=2))


@pytest.fixture
def gated(shell: Shell) -> Shell:
    """The first trial of the engine `waiter` passes; its second waits for `open_gate`."""
    shell.close_gate(passing=1)
    return shell


@contextmanager
def waiting(shell: Shell) -> Iterator[subprocess.Popen[str]]:
    """A run in the middle of a trial of the second of two blocks."""
    with shell.started(*PLAN, "-o", shell.file) as process:
        arrived = wait_for(lambda: len(shell.at_gate()) == 2)
        assert arrived, process.poll()
        assert process.poll() is None
        block = shell.planned() // 2
        assert block <= shell.trial_lines() < 2 * block
        assert len(shell.left()) == 1
        yield process


def killed_parent(shell: Shell, process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)


def killed_both(shell: Shell, process: subprocess.Popen[str]) -> None:
    processes = shell.alive()
    assert process.pid in processes
    assert len(processes) == 3, "the parent, a worker, and what workers are forked from"
    for pid in processes:
        os.kill(pid, signal.SIGKILL)


def resume(shell: Shell) -> Ended:
    return shell.dyno(*PLAN, "-o", shell.file, "--resume")


def assert_complete(shell: Shell, before: bytes) -> None:
    """Checks that earlier lines are unchanged, each trial ran once, and nothing else is left."""
    after = shell.file.read_bytes()
    assert after.startswith(before)
    done = [(attempt["cell"], attempt["block"]) for attempt in shell.attempts()]
    assert len(done) == len(set(done)) == shell.planned()
    assert all(attempt["outcome"] == "ok" for attempt in shell.attempts())
    assert shell.shown()["complete"] is True
    assert shell.strays() == []
    assert shell.left() == []


@pytest.mark.claim("Each attempt is in the run file before the next begins, and a killed run resumes")
@pytest.mark.parametrize("kill", [killed_parent, killed_both])
def test_killed_run_is_readable_and_resumes(
    gated: Shell, kill: Callable[[Shell, subprocess.Popen[str]], None]
) -> None:
    with waiting(gated) as process:
        kill(gated, process)
        assert process.wait() == -signal.SIGKILL
        # The worker waits forever, so only the death of its parent can have ended it.
        assert gated.strays() == []
    before, done = gated.file.read_bytes(), gated.trial_lines()

    shown = gated.shown()
    assert shown["complete"] is False
    assert sum(cell["samples"] for cell in shown["cells"]) == done
    assert f"Not complete: {done} trials of {gated.planned()} have ended" in gated.dyno("show", gated.file).out
    assert gated.file.read_bytes() == before, "show does not write"

    gated.open_gate()
    ended = resume(gated)
    assert ended.status == 0, ended
    assert_complete(gated, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=str)
def test_interrupted_run_cleans_up_and_prints_resume_command(gated: Shell, number: signal.Signals) -> None:
    with waiting(gated) as process:
        # Signals the process group, like a terminal at Ctrl-C; the worker has another session and gets no signal.
        os.killpg(process.pid, number)
        out, err = process.communicate()
        assert process.returncode == 130
        assert gated.strays() == []
    assert gated.left() == []
    assert out == ""
    done = gated.trial_lines()
    hint, *_, last = err.splitlines()
    command = " ".join(map(str, ("dyno", *PLAN, "-o", gated.file, "--resume")))
    assert hint == f"{done} of {gated.planned()} trials are kept in {gated.file}; to continue: {command}"
    assert last == "dyno: interrupted"
    assert "Traceback" not in err
    assert gated.shown()["complete"] is False


def test_attempts_are_counted_across_resume(gated: Shell) -> None:
    gated.given["FAULTY_STATE"] = str(gated.home / "crashed")
    command = ("run", "records", "-e", "crash-once", *small(samples=1), "-o", gated.file)
    assert gated.dyno(*command).status == 0
    lines = gated.file.read_bytes().splitlines(keepends=True)
    crash = next(at for at, line in enumerate(lines) if b'"outcome":"crash"' in line)
    # Imitates a run that was killed between the crash and the second attempt.
    before = b"".join(lines[: crash + 1])
    gated.file.write_bytes(before)
    assert gated.dyno(*command, "--resume").status == 0
    assert gated.file.read_bytes().startswith(before)
    attempts = gated.attempts("crash-once")
    assert [(attempt["attempt"], attempt["outcome"]) for attempt in attempts] == [(0, "crash"), (1, "ok")]


# -- damaged files ----------------------------------------------------------------------------------------------

COMPLETE_PLAN = ("run", "records", "-e", "memory", *small(samples=2))
ONE_BLOCK = ("run", "records", "-e", "memory", *small(samples=1))


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The run file of a complete run: a header and at least four trials."""
    home = tmp_path_factory.mktemp("complete")
    shell = Shell(home, home / "work")
    ended = shell.dyno(*COMPLETE_PLAN, "-o", shell.file)
    assert ended.status == 0, ended
    assert shell.trial_lines() == shell.planned() >= 4
    return shell.file.read_bytes()


def torn(at: int, part: float) -> Callable[[bytes], tuple[bytes, bytes]]:
    """Returns a function that cuts a file within line `at`, and returns the whole lines and the torn file."""

    def tear(whole: bytes) -> tuple[bytes, bytes]:
        each = whole.splitlines(keepends=True)
        before, line = b"".join(each[:at]), each[at]
        return before, before + line[: max(int(len(line) * part), 1)]

    return tear


@pytest.mark.claim("Each attempt is in the run file before the next begins, and a killed run resumes")
@pytest.mark.parametrize(
    "tear",
    [
        pytest.param(torn(-1, 0.5), id="in the middle of the last line"),
        pytest.param(torn(1, 0.5), id="in the first trial"),
        pytest.param(
            lambda whole: (whole[: whole.rindex(b"\n", 0, -1) + 1], whole[:-1]),
            id="before the last end of line",
        ),
    ],
)
def test_torn_run_file_is_readable_and_resumes(
    shell: Shell, complete: bytes, tear: Callable[[bytes], tuple[bytes, bytes]]
) -> None:
    whole, found = tear(complete)
    shell.file.write_bytes(found)
    assert shell.dyno("show", shell.file).status == 0
    ended = shell.dyno(*COMPLETE_PLAN, "-o", shell.file, "--resume")
    assert ended.status == 0, ended
    assert_complete(shell, whole)


def test_resume_of_complete_run_does_nothing(shell: Shell, complete: bytes) -> None:
    shell.file.write_bytes(complete)
    ended = shell.dyno(*COMPLETE_PLAN, "-o", shell.file, "--resume")
    assert ended.status == 0
    assert ended.out == shell.dyno("show", shell.file).out
    assert shell.file.read_bytes() == complete
    assert shell.left() == []


def test_complete_run_is_resumed_with_more_samples(shell: Shell, complete: bytes) -> None:
    shell.file.write_bytes(complete)
    assert shell.dyno(*COMPLETE_PLAN, "--samples", "3", "-o", shell.file, "--resume").status == 0
    assert shell.file.read_bytes().startswith(complete)
    assert {attempt["block"] for attempt in shell.attempts()} == {0, 1, 2}
    shown = shell.dyno("show", shell.file).out
    assert "3 of 3 trials of each row" in shown
    # Without its last trials, the file is that of an interrupted run.
    shell.file.write_bytes(b"".join(shell.file.read_bytes().splitlines(keepends=True)[:-1]))
    assert "2 to 3 of 3 trials of each row" in shell.dyno("show", shell.file).out
    assert shell.dyno(*COMPLETE_PLAN, "--samples", "3", "-o", shell.file, "--resume").status == 0
    assert "3 of 3 trials of each row" in shell.dyno("show", shell.file).out


@pytest.mark.claim("A run is not resumed by another plan")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("-e", "sqlite"), "other engines, tiers or parameters"),
        (("-p", "value_size=99"), "other engines, tiers or parameters"),
        (("--samples", "1"), "samples was 2"),
        (("--seed", "9"), "seed was 1"),
        (("--phases", "scan"), "phases was ['rand-key']"),
        (("--rate", "100"), "other engines, tiers or parameters"),
        (("--warmup", "0.5"), "warmup was 0.0"),
        (("--arrivals", "poisson"), "arrivals was uniform"),
        (("--loop", "python"), "loop was auto"),
    ],
)
def test_resume_with_another_plan_is_refused(
    shell: Shell, complete: bytes, change: tuple[str, str], why: str
) -> None:
    shell.file.write_bytes(complete)
    ended = shell.dyno(*COMPLETE_PLAN, *change, "-o", shell.file, "--resume")
    assert ended == (2, "", f"dyno: {shell.file} can't be resumed: it was made by another plan ({why})\n")
    assert shell.file.read_bytes() == complete
    assert shell.left() == []


def test_an_existing_file_is_not_written_over(shell: Shell, complete: bytes) -> None:
    shell.file.write_bytes(complete)
    ended = shell.dyno(*COMPLETE_PLAN, "-o", shell.file)
    assert (ended.status, ended.out) == (2, "")
    assert is_one_line(ended.err)
    assert ended.err.startswith(f"dyno: {shell.file} exists: ")
    assert "--resume" in ended.err
    assert "--overwrite" in ended.err
    assert shell.file.read_bytes() == complete
    assert shell.left() == []


def test_overwriting_starts_a_new_file(shell: Shell, complete: bytes) -> None:
    # A torn file with another plan.
    shell.file.write_bytes(complete.replace(b'"seed":1', b'"seed":7')[:-100])
    assert shell.dyno(*ONE_BLOCK, "-o", shell.file, "--overwrite").status == 0
    assert_complete(shell, b"")
    assert shell.shown()["plan"]["seed"] == 1


TORN_HEADER = b'{"kind":"run","sche'


@pytest.mark.parametrize("content", [b"", b"{}\n", b"not a run\n"])
@pytest.mark.parametrize("flag", ["--resume", "--overwrite"])
def test_other_file_is_neither_resumed_nor_overwritten(shell: Shell, flag: str, content: bytes) -> None:
    shell.file.write_bytes(content)
    ended = shell.dyno(*COMPLETE_PLAN, "-o", shell.file, flag)
    assert ended == (2, "", f"dyno: {shell.file} is not a run file of dyno\n")
    assert shell.file.read_bytes() == content


def test_run_file_with_torn_header_can_be_overwritten(shell: Shell) -> None:
    shell.file.write_bytes(TORN_HEADER)
    ended = shell.dyno(*COMPLETE_PLAN, "-o", shell.file, "--resume")
    assert ended == (2, "", f"dyno: {shell.file} is not a run file of dyno\n")
    assert shell.file.read_bytes() == TORN_HEADER
    assert shell.dyno(*ONE_BLOCK, "-o", shell.file, "--overwrite").status == 0
    assert_complete(shell, b"")


def test_conflicting_or_incomplete_resume_flags_are_usage_errors(shell: Shell) -> None:
    both = shell.dyno(*COMPLETE_PLAN, "-o", shell.file, "--resume", "--overwrite")
    assert both == (2, "", "dyno: --resume and --overwrite exclude each other\n")
    alone = shell.dyno(*COMPLETE_PLAN, "--resume")
    assert alone == (2, "", "dyno: --resume needs -o RUN, the file to continue\n")
    assert list(Path(shell.home).glob("*.json")) == []


def test_resume_of_missing_file_starts_the_run(shell: Shell) -> None:
    """--resume works for the first run too, so that scripts may always use it."""
    assert shell.dyno(*ONE_BLOCK, "-o", shell.file, "--resume").status == 0
    assert_complete(shell, b"")


def test_next_run_removes_directories_of_killed_runs_only(gated: Shell) -> None:
    with waiting(gated) as process:
        (living,) = gated.left()
        other = gated.home / "other.json"
        assert gated.dyno(*ONE_BLOCK, "-o", other).status == 0
        assert gated.left() == [living]
        killed_parent(gated, process)
        assert gated.strays() == []
        assert gated.left() == [living]
    assert gated.dyno(*ONE_BLOCK, "-o", other, "--overwrite").status == 0
    assert gated.left() == []


def test_run_file_header_holds_plan_and_machine(complete: bytes) -> None:
    header = json.loads(complete.splitlines()[0])
    assert header["kind"] == "run"
    assert header["plan"]["samples"] == 2
    assert [cell["engine"] for cell in header["cells"]][:2] == ["memory", "null"]
    assert header["host"]["filesystem"]["type"]
