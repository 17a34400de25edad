"""A trial of the suite `calls`, and the conformance checks of its port."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from time import monotonic_ns

from dyno.contracts.equality import is_list
from dyno.contracts.imported_code import ImportedCode
from dyno.contracts.model import Caveat, Fact, Phase, Refused, Tier, Wrong
from dyno.contracts.roles import OpeningWorkload, TrialFactsWorkload
from dyno.contracts.suite import Failure, Job, Opened, Work, by_name
from dyno.contracts.value_types import JsonMapping
from dyno.host.process import users_directory
from dyno.suites._shared.store import OnStore
from dyno.suites.calls import DIRECTORY, FUNCTION
from dyno.suites.calls.answers import digest
from dyno.suites.calls.functions import (
    NEEDS_ASYNC,
    NEEDS_ONE_BY_ONE,
    Calls,
    describe_exception,
    explain_unmeasurable,
    is_async,
)
from dyno.suites.calls.guard import Guard
from dyno.suites.calls.imports import also_beside, imported_code
from dyno.suites.calls.port import Call
from dyno.suites.calls.record import CallRecord, brief, facts

WARM = 1_000_000
"""Rounds from this number on warm up: see `measure.warm_up`."""
WATCHED_NS = 500_000_000
"""Time for digests of arguments, which show whether the function changes them."""


def function(opened: Opened[Call], tier: Tier | None) -> None:
    """The port has a function, the same each time."""
    with opened("function", Path("/")) as port:
        one, other = port.function(False), port.function(False)
    if not callable(one) or one is not other:
        raise Wrong(f"expected the same function twice, got {one} and {other}")


CHECKS = by_name(function)


class CallsWorkload(OnStore, OpeningWorkload, TrialFactsWorkload):
    def __init__(self, job: Job, definition: JsonMapping) -> None:
        super().__init__(job)
        self._directory = Path(users_directory(), definition[DIRECTORY]).absolute()
        self._pid, self._guard = os.getpid(), Guard()
        self._function: Callable[..., object] | None = None
        self._arguments: Sequence[object] | None = None
        self._check: Callable[..., object] | None = None
        self._setup: Callable[..., object] | None = None
        self._inputs: list[bytes | None] = []
        """Digests of the first arguments."""
        self._record = CallRecord(0)
        self._wrong: str | None = None
        self._caveats: list[Caveat] = []

    def opens(self, phase: Phase) -> bool:
        # So the row's caveats are collected after the phase: they say what the function has done.
        return True

    # -- the user's code ------------------------------------------------------------------------------------

    def prepare(self, phase: Phase) -> None:
        self.begin()
        if self._function is None:
            # The user's files are relative to it.
            os.chdir(self._directory)
            with self._guard.watch_block():
                self._load()

    def _load(self) -> None:
        params, port = self._job.params, self.port(self.engine(), self._directory)
        inflight, floor = int(params["inflight"]), self._job.spec.floor
        self._function = port.function(inflight > 1)
        name = str(self._job.options.get(FUNCTION, ""))
        if why := explain_unmeasurable(self._function):
            raise Refused(f"{name}: {why}")
        if inflight > 1 and not is_async(self._function):
            raise Refused(f"{name}: {NEEDS_ASYNC}")
        if params["arguments"] and not floor:
            self._arguments = _list_arguments(port.load(str(params["arguments"])), str(params["arguments"]))
        elif params["arguments"]:
            self._arguments = [None]
        if params["check"] and not floor:
            self._check = port.load(str(params["check"]))
        if params["setup"]:
            if inflight > 1 or self._job.clients > 1:
                raise Refused(NEEDS_ONE_BY_ONE)
            if floor:
                self._setup = _do_nothing
            else:
                self._setup = port.load(str(params["setup"]))
        end = monotonic_ns() + WATCHED_NS
        for argument in self._arguments or ():
            if self._setup is not None or floor or monotonic_ns() > end:
                break
            self._inputs.append(digest(argument))

    # -- calls ----------------------------------------------------------------------------------------------

    @contextmanager
    def connect(self) -> Iterator[Calls]:
        assert self._function is not None
        self._record = CallRecord(1 if self._arguments is None else len(self._arguments))
        calls = Calls(self._function, self._arguments, self._judge, self._setup, int(self._job.params["inflight"]))
        with self._guard.watch_block():
            try:
                yield calls
            finally:
                calls.close()
        self._wrong, self._caveats = self._guard.find_fault(), list(self._guard.caveats())
        if os.getpid() != self._pid:
            # This is the process of one of several clients.
            found = {"wrong": self._wrong, "caveats": [(each.code, each.text) for each in self._caveats]}
            home = self._clients_home()
            home.mkdir(parents=True, exist_ok=True)
            (home / str(os.getpid())).write_text(json.dumps({**found, **self._record.to_json()}))

    def _clients_home(self) -> Path:
        return self._job.home / "clients"

    def work(self, phase: Phase, port: Calls, client: int, clients: int, round: int) -> Iterator[Work]:
        if self._job.params["gc"]:
            # The measuring loop has switched it off.
            gc.enable()
        first = client * len(self._arguments or ()) // clients
        yield from port.warm_up(first) if round >= WARM else port.slices(first)

    def _judge(self, positions: Sequence[int], arguments: Sequence[object], answers: Sequence[object]) -> int:
        if why := self._guard.find_fork():
            raise Wrong(why)
        if self._job.spec.floor:
            return 0
        if self._check is None:
            return self._record.add(positions, arguments, answers)
        compared = 0
        for at, argument, answer in zip(positions, arguments, answers, strict=False):
            if type(answer) is Failure:
                continue
            try:
                right = self._check(argument, answer)
            except MemoryError:
                raise
            except Exception as error:
                raise Wrong(f"check raised {describe_exception(error)}") from error
            if not right:
                raise Wrong(f"argument {at + 1:,} ({brief(argument)}) was answered {brief(answer)}: wrong, by check")
            compared += 1
        return compared

    # -- afterwards -----------------------------------------------------------------------------------------

    def verify(self, phase: Phase) -> int:
        found = [json.loads(path.read_text()) for path in sorted(self._clients_home().glob("*"))]
        if found:
            self._wrong = next(filter(None, (each["wrong"] for each in found)), None)
            self._caveats = [Caveat(*each) for each in {tuple(pair) for one in found for pair in one["caveats"]}]
            if self._wrong is None:
                self._record = CallRecord.merge_records(map(CallRecord.of_json, found))
        self._stop_if_wrong()
        for at, (before, argument) in enumerate(zip(self._inputs, self._arguments or (), strict=False)):
            if before is not None and digest(argument) != before:
                raise Wrong(
                    f"it changes argument {at + 1:,}, now {brief(argument)}, so that later calls get another: give a"
                    " setup that returns a new one for each call"
                )
        return 0

    def _stop_if_wrong(self) -> None:
        wrong = self._wrong or self._guard.find_fault()
        if wrong is not None:
            raise Wrong(wrong)

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        if self._job.spec.floor or self._check is not None:
            return {}
        home = None
        if self._job.sealed is not None:
            key = json.dumps([self._job.params, self._job.clients], sort_keys=True)
            name = blake2b(key.encode(), digest_size=8).hexdigest()
            home = self._job.sealed.parent / "answers" / name
        return facts(self._record, home, str(self._job.options.get(FUNCTION, "")), self._arguments or ())

    @cached_property
    def _imported(self) -> ImportedCode:
        """The function's code, after the calls: a function may import more."""
        return imported_code(str(self._job.options[FUNCTION]), self._directory)

    def trial_facts(self) -> Mapping[str, Fact]:
        if self._job.spec.floor or self._function is None:
            return {}
        return self._imported.to_facts()

    def caveats(self) -> Iterable[Caveat]:
        yield from self._caveats
        if not self._job.spec.floor and self._function is not None:
            for name in also_beside(self._imported, str(self._job.options[FUNCTION]), self._directory):
                yield Caveat("installed", f"runs the installed {name}, not the {name} in the directory of the code")


def _list_arguments(value: object, name: str) -> Sequence[object]:
    """Returns the arguments as a list. Raises Refused."""
    if callable(value):
        try:
            value = value()
        except MemoryError:
            raise
        except Exception as error:
            raise Refused(f"{name} raised {describe_exception(error)}") from error
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise Refused(f"{name}: expected a list of arguments, got {type(value).__name__}")
    arguments = list(value)
    if is_list(arguments, 0):
        raise Refused(f"{name}: expected at least one argument, got none")
    return arguments


def _do_nothing(*arguments: object) -> None:
    return None


WORKLOAD = CallsWorkload
