"""Runs the objects suite like a user: with threads and processes, on files and servers, and with a server that dies
during a run.
"""

from __future__ import annotations

import os
import signal
from typing import Any

import psutil
import pytest
from needed import available, require, unavailable
from shell import Shell, wait_for

from dyno import registry

pytestmark = pytest.mark.usefixtures("processes")

FEW = ("-p", "objects=30", "-p", "transactions=3", "-p", "blob_size=1000")
ENGINES = {
    1: ("filestorage",),
    2: (
        "mappingstorage",
        "demostorage",
        "filestorage",
        "zeo",
        "zeo:sharing=threads",
        "relstorage:backend=sqlite",
        "relstorage:backend=postgresql",
        "relstorage:backend=mariadb",
        "relstorage:sharing=threads",
    ),
}
"""The engines to run, by the number of clients."""
Samples = dict[str, dict[str, dict[str, Any]]]
"""The samples of each engine by phase."""


def need(engine: str) -> str:
    """Returns the engine's name; skips the test if the engine can't run with these options."""
    name, _, option = engine.partition(":")
    spec = registry.engine(name)
    require(spec)
    if lacking := spec.explain_unavailability(spec.resolve(dict([option.split("=")] if option else []))):
        unavailable(f"engine {engine}: {lacking}")
    return name


def words(pid: int) -> str:
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return ""


@pytest.fixture(scope="module")
def runs(shared_shell: Shell) -> dict[int, Samples]:
    """The samples by the number of clients, of all engines that are available here."""
    runs: dict[int, Samples] = {}
    for clients, engines in ENGINES.items():
        names = ",".join(available("objects", engines))
        flags = ("--samples", 1, "--clients", clients, "--budget", 30, "--overwrite")
        ended = shared_shell.dyno("run", "objects", "-e", names, *FEW, *flags, "-o", shared_shell.file)
        assert ended.status == 0, ended
        assert shared_shell.strays() == []
        runs[clients] = shared_shell.samples()
    return runs


@pytest.mark.parametrize(
    ("engine", "clients"), [(engine, clients) for clients in ENGINES for engine in ENGINES[clients]]
)
def test_every_phase_of_every_storage_is_valid(engine: str, clients: int, runs: dict[int, Samples]) -> None:
    name = need(engine)
    samples = runs[clients][engine]
    absent = {"conflicts"} if clients == 1 else set()
    if name in ("mappingstorage", "demostorage"):
        absent |= {"read-device", "blob-write", "blob-read"}
    assert samples.keys() == {phase.name for phase in registry.suite("objects").phases} - absent
    for phase, sample in samples.items():
        assert (sample["void"], sample["errors"]) == (None, 0), phase
        assert sample["checked"] > 0, phase
    threads = clients == 2 and ("threads" in engine or registry.engine(name).clients == "threads")
    assert {sample["threads"] for sample in samples.values()} == {threads}
    # ZODB works in the clients, so they are no load generator.
    assert {sample.get("load_processes") for sample in samples.values()} == {None}
    if clients == 2:
        assert samples["conflicts"]["facts"]["transactions"] == 6


@pytest.mark.claim("A server that dies within a phase is a failed trial, which is repeated, and voids nothing")
def test_server_death_fails_trial_and_run_continues(shell: Shell) -> None:
    """Kills the server in the last phase, because later phases would fail without a server."""
    need("zeo")
    chosen = ("--phases", "write", "-p", "objects=30", "-p", "transactions=100000", "--samples", 1, "--budget", 2)
    with shell.started("run", "objects", "-e", "zeo", *chosen, "-o", shell.file) as process:

        def serving() -> list[int]:
            return [pid for pid in shell.alive() if "ZEO.runzeo" in words(pid)]

        def written() -> int:
            return max((path.stat().st_size for path in shell.work.rglob("Data.fs")), default=0)

        # The conformance checks write less, so the phase has begun.
        assert wait_for(lambda: written() > 200_000)
        os.kill(serving()[0], signal.SIGKILL)
        _, err = process.communicate(timeout=100)
    attempts = shell.attempts("zeo")
    assert sorted(attempt["outcome"] for attempt in attempts) == ["error", "ok"], err
    (failed,) = (attempt for attempt in attempts if attempt["outcome"] != "ok")
    assert (failed["why"], failed["phase"]) == ("ServerDied: its server ended in the middle of the phase", "write")
    assert failed["samples"] == []
    assert process.returncode == 0, err
    assert shell.strays() == []
    assert shell.left() == []
