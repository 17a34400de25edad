"""Whatever an engine does by mistake to the run's processes, clocks, pipe and directories, Dyno accepts no impossible
figure and continues the run with the other engines.

The engines of `tests/plugins/vandals` share one run with a harmless engine.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from shell import TESTS, Shell, small

PLUGINS = [TESTS / "plugins" / "vandals"]
FOREIGN = "error in rand-key: something other than Dyno wrote to the worker's pipe"
CLOSED = "error in rand-key: something other than Dyno closed the worker's pipe"
VALID = None


def case(engine: str, why: str | None, skipped: object = False) -> Any:
    return pytest.param(engine, why, id=engine.replace(":how=", " "))


WRONG_CLOCK = r"error in rand-key: the worker's clock disagrees with Dyno's; .* it is \d+\.\d\d s {} .*"
CASES = (
    # Damage to the worker's pipe.
    case("garbler:how=sample", FOREIGN),
    case("garbler:how=nested", FOREIGN),
    case("garbler:how=bytes", FOREIGN),
    case("garbler:how=flood", FOREIGN),
    case("garbler:how=close", CLOSED),
    # Dyno binds Python's clocks before an engine can replace them; replaced clocks of Dyno itself are detected.
    case("slowed", VALID),
    case("hurried", VALID),
    case("slowed:how=everywhere", WRONG_CLOCK.format("behind")),
    case("hurried:how=everywhere", WRONG_CLOCK.format("ahead")),
    # Damage to the run's processes and files costs at most the trial.
    case("vandal:how=run-directory", VALID),
    case("vandal:how=rights", VALID),
    case("vandal:how=link", VALID),
    case("vandal:how=change-directory", VALID),
    case("vandal:how=stop-forker", VALID),
    case("vandal:how=kill-forker", VALID),
    case("vandal:how=limits", VALID),
    case("vandal:how=real-time-signal", r"crash in rand-key: killed by signal \d+"),
    case("vandal:how=descriptors", rf"crash in rand-key: exited with status 1 before it was done|{CLOSED}"),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    home = tmp_path_factory.mktemp("vandals")
    canary = home / "canary"
    canary.mkdir()
    (canary / "file").write_text("alive")
    shell = Shell(home, home / "work", PLUGINS, {"VANDALS_CANARY": str(canary)})
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
def test_what_was_done_is_told(cells: dict[tuple[str, str], dict[str, Any]], engine: str, why: str | None) -> None:
    cell = cells[engine, "rand-key"]
    assert cell["valid"] is (why is VALID), cell["why"]
    if why is not VALID:
        assert re.fullmatch(why, cell["why"]), cell["why"]
        assert cell["throughput"] is None


@pytest.mark.claim("Whatever one engine does, the others are measured")
def test_the_others_are_measured(run: Shell, cells: dict[tuple[str, str], dict[str, Any]]) -> None:
    for name in ("memory", *(cell["engine"] for cell in cells.values() if cell["floor"])):
        assert cells[name, "rand-key"]["valid"], (name, cells[name, "rand-key"]["why"])
        assert {attempt["outcome"] for attempt in run.attempts(name)} == {"ok"}
    assert run.shown()["complete"] is True


@pytest.mark.claim("A wrong clock in the worker measures nothing")
def test_what_was_measured_before_garbage_counts_and_before_a_wrong_clock_does_not(
    cells: dict[tuple[str, str], dict[str, Any]],
) -> None:
    assert cells["garbler:how=bytes", "insert-blind-noindices"]["valid"]
    assert not cells["slowed:how=everywhere", "insert-blind-noindices"]["valid"]


@pytest.mark.claim("Whatever one engine does, the others are measured")
def test_nothing_is_left_and_nothing_else_is_harmed(run: Shell) -> None:
    assert run.strays() == []
    assert run.left() == []
    assert (run.given["VANDALS_CANARY"], Path(run.given["VANDALS_CANARY"], "file").read_text())[1] == "alive"


@pytest.mark.claim("A wrong clock in the worker measures nothing")
@pytest.mark.parametrize("loop", ["auto", "python"])
@pytest.mark.parametrize("pace", ["", "--rate 500"], ids=["closed loop", "open loop"])
@pytest.mark.parametrize("clients", [1, 2])
def test_no_figure_is_higher_by_a_clock_that_was_slowed(shell: Shell, clients: int, pace: str, loop: str) -> None:
    """A get takes 2 ms on an unchanged clock: fewer seconds for these operations are impossible."""
    shell.plugins = PLUGINS
    words = (*small(samples=1, retries=0, clients=clients, loop=loop), *pace.split(), "-o", shell.file)
    ended = shell.dyno("run", "records", "-e", "slowed-threads:get_ms=2", *words)
    assert ended.status == 0, ended.err
    ((sample,),) = (attempt["samples"] for attempt in shell.attempts("slowed-threads"))
    assert sample["operations"] == 300
    assert sample["elapsed_ns"] >= 300 / clients * 2_000_000
    assert sample["wall_ns"] >= sample["elapsed_ns"]


# -- immutable and mounted files ------------------------------------------------------------------------------------


def ran(shell: Shell, engine: str) -> Any:
    shell.plugins = PLUGINS
    canary = shell.home / "canary"
    canary.mkdir()
    (canary / "file").write_text("alive")
    shell.given = {"VANDALS_CANARY": str(canary)}
    ended = shell.dyno("run", "records", "-e", f"{engine},memory", *small(retries=0), "-o", shell.file)
    assert (canary / "file").read_text() == "alive"
    return ended


def may_set_flags(place: Path) -> bool:
    file = place / "tried"
    file.touch()
    try:
        with file.open("rb") as opened:
            fcntl.ioctl(opened, 0x40086602, struct.pack("i4x", 0x10))
            fcntl.ioctl(opened, 0x40086602, struct.pack("i4x", 0))
    except OSError:
        return False
    finally:
        file.unlink()
    return True


@pytest.mark.claim("A trial's directory is removed, without anything mounted in it")
def test_immutable_files_are_removed(shell: Shell, place: Path) -> None:
    if not may_set_flags(place):
        pytest.skip("no file can be made immutable here")
    ended = ran(shell, "vandal:how=immutable")
    assert (ended.status, ended.err) == (0, f"Written to {shell.file}\n")
    assert shell.left() == []


@pytest.mark.claim("A trial's directory is removed, without anything mounted in it")
@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root may mount")
def test_what_was_mounted_is_unmounted_and_not_emptied(shell: Shell) -> None:
    ended = ran(shell, "vandal:how=mounts")
    if ended.status and "can't mount" in str(shell.cells()["vandal:how=mounts", "rand-key"]["why"]):
        pytest.skip("nothing may be mounted here")
    assert (ended.status, ended.err) == (0, f"Written to {shell.file}\n")
    assert shell.left() == []
    assert str(shell.work) not in Path("/proc/mounts").read_text()
