"""The user's scheduler of Dask: the machines behind it, calls on them, their clocks, and whether they are alive.

Dask carries functions and answers, and measures nothing. Each call goes to one machine and to no other, and is never
repeated: by default Dask calls a function again on another worker if the first one dies, which would load the server
twice. Dask notices a closed connection at once, but a machine that is cut off only after minutes. So the heartbeats
are watched here.

Source: Dask core developers, documentation of Dask.distributed, "Client", "Resilience" and "TLS/SSL".
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from time import monotonic, monotonic_ns, sleep
from types import TracebackType
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from dyno.contracts.model import Refused, Unavailable, UsageError
from dyno.host import installation
from dyno.machines import tasks

ENCRYPTED, PLAIN = "tls", "tcp"
CONNECT_SECONDS = 10
SILENT_SECONDS = 5.0
"""A machine without a heartbeat for so long is lost. Workers send one every half a second, if there are few."""
WATCH_SECONDS = 0.5
POLL_SECONDS = 0.02
ANSWER_SECONDS = 3
ASK_SECONDS = 4
CLOSE_SECONDS = 1
TRIPS = 50
T = TypeVar("T")
Answer = TypeVar("Answer", covariant=True)


class Future(Protocol[Answer]):
    """Dask's handle of a call on a machine."""

    status: str

    def done(self) -> bool: ...

    def cancel(self) -> None: ...

    def result(self, timeout: float) -> Answer: ...

    def exception(self, timeout: float) -> BaseException: ...


class RemoteScheduler(Protocol):
    """The scheduler, as a client of Dask calls it."""

    identity: object
    """Coroutine function that returns the workers."""


class DaskClient(Protocol):
    """The part of `distributed.Client` that Dyno uses."""

    scheduler: RemoteScheduler

    def submit(self, function: Callable[..., T], /, *arguments: object, **options: object) -> Future[T]: ...

    def run(self, function: Callable[..., T], /, *arguments: object, **options: object) -> Mapping[str, T]: ...

    def sync(self, function: object, /, **options: object) -> Mapping[str, Mapping[str, Mapping[str, object]]]: ...

    def close(self, timeout: float = CONNECT_SECONDS) -> None: ...


def missing_library_message() -> str:
    """Returns that Dask is missing, with the command that installs it."""
    return f"needs Dask: {installation.extra_command('machines')}"


class MachineLost(Exception):
    """A machine or the scheduler can't be reached any more. The text is 'lost HOST'."""


@dataclass(frozen=True)
class Machine:
    """A worker of the scheduler, the only one of its host that Dyno uses."""

    address: str
    """Dask's address of the worker."""
    host: str
    """Its name: the worker's, if the user has named it, else the address of its host."""


@dataclass(frozen=True)
class Offset:
    """How far a machine's monotonic clock is ahead of this machine's."""

    ns: int
    uncertainty_ns: int
    """Half of the shortest round trip."""


def check_address(address: str, plain: bool, flag: str) -> None:
    """Raises UsageError for a malformed address, and for one without TLS unless `plain`. `flag` is named in the
    message."""
    parts = urlsplit(address)
    try:
        complete = bool(parts.hostname and parts.port)
    except ValueError:
        complete = False
    if parts.scheme not in (ENCRYPTED, PLAIN) or not complete:
        raise UsageError(f"{flag}: {address} is no address of a scheduler of Dask, such as tls://10.0.0.5:8786")
    if parts.scheme == PLAIN and not plain:
        raise UsageError(
            f"{flag}: {address} has no TLS, so whoever reaches it can run code on its machines: use tls://, or accept"
            " that by --plain-tcp"
        )


