"""The messages between Dyno's processes: the request for a trial, the worker's events, and the messages of a process
that runs clients on another machine.

Messages travel as JSON. Python's own module writes and reads it: texts of engines may have lone surrogates, which
msgspec's JSON refuses.
"""

from __future__ import annotations

import json
from typing import TypeVar

import msgspec
from msgspec import Struct

from dyno.contracts.decoded_types import Count, Fact, Loop, Resources, Text, Value
from dyno.contracts.model import Caveat, Tier
from dyno.contracts.pace import Pace
from dyno.contracts.profile import PhaseProfile
from dyno.contracts.value_types import JsonObject
from dyno.fields import Sample
from dyno.measure.position import Share
from dyno.servers.listen import ServerAddress

Message = TypeVar("Message")
Fields = JsonObject
"""A message before it gets its type."""
MessageError = (ValueError, RecursionError)
"""Exceptions of `decode`."""


def encode(message: Struct) -> bytes:
    """Returns the message as a line of JSON. Raises TypeError, ValueError or RecursionError for values that JSON
    can't hold."""
    return json.dumps(msgspec.to_builtins(message), allow_nan=False, separators=(",", ":")).encode()


def decode(line: bytes, kind: type[Message]) -> Message:
    """Returns the message of this type in a line of JSON. Raises a MessageError."""
    return msgspec.convert(json.loads(line), kind)


class TrialRequest(Struct, frozen=True, kw_only=True):
    """A trial for a worker."""

    suite: str
    definition: JsonObject | None
    """The user's table from which the suite is made."""
    engine: str
    options: dict[str, Value]
    read_back: tuple[str, ...]
    """Names of the server's settings that any row of the engine sets."""
    tier: Tier | None
    clients: int
    params: dict[str, Value]
    phases: tuple[str, ...]
    seed: int
    pace: Pace
    home: str
    sealed: str
    thorough: bool
    load_from: str | None
    """Address of the scheduler whose machines run the clients; None: this machine runs them."""
    profile: str | None = None
    """What to collect of the phases: 'processor' or 'system_calls'; None: nothing."""
    remove: bool = False
    """Whether to remove the stores that an earlier worker of the trial left on a user's own server, and do nothing
    else."""


# -- events of a worker -------------------------------------------------------------------------------------------


class Event(Struct, tag_field="event"):
    """An event that a worker reports."""


class PhaseBegan(Event, tag="phase"):
    phase: str


class EngineDescribed(Event, tag="engine"):
    tier: Tier | None
    """The tier that the settings of a user's own server provide; None for other engines."""
    version: str
    settings: dict[str, Fact]
    caveats: tuple[Caveat, ...]


class LoopDescribed(Event, tag="loop"):
    loop: Loop


class TrialFacts(Event, tag="facts"):
    facts: dict[str, Fact]


class PhaseAbsent(Event, tag="absent"):
    """The phase makes no sense for the engine."""

    phase: str
    why: str


class CheckBegan(Event, tag="check"):
    """A check of answers that may take long."""


class LateClients(Event, tag="late"):
    """The answer to LATE_SIGNAL."""

    waits: str
    """The awaited work of late clients; empty if no client is late."""


class PhaseMeasured(Event, tag="sample"):
    sample: Sample
    check_ns: Count
    """Time of all checks of answers so far."""


class PhaseProfiled(Event, tag="profile"):
    profile: PhaseProfile
    missing: list[Text]
    """What could not be profiled, a line each."""


class TrialEnded(Event, tag="end"):
    outcome: Text
    why: str | None
    resources: Resources
    spent_ns: dict[str, Count]
    unavailable: bool = False
    """Whether an outside tool failed, or the server could not be reached."""


class StoreFound(Event, tag="store"):
    """A store that an earlier worker left on a user's own server, with the command that removes it."""

    name: str
    command: str


class StoreLeft(Event, tag="left"):
    """A store that could not be removed."""

    name: str
    why: str
    unreachable: bool
    """Whether the server could not be reached."""


class StoreRemoved(Event, tag="removed"):
    name: str


WorkerEvent = (
    PhaseBegan
    | EngineDescribed
    | LoopDescribed
    | TrialFacts
    | PhaseAbsent
    | CheckBegan
    | LateClients
    | PhaseMeasured
    | PhaseProfiled
    | TrialEnded
    | StoreFound
    | StoreLeft
    | StoreRemoved
)

# -- another machine ----------------------------------------------------------------------------------------------


class RemoteVersion(Struct, frozen=True):
    """The part of a RemotePhase that another version of Dyno can read, too."""

    dyno: str


class RemotePhase(RemoteVersion, frozen=True, kw_only=True):
    """A phase of a trial for the clients of one machine."""

    trial: TrialRequest
    server: ServerAddress | None
    """The server that was started for the trial; None for a user's own."""
    endpoint: tuple[str, int] | None
    stores: dict[str, str]
    """Names of the stores on the server by their directory in the trial's."""
    state: bytes
    """The workload's state, pickled."""
    phase: str
    pace: Pace
    share: Share


class Answer(Struct, tag_field="answer"):
    """An answer from the process of a machine's clients."""


class MachineDescribed(Answer, tag="described"):
    dyno: str
    python: str
    cores: float
    loop: Loop


class ClientsReady(Answer, tag="ready"):
    round_trip_ns: int | None
    """The shortest time of a TCP connection to the server."""
    cores: float


class ClientsDone(Answer, tag="done"):
    tally: bytes
    """Pickled, like the state of the workload after the phase."""
    state: bytes


class ClientsFailed(Answer, tag="failed"):
    error: str
    """Name of the exception's type, if the parent raises the same; else empty."""
    why: str


RemoteAnswer = MachineDescribed | ClientsReady | ClientsDone | ClientsFailed


def convert_event(fields: Fields) -> WorkerEvent:
    """Raises a MessageError."""
    return msgspec.convert(fields, WorkerEvent)  # type: ignore[no-any-return]


def decode_answer(line: bytes) -> RemoteAnswer:
    """Raises a MessageError."""
    return decode(line, RemoteAnswer)  # type: ignore[arg-type]
