"""Whatever an engine does by mistake to the run's pipe and directories, the other engines are measured.

The engines of `tests/plugins/vandals` share one run with a harmless engine.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from shell import TESTS, Shell, small

pytestmark = pytest.mark.usefixtures("processes")

PLUGINS = [TESTS / "plugins" / "vandals"]
FOREIGN = "error in rand-key: something other than Dyno wrote to the worker's pipe"
CLOSED = "error in rand-key: something other than Dyno closed the worker's pipe"
VALID = None


def case(engine: str, why: str | None, skipped: object = False) -> Any:
    return pytest.param(engine, why, id=engine.replace(":how=", " "))


CASES = (
    # Damage to the worker's pipe.
    case("garbler:how=bytes", FOREIGN),
    case("garbler:how=close", CLOSED),
    # Damage to the run's processes and files costs at most the trial.
    case("vandal:how=run-directory", VALID),
    case("vandal:how=rights", VALID),
    case("vandal:how=change-directory", VALID),
    case("vandal:how=descriptors", rf"crash in rand-key: exited with status 1 before it was done|{CLOSED}"),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    home = tmp_path_factory.mktemp("vandals")
    shell = Shell(home, home / "work", PLUGINS)
    engines = ",".join(str(found.values[0]) for found in CASES)
    plan = small(samples=1, retries=0, param_records=500, phases="insert-blind-noindices,rand-key", timeout=60)
    ended = shell.dyno("run", "records", "-e", f"memory,{engines}", *plan, "-o", shell.file)
    assert "Traceback" not in ended.err, ended.err
    assert ended.status == 1
    yield shell
    shell.kill_strays()


@pytest.fixture(scope="module")
def cells(run: Shell) -> dict[tuple[str, str], dict[str, Any]]:
    return run.cells()


@pytest.mark.claim("Garbage on the worker's pipe is not a result")
@pytest.mark.parametrize(("engine", "why"), CASES)
def test_engine_damage_is_reported_or_harmless(
    cells: dict[tuple[str, str], dict[str, Any]], engine: str, why: str | None
) -> None:
    cell = cells[engine, "rand-key"]
    assert cell["valid"] is (why is VALID), cell["why"]
    if why is not VALID:
        assert re.fullmatch(why, cell["why"]), cell["why"]
        assert cell["throughput"] is None


@pytest.mark.claim("Whatever one engine does, the others are measured")
def test_other_engines_stay_valid(run: Shell, cells: dict[tuple[str, str], dict[str, Any]]) -> None:
    for name in ("memory", *(cell["engine"] for cell in cells.values() if cell["floor"])):
        assert cells[name, "rand-key"]["valid"], (name, cells[name, "rand-key"]["why"])
        assert {attempt["outcome"] for attempt in run.attempts(name)} == {"ok"}
    assert run.shown()["complete"] is True


def test_sample_before_pipe_garbage_stays_valid(cells: dict[tuple[str, str], dict[str, Any]]) -> None:
    assert cells["garbler:how=bytes", "insert-blind-noindices"]["valid"]


@pytest.mark.claim("Whatever one engine does, the others are measured")
def test_no_process_or_directory_is_left(run: Shell) -> None:
    assert run.strays() == []
    assert run.left() == []


# -- mounted files ------------------------------------------------------------------------------------


def ran(shell: Shell, engine: str) -> Any:
    shell.plugins = PLUGINS
    canary = shell.home / "canary"
    canary.mkdir()
    (canary / "file").write_text("alive")
    shell.given = {"VANDALS_CANARY": str(canary)}
    ended = shell.dyno("run", "records", "-e", f"{engine},memory", *small(samples=1, retries=0), "-o", shell.file)
    assert (canary / "file").read_text() == "alive"
    return ended


@pytest.mark.claim("A trial's directory is removed, without anything mounted in it")
@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root may mount")
def test_mount_in_trial_directory_is_unmounted_not_emptied(shell: Shell) -> None:
    ended = ran(shell, "vandal:how=mounts")
    if ended.status and "can't mount" in str(shell.cells()["vandal:how=mounts", "rand-key"]["why"]):
        pytest.skip("nothing may be mounted here")
    assert (ended.status, ended.err) == (0, f"Written to {shell.file}\n")
    assert shell.left() == []
    assert str(shell.work) not in Path("/proc/mounts").read_text()
