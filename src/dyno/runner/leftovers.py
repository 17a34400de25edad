"""Removes stores that a trial left on a user's own server, in a second worker, because the trial's own worker was
killed or lost its connection."""

from collections.abc import Iterator, Mapping
from contextlib import closing
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


def remove_stores(
    job: Mapping[str, Any], refused: bool, executable: str, pools: WorkerPools, secrets: tuple[str, ...]
) -> list[str]:
    """Removes the stores of a trial whose worker has ended. Returns a line for each store that stays, with the
    command that removes it. `refused` says whether the server refused the trial; if it refuses again, there is no
    store."""
    if not (names := namespace.stores(Path(job["home"]))):
        return []
    url = str(job["options"].get(URL, ""))
    # Commands with which a user can remove the stores that are left, and the reasons. Without an address, the worker
    # determines whether the server is the user's. If it is Dyno's own, it has ended.
    commands: dict[str, str] = dict.fromkeys(names if url else (), "")
    reasons, unreachable, why = dict[str, str](), False, "the process that should remove it ended early"
    try:
        for event in _events(job, executable, pools):
            name = str(event.get("name"))
            if event["event"] == "store":
                commands[name] = str(event["command"])
            elif event["event"] == "left":
                reasons[name], unreachable = str(event["why"]), bool(event["unreachable"])
            elif event["event"] == "removed":
                commands.pop(name, None)
            elif event["event"] == "end" and event["why"]:
                why = str(event["why"])
    except (WorkerStartError, ProtocolError, ClockMismatch, OSError) as error:
        why = str(error)
    except KeyboardInterrupt:
        why = "interrupted"
    if refused and unreachable:
        return []
    lines = []
    for name, command in commands.items():
        reason = " ".join(reasons.get(name, why).split())
        how = f"; to remove it: {command}" if command else ""
        # A refused trial may have ended before it created a store.
        verb = "may stay" if refused else "stays"
        line = f"{name} {verb} on {mask_password(url) or 'your server'} ({reason}){how}"
        lines.append(sanitize(mask_secrets(line, secrets), keep=""))
    return lines


def _events(job: Mapping[str, Any], executable: str, pools: WorkerPools) -> Iterator[Mapping[str, Any]]:
    """Runs the worker and yields its events. Raises TimeoutError after PATIENCE_SECONDS."""
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
                raise TimeoutError(f"not removed after {PATIENCE_SECONDS:g} s")
            for message in channel.read(left) or ():
                yield message.event
