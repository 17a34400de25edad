"""Peak memory is measured phase by phase, of the clients' processes and of the server's.

The engines are `hoarder` and `served` of `tests/plugins/lively`: a commit in the first phase needs 200 MiB for a
moment, in the client or in the server.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from shell import TESTS, Shell, small

from dyno.host.usage import reset_peaks

pytestmark = pytest.mark.usefixtures("processes")

GROWTH = 200 << 20
LEAST = 4 << 20
"""Less memory than any process of Python needs."""


def phases(shell: Shell, engine: str, *more: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Returns the resources of the only trial, and its samples, the first of a phase that writes."""
    if not reset_peaks([os.getpid()]):
        pytest.skip("the kernel does not measure peaks anew")
    shell.plugins = [TESTS / "plugins" / "lively"]
    plan = small(samples=1, retries=0, phases="insert-blind-indices,rand-key")
    ended = shell.dyno("run", "records", "-e", engine, *plan, *more, "-o", shell.file)
    assert ended.status == 0, ended
    (attempt,) = shell.attempts(engine.partition(":")[0])
    first, second = attempt["samples"]
    return attempt["resources"], first, second


CLAIM = pytest.mark.claim("Peak memory is that of a phase, for clients and server apart")


@CLAIM
def test_client_peak_memory_is_measured_per_phase(shell: Shell) -> None:
    resources, first, second = phases(shell, "hoarder")
    assert GROWTH < first["client_peak_bytes"] < 2 * GROWTH
    assert LEAST < second["client_peak_bytes"] < first["client_peak_bytes"] - GROWTH * 3 // 4
    assert (first["server_peak_bytes"], second["server_peak_bytes"]) == (None, None)
    assert resources["client"]["peak_resident_bytes"] >= first["client_peak_bytes"], "the peak of the whole trial"


@CLAIM
def test_server_peak_memory_is_separate_from_clients(shell: Shell) -> None:
    resources, first, second = phases(shell, "served:grow_mib=200")
    assert GROWTH < first["server_peak_bytes"] < 2 * GROWTH
    assert LEAST < second["server_peak_bytes"] < GROWTH // 2
    for sample in (first, second):
        assert LEAST < sample["client_peak_bytes"] < GROWTH
    assert resources["server"]["peak_resident_bytes"] >= first["server_peak_bytes"], "the peak of the whole trial"
    (row, _) = (cell for cell in shell.shown()["cells"] if not cell["floor"])
    assert (row["client_peak_bytes"], row["server_peak_bytes"]) == (
        first["client_peak_bytes"],
        first["server_peak_bytes"],
    )


def test_peak_memory_of_client_processes_is_summed(shell: Shell) -> None:
    """LMDB's clients are processes; those of the memory engine are threads."""
    _, _, alone = phases(shell, "burner:burn_us=0")
    _, _, together = phases(shell, "burner:burn_us=0", "--clients", "3", "--overwrite")
    assert 2 * alone["client_peak_bytes"] < together["client_peak_bytes"] < 4 * alone["client_peak_bytes"]
    assert together["threads"] is False