class Scheduler:
    """A connection to the scheduler at an address. Raises Refused if it can't be reached or has no workers."""

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise Refused(missing_library_message()) from None
        # Its messages about lost connections would stand between Dyno's own.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        try:
            self._client: DaskClient = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except Exception as error:
            why = " ".join(str(error).split()) or type(error).__name__
            raise Unavailable(f"can't reach the scheduler {address}: {why}") from None
        self._over = threading.Event()
        self._heard = monotonic()
        self._beats: dict[str, tuple[object, float]] = {}
        """By worker: its last heartbeat, by the scheduler's clock, and when Dyno first saw that."""
        try:
            self.machines = _one_per_host(self._workers())
            if not self.machines:
                raise Refused(f"the scheduler {address} has no workers: start one on each machine, by `dask worker`")
        except BaseException:
            self._client.close()
            raise
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def __enter__(self) -> Scheduler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._over.set()
        self._client.close(timeout=CLOSE_SECONDS)

    # -- calls ----------------------------------------------------------------------------------------------

    def submit(self, machine: Machine, function: Callable[..., T], *arguments: object) -> Future[T]:
        """Calls the function in a thread of the machine's worker; returns Dask's future."""
        return self._client.submit(
            function,
            *arguments,
            key=f"dyno-{function.__name__}-{os.urandom(8).hex()}",
            workers=[machine.address],
            allow_other_workers=False,
            pure=False,
            retries=0,
        )

    def call_on_each(
        self, function: Callable[..., T], arguments: Mapping[Machine, tuple[object, ...]]
    ) -> dict[Machine, T]:
        """Calls the function on each of these machines, at the same time; returns the answers. Raises MachineLost,
        and RuntimeError with the name of the machine on which the function raised."""
        waiting = {machine: self.submit(machine, function, *given) for machine, given in arguments.items()}
        futures, answers = dict(waiting), dict[Machine, Any]()
        try:
            while waiting:
                for machine, future in list(waiting.items()):
                    if future.done():
                        answers[machine] = self.answer(machine, future)
                        del waiting[machine]
                self.check(waiting)
                sleep(POLL_SECONDS)
        finally:
            for future in futures.values():
                # Ends what goes on: see `tasks`.
                future.cancel()
        return {machine: answers[machine] for machine in arguments}

    @staticmethod
    def answer(machine: Machine, future: Future[T]) -> T:
        """Returns the result of a future that is done. Raises MachineLost, Refused and RuntimeError."""
        if future.status == "finished":
            try:
                return future.result(timeout=CONNECT_SECONDS)
            except Exception as error:
                # The machine that holds the result is gone.
                raise MachineLost(f"lost {machine.host}") from error
        if future.status != "error":
            raise MachineLost(f"lost {machine.host}")
        raised = future.exception(timeout=CONNECT_SECONDS)
        if type(raised).__name__ == "KilledWorker":
            raise MachineLost(f"lost {machine.host}")
        why = " ".join(str(raised).split())
        if isinstance(raised, ModuleNotFoundError):
            raise Refused(
                f"{machine.host} has no Dyno ({why}): install it there, in the environment of Dask's worker"
            )
        kind = ""
        if not isinstance(raised, tasks.ChildDied):
            kind = f"{type(raised).__name__}: "
        raise RuntimeError(f"{machine.host}: {kind}{why}")

    def tell(self, machines: Iterable[Machine], function: Callable[..., object], *arguments: object) -> None:
        """Calls the function on the machines that can be reached, without waiting for long."""
        for machine in filter(self._alive, machines):
            try:
                self.ask(machine, function, *arguments)
            except MachineLost:
                logging.getLogger(__name__).debug("no answer of %s", machine.host)

    def offset(self, machine: Machine) -> Offset:
        """Compares the clocks: of TRIPS round trips, the shortest counts. Raises MachineLost."""
        best = Offset(0, 1 << 62)
        for _ in range(TRIPS):
            before = monotonic_ns()
            there = self.ask(machine, tasks.clock_ns)
            after = monotonic_ns()
            best = min(best, Offset(there - (before + after) // 2, (after - before) // 2), key=_uncertainty)
        return best

    def ask(self, machine: Machine, function: Callable[..., T], *arguments: object) -> T:
        """Calls a short function in the event loop of the machine's worker. Raises MachineLost."""
        try:
            # By default Dask tries to reach a dead worker for 30 s.
            answers = self._client.run(function, *arguments, workers=[machine.address], callback_timeout=ASK_SECONDS)
            return answers[machine.address]
        except Exception as error:
            raise MachineLost(f"lost {machine.host}") from error

    def list_present(self) -> list[Machine]:
        """Returns the machines that the scheduler knows now. Raises MachineLost."""
        try:
            machines = _one_per_host(self._workers())
            self.check(())
        except Exception as error:
            raise MachineLost("lost the scheduler") from error
        return [machine for machine in machines if self._alive(machine)]

    # -- life -----------------------------------------------------------------------------------------------

    def check(self, machines: Iterable[Machine]) -> None:
        """Raises MachineLost if one of these machines or the scheduler has been silent for too long."""
        now = monotonic()
        if now - self._heard > SILENT_SECONDS:
            raise MachineLost("lost the scheduler")
        for machine in machines:
            if not self._alive(machine):
                raise MachineLost(f"lost {machine.host}")

    def _alive(self, machine: Machine) -> bool:
        beat = self._beats.get(machine.address)
        return beat is not None and monotonic() - beat[1] <= SILENT_SECONDS

    def _watch(self) -> None:
        while not self._over.wait(WATCH_SECONDS):
            try:
                self._workers()
            except Exception:
                # `check` counts the time since the last answer.
                continue

    def _workers(self) -> Mapping[str, Mapping[str, object]]:
        """Asks the scheduler for its workers, by address, and notes their heartbeats."""
        identity = self._client.scheduler.identity
        try:
            found = self._client.sync(identity, n_workers=-1, callback_timeout=ANSWER_SECONDS)
        except TypeError:
            # Before version 2025.5, it knows no such argument, and returns all workers.
            found = self._client.sync(identity, callback_timeout=ANSWER_SECONDS)
        now, workers = monotonic(), found["workers"]
        known = self._beats
        self._beats = {
            address: known[address]
            if address in known and known[address][0] == worker.get("last_seen")
            else (worker.get("last_seen"), now)
            for address, worker in workers.items()
        }
        self._heard = now
        return dict(workers)


def _uncertainty(offset: Offset) -> int:
    return offset.uncertainty_ns


def _one_per_host(workers: Mapping[str, Mapping[str, object]]) -> list[Machine]:
    """Returns the first worker of each host, by the host's name."""
    chosen: dict[str, Machine] = {}
    for address, worker in sorted(workers.items()):
        name, host = str(worker.get("name") or ""), str(worker.get("host") or urlsplit(address).hostname)
        # By default a worker's name is its address, or a number in a cluster on one machine.
        if name and "://" not in name and not name.isdecimal():
            named = name
        else:
            named = host
        chosen.setdefault(host, Machine(address, named))
    taken = [machine.host for machine in chosen.values()]
    unique = {
        host: machine if taken.count(machine.host) == 1 else Machine(machine.address, host)
        for host, machine in chosen.items()
    }
    return sorted(unique.values(), key=lambda machine: machine.host)
