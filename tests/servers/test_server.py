"""The usage of an engine's server is separate from its client's, and the server ends with the trial.

The engine is `served` of `tests/plugins/lively`. For each get, a separate process reads a page of a file and burns 2
ms of CPU time while the client waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from shell import TESTS, Shell, small

from dyno.host.filesystem import filesystem

pytestmark = pytest.mark.usefixtures("processes")

BURN_NS = 2_000_000
TICK_NS = 10_000_000
"""Resolution at which the kernel reports another process's CPU time, rounding down."""
RECORDS = 300
Attempt = dict[str, Any]


def trial(
    shell: Shell, phases: str, engine: str = "served", **plan: object
) -> tuple[Attempt, dict[str, dict[str, Any]]]:
    """The engine's only trial, and its samples by phase."""
    shell.plugins = [TESTS / "plugins" / "lively"]
    chosen = {"samples": 1, "retries": 0, "param_records": RECORDS, "phases": phases, **plan}
    ended = shell.dyno("run", "records", "-e", engine, *small(**chosen), "-o", shell.file)
    (attempt,) = shell.attempts("served")
    assert attempt["outcome"] == "ok", ended
    assert shell.strays() == []
    assert shell.left() == []
    return attempt, {sample["phase"]: sample for sample in attempt["samples"]}


def cpu_ns(used: Mapping[str, int]) -> int:
    return used["user_ns"] + used["system_ns"]


@pytest.mark.claim("A server's resources are separate from its client's")
def test_server_cpu_time_is_separate_from_clients(shell: Shell) -> None:
    attempt, samples = trial(shell, "insert-blind-indices,mixed", "served,sqlite", param_mix="c")
    insert, mixed = samples["insert-blind-indices"], samples["mixed"]
    expected_ns = RECORDS * BURN_NS
    # Excludes the server's start and the verification afterwards.
    assert expected_ns - 2 * TICK_NS <= cpu_ns(mixed["server"]) <= expected_ns * 1.2 + 2 * TICK_NS
    assert cpu_ns(insert["server"]) < expected_ns / 4
    for sample in (insert, mixed):
        assert cpu_ns(sample["client"]) < expected_ns / 4
        assert sample["settled"] is True, "the server rests when it is not asked"
    whole = attempt["resources"]
    assert cpu_ns(whole["server"]) >= expected_ns
    assert cpu_ns(whole["client"]) < cpu_ns(whole["server"])
    assert whole["server"]["peak_resident_bytes"] > 0
    # An engine without a server has no usage of one.
    (other,) = shell.attempts("sqlite")
    assert other["resources"]["server"] is None
    assert [sample["server"] for sample in other["samples"]] == [None] * 2


def test_server_reads_are_not_counted_as_clients(shell: Shell) -> None:
    """When a parent waits for its child, the kernel adds the child's I/O to the parent's."""
    attempt, _ = trial(shell, "mixed", param_mix="c", engine="served:burn_us=0", param_records=5_000)
    client, server = attempt["resources"]["client"], attempt["resources"]["server"]
    assert server["asked_bytes"] > 5_000 * 4096 > client["asked_bytes"]


@pytest.mark.serial
def test_ended_server_is_not_counted_as_client(shell: Shell) -> None:
    """The server of the first phase ends with its engine, so that the second phase is cold."""
    attempt, samples = trial(shell, "rand-key,rand-key-cold")
    assert list(samples) == ["rand-key", "rand-key-cold"]
    # Excludes the untimed round.
    expected_ns = RECORDS * BURN_NS
    assert expected_ns - 2 * TICK_NS <= cpu_ns(samples["rand-key"]["server"]) <= expected_ns * 1.2 + 2 * TICK_NS
    assert cpu_ns(attempt["resources"]["client"]) < expected_ns


def test_server_reads_from_device_in_cold_phase(shell: Shell) -> None:
    """Only the server reads the file. A cold phase has a new server."""
    if filesystem(shell.work)["type"] in ("tmpfs", "ramfs"):
        pytest.skip("the work directory is in memory")
    _, samples = trial(shell, "insert-blind-indices,rand-key-cold", param_records=2_000)
    cold = samples["rand-key-cold"]
    assert cold["operations"] == 20
    assert cold["client"]["read_bytes"] == 0
    assert cold["server"]["read_bytes"] >= 20 * 4096
    assert cold["temperature"] == "cold"
