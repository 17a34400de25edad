"""Forked workers behave like separate processes: each has its own session, directory and descriptors, and is a child
of the run's process. The death of the fork server affects no trial.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from shell import Shell, small, wait_for

from dyno.contracts.model import Trial
from dyno.host.interpreters import Python
from dyno.options import RunRequest
from dyno.results import Attempt
from dyno.runner import plan, trial
from dyno.runner.trial import Datasets
from dyno.runner.worker_pool import WorkerPools, WorkerProcess, name_trial

pytestmark = [
    pytest.mark.usefixtures("processes"),
    pytest.mark.skipif(sys.platform != "linux", reason="nothing is forked elsewhere"),
]


@contextmanager
def waiting(shell: Shell) -> Iterator[tuple[psutil.Process, psutil.Process, psutil.Process]]:
    """A run in the middle of its engine's first trial: the processes of the run, the fork server and the worker."""
    shell.close_gate(passing=0)
    with shell.started("run", "records", "-e", "waiter", *small(samples=2), "-o", shell.file) as started:
        assert wait_for(shell.at_gate), started.poll()
        run = psutil.Process(started.pid)
        (arrived,) = shell.at_gate()
        worker = psutil.Process(arrived)
        (server,) = (process for process in run.children() if process != worker)
        yield run, server, worker
        shell.open_gate()
        # Exit status of the run.
        assert started.wait() == 0


@pytest.mark.claim("The size of the environment and the length of the path differ from block to block")
def test_memory_layout_differs_between_blocks(tmp_path: Path) -> None:
    def environment_bytes(block: int) -> int:
        with WorkerPools("selftest", tmp_path) as pools:
            pools.renew(block)
            pools.start_pool(Python())
            # Other tests' servers and ended children may be children, too.
            running = [p for p in psutil.Process().children() if p.status() != psutil.STATUS_ZOMBIE]
            (server,) = (p for p in running if "dyno.runner.worker_pool" in p.cmdline())
            return len("".join(server.environ().values()))

    sizes = [environment_bytes(block) for block in range(3)]
    assert [size - sizes[0] for size in sizes] == [0, 1_009, 2_018]
    assert {len(name_trial(block, 1, 0)) for block in range(8)} == set(range(11, 19))


@pytest.mark.claim("A forked worker is a process of its own")
def test_worker_has_own_session_directory_and_descriptors(shell: Shell) -> None:
    with waiting(shell) as (run, server, worker):
        assert worker.parent() == server.parent() == run
        assert {os.getsid(process.pid) for process in (worker, server)} == {worker.pid, server.pid}
        home = Path(worker.cwd())
        assert (home.parent, home.parent.parent) == (Path(server.cwd()), shell.work)
        assert worker.environ()["PYTHONHASHSEED"] == "0"
        links = {int(entry.name): str(entry.readlink()) for entry in Path(f"/proc/{worker.pid}/fd").iterdir()}
        assert links[0].startswith("pipe:")
        assert links[1] == links[2] == str(home.with_suffix(".output"))
        # The fork server's control socket is closed.
        assert not [link for link in links.values() if link.startswith("socket:")]


@pytest.mark.claim("A forked worker is a process of its own")
def test_fork_server_death_affects_no_trial(shell: Shell) -> None:
    with waiting(shell) as (_, server, worker):
        server.send_signal(signal.SIGKILL)
        assert wait_for(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE)
        assert worker.is_running()
    assert [attempt["outcome"] for attempt in shell.attempts()] == ["ok"] * shell.planned()
    assert shell.strays() == []


def attempted(home: Path) -> Attempt:
    """One trial of the selftest engine."""
    run_plan = plan.make(RunRequest("selftest", engines=["synthetic"], params={"operations": ["10"]}))
    with WorkerPools(run_plan.suite, home) as pools:
        place = home / "trial"
        context = trial.TrialContext(1 << 30, pools, Datasets(run_plan, home))
        return trial.run_trial(run_plan, run_plan.cells[0], Trial(0, 0), 0, place, context, lambda phase: None)


@pytest.mark.claim("A forked worker is a process of its own")
def test_trial_in_forked_worker_leaves_no_process(tmp_path: Path) -> None:
    before = psutil.Process().children()
    attempt = attempted(tmp_path)
    assert (attempt.outcome, attempt.why, [sample.operations for sample in attempt.samples]) == ("ok", None, [10])
    # Processes of earlier tests, such as a browser, may be children too.
    assert psutil.Process().children() == before


def test_trial_without_startable_worker_is_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho this interpreter is broken\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(plan.Plan, "python", lambda made, cell: Python(str(broken)))
    attempt = attempted(tmp_path)
    assert (attempt.outcome, attempt.samples) == ("crash", ())
    assert attempt.why == f"{broken} could start no worker: this interpreter is broken"
    assert not (tmp_path / "trial").exists()


@pytest.mark.parametrize(
    ("command", "status"), [("exit 3", 3), ("kill -9 $$", -signal.SIGKILL)], ids=["exits", "is killed"]
)
def test_worker_process_reports_child_exit_status(command: str, status: int) -> None:
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", command], os.environ)
    child = WorkerProcess(pid)
    assert child.wait(60) == child.wait() == child.poll() == status


def test_worker_wait_times_out_on_running_child() -> None:
    child = WorkerProcess(os.posix_spawn("/bin/sh", ["sh", "-c", "exec sleep 600"], os.environ))
    assert child.poll() is None
    with pytest.raises(psutil.TimeoutExpired):
        child.wait(0.01)
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
