"""One trial of the self-test suite: slices of numbers, which the engine answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from dyno.engine import Engine
from dyno.model import Caveat, Fact, Phase, Wrong
from dyno.suite import Bulk, Failure, Job, Operations
from dyno.suites.selftest.conformance import CHECKS
from dyno.suites.selftest.port import Synthetic

SLICE = 1_000


class SelftestWorkload:
    """See `dyno.suite.Workload`."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._engine: Engine | None = None

    def conformance(self) -> None:
        if not self._job.spec.floor:
            gaps = {gap.check for gap in self._job.spec.gaps}
            for check in (check for name, check in CHECKS.items() if name not in gaps):
                check(self.connect)
        # What the check has set going is not to be measured.
        self.release()

    def prepare(self, phase: Phase) -> None:
        pass

    @contextmanager
    def connect(self) -> Iterator[Synthetic]:
        with closing(self._job.spec.ports["synthetic"](self.engine(), int(self._job.params["work"]))) as port:
            yield port

    def engine(self) -> Engine:
        if self._engine is None:
            self._engine = self._job.open(self._job.home)
        return self._engine

    def release(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def close(self) -> None:
        self.release()

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Operations | Bulk]:
        operation = port.operation()
        for start in range(client * SLICE, int(self._job.params["operations"]), clients * SLICE):
            numbers = range(start, min(start + SLICE, int(self._job.params["operations"])))
            yield Operations(lambda _: (operation,), numbers, _same(numbers, not self._job.spec.floor))

    def payload_bytes(self, phase: Phase, items: int) -> int | None:
        return None

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        return {}

    def verify(self, phase: Phase) -> int:
        return 0

    def caveats(self) -> Iterable[Caveat]:
        return ()


class _same:
    """Each number was answered with itself."""

    def __init__(self, numbers: Sequence[int], judged: bool) -> None:
        self._numbers, self._judged = numbers, judged

    def __call__(self, answers: Sequence[Any]) -> int:
        for number, answer in zip(self._numbers, answers, strict=False):
            if self._judged and not isinstance(answer, Failure) and answer != number:
                raise Wrong(f"operation {number}: got {answer!r}, expected {number}")
        return len(answers) if self._judged else 0
