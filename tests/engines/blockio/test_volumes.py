"""Runs the checks of the port `volume` on fio with each of its ioengines, and on ports whose reports are wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from needed import require

from dyno import registry
from dyno.contracts.engine import EngineSpec
from dyno.contracts.model import Wrong
from dyno.contracts.suite import Opened, Report
from dyno.engines.blockio import engines
from dyno.suites.volume import IO, Volume
from dyno.suites.volume.workload import CHECKS

pytestmark = pytest.mark.usefixtures("processes")

PORT = "volume"
SPECS = [spec for spec in registry.engines() if PORT in spec.ports and not spec.floor]
GIVEN: tuple[Mapping[str, Any], ...] = (
    {"ioengine": "io_uring"},
    {"ioengine": "sync"},
    {"ioengine": "mmap"},
    {"direct": "no"},
)


def opened(
    spec: EngineSpec, home: Path, wrap: Callable[[Volume], Volume] = lambda port: port, **given: Any
) -> Opened:
    """Opens a port on the engine with these options, for the checks."""

    @contextmanager
    def connect(name: str) -> Iterator[Volume]:
        place = home / name
        place.mkdir()
        with (
            closing(spec.opener(place, None, spec.resolve(given))) as engine,
            closing(spec.ports[PORT].open(engine)) as port,
        ):
            yield wrap(port)

    return connect


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("spec", [pytest.param(spec, id=spec.name) for spec in SPECS])
def test_an_engine_passes_the_check(spec: EngineSpec, check: str, place: Path) -> None:
    require(spec)
    CHECKS[check](opened(spec, place), None)


@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_fio_passes_the_check_with_each_ioengine(given: Mapping[str, Any], place: Path) -> None:
    require(engines.FIO)
    CHECKS["integrity"](opened(engines.FIO, place, **given), None)
    CHECKS["reports"](opened(engines.FIO, place, **given), None)


def test_every_option_is_tried_except_destroy() -> None:
    tried = {name for given in GIVEN for name in given}
    assert tried == {option.name for option in engines.FIO.options} - {"destroy"}


# -- the checks -----------------------------------------------------------------------------------------------------


class Stub:
    """A port with invented figures, some of them wrong."""

    def __init__(self, **wrong: Any) -> None:
        self._wrong = wrong

    def fresh(self, size: int) -> str:
        return ""

    def lay(self, size: int) -> None:
        pass

    def place(self) -> Path:
        return Path()

    def verify(self, size: int) -> str | None:
        return self._wrong.get("verify")

    def run(self, io: IO, limit_ns: int, round_ns: int, enough: object = None) -> Report:
        kinds = {"read": [(5, 1)], "write": [(5, 1)]} if io.mixed else {}
        report = Report("stub", 2, 2, 10**9, bytes=2 * io.block_size, latencies=[(5, 2)], by_kind=kinds)
        return replace(report, **{name: value for name, value in self._wrong.items() if name != "verify"})

    def copy(self, how: str, block_size: int, size: int) -> Report:
        items = size // block_size
        report = Report("stub", items, items, 10**9, bytes=size)
        return replace(report, **{name: value for name, value in self._wrong.items() if name == "bytes"})

    def close(self) -> None:
        pass


def stub(**wrong: Any) -> Opened:
    return lambda name: closing(Stub(**wrong))


@pytest.mark.parametrize("check", CHECKS)
def test_a_sound_port_passes(check: str) -> None:
    CHECKS[check](stub(), None)


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        ("integrity", {"verify": "verify: bad header"}),
        ("reports", {"bytes": 4096}),
        ("reports", {"latencies": [(5, 1)]}),
        ("reports", {"by_kind": {"read": [(5, 2)]}}),
        ("reports", {"first_error": "Input/output error"}),
        ("reports", {"operations": 0, "items": 0, "bytes": 0, "latencies": []}),
        ("copies", {"bytes": 4096}),
    ],
    ids=str,
)
def test_check_rejects_a_wrong_report(check: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(Wrong):
        CHECKS[check](stub(**wrong), None)
