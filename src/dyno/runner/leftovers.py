"""Stores that a trial left on a user's own server: a further worker removes them when the trial's own has ended.

The trial's worker removes them itself, unless it was killed or lost its connection. No engine is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, monotonic_ns
from typing import Any

from dyno.contracts.pipe import new_key
from dyno.runner.worker_channel import ClockMismatch, ProtocolError, WorkerChannel
from dyno.runner.worker_pool import WorkerPools, WorkerStartError
from dyno.servers import namespace
from dyno.servers.user_server import URL
from dyno.text.passwords import mask_password, mask_secrets
from dyno.text.sanitize import sanitize

PATIENCE_SECONDS = 60.0
OUTPUT = ".removal"


@dataclass
class _Stores:
    """Those that are left, by name."""

    commands: dict[str, str] = field(default_factory=dict)
    """With which a user removes them."""
    reasons: dict[str, str] = field(default_factory=dict)
    unreachable: bool = False
    end_reason: str = "the process that was to remove it ended early"
    """Printed for stores that have no reason of their own."""

    def hear(self, event: Mapping[str, Any]) -> None:
        name = str(event.get("name"))
        if event["event"] == "store":
            self.commands[name] = str(event["command"])
        elif event["event"] == "kept":
            self.reasons[name], self.unreachable = str(event["why"]), bool(event["unreachable"])
        elif event["event"] == "removed":
            self.commands.pop(name, None)
        elif event["event"] == "end" and event["why"]:
            self.end_reason = str(event["why"])


def remove_stores(
    job: Mapping[str, Any], refused: bool, executable: str, nurseries: WorkerPools, secrets: tuple[str, ...]
) -> list[str]:
    """Removes what the trial of that job, whose worker has ended, left on a user's own server. Returns a line for
    each store that stays, with the command that removes it.

    `refused`: the trial was refused. If the server refuses the connection now, too, there is no store.
    """
    if not (names := namespace.stores(Path(job["home"]))):
        return []
    url = str(job["options"].get(URL, ""))
    # Without an address the worker finds out whose server it is: Dyno's own is gone by now.
    stores = _Stores(dict.fromkeys(names if url else (), ""))
    try:
        why = _listen(job, executable, nurseries, stores)
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
        # A refused trial may have ended before it had a store.
        verb = "may stay" if refused else "stays"
        line = f"{name} {verb} on {mask_password(url) or 'your server'} ({reason}){how}"
        lines.append(sanitize(mask_secrets(line, secrets), keep=""))
    return lines


def _listen(job: Mapping[str, Any], executable: str, nurseries: WorkerPools, stores: _Stores) -> str:
    """Has a worker remove the stores. Returns why it did not remove those that it says nothing of."""
    home, key, deadline = Path(job["home"]), new_key(), monotonic() + PATIENCE_SECONDS
    began = monotonic_ns()
    nurseries.ready(executable)
    with (
        nurseries.worker(executable, home, home.with_suffix(OUTPUT), key, {**job, "remove": True}) as (_, pipe),
        closing(WorkerChannel(pipe, key, began)) as hearing,
    ):
        while not hearing.over:
            left = deadline - monotonic()
            if left < 0:
                return f"not removed after {PATIENCE_SECONDS:g} s"
            for heard in hearing.listen(left) or ():
                stores.hear(heard.event)
    return stores.end_reason
