"""Tests the engines of the self-test suite: each passes the checks of the port `synthetic`; Dyno's own does so with
each option, does the requested work, and leaves no process. The checks fail on broken ports.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import pytest

from dyno import registry
from dyno.contracts.engine import EngineSpec
from dyno.contracts.model import Tier, Wrong
from dyno.contracts.suite import Opened
from dyno.engines import synthetic
from dyno.suites.selftest.workload import CHECKS, Synthetic

pytestmark = pytest.mark.usefixtures("processes")

PORT = "synthetic"
SPECS = [spec for spec in registry.engines() if PORT in spec.ports and not spec.floor]
TIERS = [pytest.param(spec, tier, id=spec.name) for spec in SPECS for tier in spec.tiers or (None,)]
GIVEN: tuple[Mapping[str, Any], ...] = (
    {},
    {"slower": 50},
    {"wait_us": 1},
    {"wait_us": 1, "exponential": "yes"},
    {"stall_ms": 1, "stall_after": 2},
    {"server": "yes"},
    {"calls": 2, "cached_kib": 4, "flushes": 1, "answer_kib": 8, "lock_us": 1},
    {"direct_reads": 2},
    {"neighbour": 10},
)
WORK = 20


def opened(spec: EngineSpec, home: Path, tier: Tier | None = None, **given: Any) -> Opened:
    """Opens a port on the engine with these options, for the checks."""
    home.mkdir(exist_ok=True)

    @contextmanager
    def connect(name: str = "") -> Iterator[Synthetic]:
        with (
            closing(spec.opener(home, tier or spec.default_tier, spec.resolve(given))) as engine,
            closing(spec.ports[PORT].open(engine, WORK)) as port,
        ):
            yield port

    return connect


def hold(connect: Opened, spec: EngineSpec, check: str) -> None:
    """Runs one check, which must fail if and only if the engine has a gap for it."""
    gap = next((gap for gap in spec.gaps if gap.check == check), None)
    try:
        CHECKS[check](connect, None)
    except Exception:
        if gap is None:
            raise
        return
    if gap is not None:
        pytest.fail(f"gap {check} of engine {spec.name} works now: unmark it")


def test_there_is_an_engine_to_test() -> None:
    assert "synthetic" in {spec.name for spec in SPECS}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("spec", "tier"), TIERS)
def test_an_engine_passes_the_check(spec: EngineSpec, tier: Tier, check: str, tmp_path: Path) -> None:
    hold(opened(spec, tmp_path, tier), spec, check)


@pytest.mark.parametrize("given", GIVEN, ids=str)
@pytest.mark.parametrize("check", CHECKS)
def test_synthetic_passes_the_check_with_each_option(given: Mapping[str, Any], check: str, tmp_path: Path) -> None:
    hold(opened(synthetic.ENGINE, tmp_path, **given), synthetic.ENGINE, check)


def test_every_option_is_tried() -> None:
    assert {name for given in GIVEN for name in given} == {option.name for option in synthetic.ENGINE.options}


# -- the engine ---------------------------------------------------------------------------------------------------


@pytest.fixture
def worked(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replaces the work by a record of the units of work of each operation."""
    units: list[float] = []
    monkeypatch.setattr(synthetic, "crc_hqx", lambda data, start: units.append(len(data) / synthetic.STEPS))
    return units


@pytest.mark.parametrize(("percent", "expected"), [(0, WORK), (10, 22), (50, 30), (400, 100)])
def test_slower_adds_a_percentage_of_work(percent: int, expected: int, worked: list[float], tmp_path: Path) -> None:
    with opened(synthetic.ENGINE, tmp_path, slower=percent)() as port:
        assert list(map(port.operation(), range(3))) == [0, 1, 2]
    assert worked == [expected] * 3


def test_neighbour_ends_with_the_engine(tmp_path: Path) -> None:
    cores = os.sched_getaffinity(0)
    before = psutil.Process().children()
    with opened(synthetic.ENGINE, tmp_path, neighbour=10)() as port:
        assert port.operation()(1) == 1
        (neighbour,) = set(psutil.Process().children()) - set(before)
        assert os.sched_getaffinity(neighbour.pid) == os.sched_getaffinity(0) == {min(cores)}
    assert not neighbour.is_running()
    assert os.sched_getaffinity(0) == cores


