"""Removes stores that a trial left on a user's own server, in a second worker, because the trial's own worker was
killed or lost its connection."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, monotonic_ns
from typing import Any

from dyno.contracts.passwords import mask_password, mask_secrets
from dyno.contracts.sanitize import sanitize
from dyno.contracts.worker_protocol import ClockMismatch, ProtocolError, WorkerChannel
from dyno.runner.worker_pool import WorkerPools, WorkerStartError
from dyno.servers import namespace
from dyno.servers.user_server import URL

PATIENCE_SECONDS = 60.0
OUTPUT = ".removal"


@dataclass
class _Stores:
    """The stores that are not yet removed."""

    commands: dict[str, str] = field(default_factory=dict)
    """Commands with which a user can remove the stores, by the stores' names."""
    reasons: dict[str, str] = field(default_factory=dict)
    unreachable: bool = False
    end_reason: str = "the process that should remove it ended early"
    """Printed for stores without a reason of their own."""

    def add(self, event: Mapping[str, Any]) -> None:
        name = str(event.get("name"))
        if event["event"] == "store":
            self.commands[name] = str(event["command"])
        elif event["event"] == "left":
            self.reasons[name], self.unreachable = str(event["why"]), bool(event["unreachable"])
        elif event["event"] == "removed":
            self.commands.pop(name, None)
        elif event["event"] == "end" and event["why"]:
            self.end_reason = str(event["why"])


def remove_stores(
    job: Mapping[str, Any], refused: bool, executable: str, pools: WorkerPools, secrets: tuple[str, ...]
) -> list[str]:
    """Removes the stores of a trial whose worker has ended. Returns a line for each store that stays, with the
    command that removes it. `refused` says whether the server refused the trial; if it refuses again, there is no
    store."""
    if not (names := namespace.stores(Path(job["home"]))):
        return []
    url = str(job["options"].get(URL, ""))
    # Without an address, the worker determines whether the server is the user's. If it is Dyno's own, it has ended.
    stores = _Stores(dict.fromkeys(names if url else (), ""))
    try:
        why = _listen(job, executable, pools, stores)
    except (WorkerStartError, ProtocolError, ClockMismatch, OSError) as error:
        why = str(error)
    except KeyboardInterrupt:
        why = "interrupted"
    if refused and stores.unreachable:
        return []
    lines = []
    for name, command in stores.commands.items():
        reason = " ".join(stores.reasons.get(name, why).split())
        how = f"; to remove it: {command}" if command else ""
        # A refused trial may have ended before it created a store.
        verb = "may stay" if refused else "stays"
        line = f"{name} {verb} on {mask_password(url) or 'your server'} ({reason}){how}"
        lines.append(sanitize(mask_secrets(line, secrets), keep=""))
    return lines


def _listen(job: Mapping[str, Any], executable: str, pools: WorkerPools, stores: _Stores) -> str:
    """Runs the worker. Returns the reason to print for stores that the worker did not report."""
    home, deadline = Path(job["home"]), monotonic() + PATIENCE_SECONDS
    began = monotonic_ns()
    pools.ready(executable)
    with (
        pools.worker(executable, home, home.with_suffix(OUTPUT), {**job, "remove": True}) as (_, pipe),
        closing(WorkerChannel(pipe, began)) as channel,
    ):
        while not channel.over:
            left = deadline - monotonic()
            if left < 0:
                return f"not removed after {PATIENCE_SECONDS:g} s"
            for message in channel.read(left) or ():
                stores.add(message.event)
    return stores.end_reason
