"""A test engine, not a real one, that declares every tier, and writes and flushes according to its option `how`. It
writes a log but never reads it. Not for measurements.
"""

from __future__ import annotations

import mmap
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dyno.contracts.engine import Listing, PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Refused, Tier, Value
from dyno.contracts.settings import Setting, choice
from dyno.engines.null import engines as null
from dyno.suites.records.port import Record

BUFFER = "buffer"


class Log:
    """A log in the engine's directory."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value], *server: Any) -> None:
        self.how = str(options["how"])
        self.log = os.open(home / "log", os.O_RDWR | os.O_CREAT)
        self.synchronous = os.open(home / "log", os.O_RDWR | os.O_DSYNC)
        os.truncate(self.log, mmap.PAGESIZE)
        self.map = mmap.mmap(self.log, mmap.PAGESIZE) if self.how.startswith("mapped") else None

    def close(self) -> None:
        for descriptor in (self.log, self.synchronous):
            os.close(descriptor)

    def version(self) -> str:
        return "forgets"

    def settings(self) -> Mapping[str, Value | None]:
        return {"how": self.how}

    def files(self) -> Iterable[Path]:
        return ()

    def caveats(self) -> Iterable[Any]:
        return ()


def _write(log: Log) -> None:
    os.write(log.log, b"x")


def _then(*steps: Callable[[Log], object]) -> Callable[[Log], None]:
    def commit(log: Log) -> None:
        for step in steps:
            step(log)

    return commit


def _store(log: Log) -> None:
    assert log.map is not None
    log.map[0] = 1


def _flush_map(log: Log) -> None:
    assert log.map is not None
    log.map.flush()


def _refuse(log: Log) -> None:
    raise Refused("it does not feel like it")


HOW: Mapping[str, Callable[[Log], None]] = {
    BUFFER: _then(),
    "written": _then(_write),
    "flushed": _then(_write, lambda log: os.fdatasync(log.log)),
    "synchronous": _then(lambda log: os.write(log.synchronous, b"x")),
    "mapped": _then(_store),
    "mapped-flushed": _then(_store, _flush_map),
    "slow": _then(_write, lambda log: time.sleep(1)),
    "raises": _then(lambda log: log.nothing),  # type: ignore[attr-defined]
    "dies": _then(lambda log: os.kill(os.getpid(), signal.SIGKILL)),
    "leaves": _then(lambda log: os._exit(0)),
    "hangs": _then(lambda log: signal.pause()),
    "refuses": _then(_refuse),
}


class Records(null.Records):
    """The `records` port."""

    def __init__(self, engine: Log, indexed: bool) -> None:
        self._log = engine
        self._commit = HOW[engine.how]

    def insert(self, records: Iterable[Record]) -> None:
        self._commit(self._log)


ENGINE = replace(
    null.NULL,
    name="forgetful",
    title="Forgets what it acknowledged",
    opener=Log,
    ports={"records": PortSpec(Records)},
    tiers={tier: {"how": "?"} for tier in Tier},
    options=(Setting("how", choice(*HOW), BUFFER, "what it does at a commit"),),
    floor=False,
    listing=Listing(by_default=False),
)
UNTESTED = replace(ENGINE, name="forgetful-untested", listing=Listing(by_default=False, untested="nobody has it"))
ELSEWHERE = replace(
    ENGINE,
    name="forgetful-elsewhere",
    installation=Installation(modules=("dyno_no_such_module",), requires=("dyno-no-such-module",)),
)
