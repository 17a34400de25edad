"""The suite `selftest`: the port `synthetic`, its conformance checks, and a trial."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from dyno.contracts.engine import Engine
from dyno.contracts.equality import expect
from dyno.contracts.model import Phase, Tier
from dyno.contracts.suite import Opened, Operations, Work, by_name, check_each
from dyno.suites._shared.store import OnStore

SLICE = 1_000


class Synthetic(Protocol):
    """Operations that cost `work` units. Engines implement it as a class called with `(engine, work)`."""

    def operation(self) -> Callable[[int], int]:
        """Returns a function that does the work and returns its argument."""

    def close(self) -> None: ...


def answers(opened: Opened[Synthetic], tier: Tier | None) -> None:
    """Every operation returns the number that it got."""
    with opened("answers") as port:
        operation = port.operation()
        for number in (0, 1, -1, 10**12, 1):
            expect(operation(number), number, f"operation {number}")


CHECKS = by_name(answers)


class SelftestWorkload(OnStore):
    """Trial of the suite, see `dyno.contracts.suite.Workload`."""

    checks = CHECKS

    def port_arguments(self) -> tuple[int, ...]:
        return (int(self._job.params["work"]),)

    def port(self, engine: Engine, *arguments: object) -> Any:
        return self._job.port(engine, *(arguments or self.port_arguments()))

    def work(self, phase: Phase, port: Synthetic, client: int, clients: int, round: int) -> Iterator[Work]:
        operation, count = port.operation(), int(self._job.params["operations"])

        def check(number: int, answer: object) -> int:
            expect(answer, number, f"operation {number}")
            return 1

        for start in range(client * SLICE, count, clients * SLICE):
            numbers = range(start, min(start + SLICE, count))
            yield Operations(lambda _: (operation,), numbers, check_each(numbers, check, not self._job.spec.floor))


WORKLOAD = SelftestWorkload
