"""One trial of the self-test suite: slices of numbers, which the engine answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from dyno.contracts.engine import Engine
from dyno.contracts.equality import same
from dyno.contracts.model import Phase, Wrong
from dyno.contracts.suite import Failure, Operations, Work
from dyno.suites._shared.store import OnStore
from dyno.suites.selftest.conformance import CHECKS, Check
from dyno.suites.selftest.port import Synthetic

SLICE = 1_000


class SelftestWorkload(OnStore):
    """See `dyno.contracts.suite.Workload`."""

    def conformance(self) -> None:
        super().conformance()
        # What the check has set going is not to be measured.
        self.release()

    def checks(self) -> Mapping[str, Check]:
        return CHECKS

    def port(self, engine: Engine, *how: Any) -> Synthetic:
        port: Synthetic = self._job.port(engine, int(self._job.params["work"]))
        return port

    def prepare(self, phase: Phase) -> None:
        self._store = self._job.home / "store"
        self._store.mkdir(exist_ok=True)

    @contextmanager
    def connect(self) -> Iterator[Synthetic]:
        with closing(self.port(self.engine())) as port:
            yield port

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Work]:
        operation = port.operation()
        for start in range(client * SLICE, int(self._job.params["operations"]), clients * SLICE):
            numbers = range(start, min(start + SLICE, int(self._job.params["operations"])))
            yield Operations(lambda _: (operation,), numbers, _Echoed(numbers, not self._job.spec.floor))


class _Echoed:
    """Each number was answered with itself."""

    def __init__(self, numbers: Sequence[int], judged: bool) -> None:
        self._numbers, self._judged = numbers, judged

    def __call__(self, answers: Sequence[Any]) -> int:
        for number, answer in zip(self._numbers, answers, strict=False):
            if self._judged and type(answer) is not Failure and not same(answer, number):
                raise Wrong(f"operation {number}: got {answer!r}, expected {number}")
        return len(answers) if self._judged else 0