@pytest.mark.parametrize("given", [{"wait_us": 1, "calls": 1}, {"stall_ms": 1, "neighbour": 5}], ids=str)
def test_wasteful_operation_neither_waits_nor_stalls(given: Mapping[str, Any]) -> None:
    options = synthetic.ENGINE.resolve(given)
    assert "are for operations that work" in (synthetic.refuse(Tier.VOLATILE, options) or "")


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replaces sleeping by a record of the durations."""
    seconds: list[float] = []
    monkeypatch.setattr("dyno.engines.synthetic.time.sleep", seconds.append)
    return seconds


def test_stall_occurs_once_after_the_given_operations(
    slept: list[float], worked: list[float], tmp_path: Path
) -> None:
    with opened(synthetic.ENGINE, tmp_path, stall_ms=250, stall_after=3)() as port:
        operation = port.operation()
        before = [len(slept) for number in range(6) if operation(number) == number]
    assert before == [0, 0, 0, 1, 1, 1], "the fourth operation stalls"
    assert slept == [0.25]
    assert worked == [WORK] * 6, "it works as well"


def test_waiting_replaces_working(slept: list[float], worked: list[float], tmp_path: Path) -> None:
    with opened(synthetic.ENGINE, tmp_path, wait_us=1_500)() as port:
        assert list(map(port.operation(), range(2))) == [0, 1]
    assert (slept, worked) == ([0.0015, 0.0015], [])


def test_synthetic_server_runs_from_start_to_close(tmp_path: Path) -> None:
    spec = synthetic.ENGINE
    server = synthetic.serve(tmp_path / "server", Tier.PROCESS, spec.resolve({"server": "yes"}), 1)
    assert server is not None
    server.start()
    (pid,) = server.pids()
    assert psutil.Process(pid).ppid() == psutil.Process().pid
    server.close()
    assert not psutil.pid_exists(pid)
    assert list(server.pids()) == []
    server.close()


def test_synthetic_server_is_optional(tmp_path: Path) -> None:
    spec = synthetic.ENGINE
    assert synthetic.serve(tmp_path, Tier.PROCESS, spec.resolve({}), 1) is None


# -- the suite itself ---------------------------------------------------------------------------------------------


class Stub:
    """A port with a given operation."""

    def __init__(self, operation: Callable[[int], Any]) -> None:
        self._operation = operation

    def operation(self) -> Callable[[int], Any]:
        return self._operation

    def close(self) -> None:
        pass


def stub(operation: Callable[[int], Any]) -> Opened:
    @contextmanager
    def connect(name: str = "") -> Iterator[Any]:
        yield Stub(operation)

    return connect


def forgetful() -> Callable[[int], Any]:
    """Answers each number only once."""
    answered: set[int] = set()

    def answer(number: int) -> int | None:
        if number in answered:
            return None
        answered.add(number)
        return number

    return answer


def counting() -> Callable[[int], Any]:
    """Answers the position of the operation rather than its number."""
    numbers = count()
    return lambda number: next(numbers)


BROKEN: dict[str, dict[str, Callable[[int], Any]]] = {
    "answers": {
        "nothing": lambda number: None,
        "another": lambda number: number + 1,
        "always the first": lambda number: 0,
        "without its sign": abs,
        "cut to 32 bits": lambda number: (number + 2**31) % 2**32 - 2**31,
        "as text": str,
        "once": forgetful(),
        "its place": counting(),
    },
}


@pytest.mark.parametrize("check", CHECKS)
def test_the_check_passes_a_correct_port(check: str) -> None:
    CHECKS[check](stub(int), None)


@pytest.mark.parametrize(("check", "how"), [(check, how) for check in BROKEN for how in BROKEN[check]])
def test_the_check_fails_a_broken_port(check: str, how: str) -> None:
    with pytest.raises(Wrong, match=r"^operation -?\d+: got .*, expected -?\d+$"):
        CHECKS[check](stub(BROKEN[check][how]), None)


def test_every_check_is_tried_on_broken_ports() -> None:
    assert BROKEN.keys() == CHECKS.keys()
