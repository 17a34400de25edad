"""The sorting suite: its parameters, its one phase, the lists, and what the answers must be."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from dyno.answers import same
from dyno.engine import Engine
from dyno.model import Caveat, Fact, Phase, Preset, Wrong
from dyno.settings import Setting, integer
from dyno.suite import Failure, Job, Operations, Workload
from dyno_sorting.port import Sorter


class SortingWorkload:
    """See `dyno.suite.Workload`."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._engine: Engine | None = None

    def conformance(self) -> None:
        sort = self._port().sort
        for numbers in ([], [1], [2, 1], [1, 2, 1], [-1, 3, 0, 3]):
            # Worked out without a sort: every number as often as it comes, from the least to the greatest.
            right = [n for n in range(-1, 4) for _ in range(numbers.count(n))]
            if not self._job.spec.floor and not same(sort(numbers), right):
                raise Wrong(f"conformance: {numbers} sorted is not {right}")

    def engine(self) -> Engine:
        if self._engine is None:
            self._engine = self._job.spec.opener(self._job.home, self._job.tier, self._job.options)
        return self._engine

    def _port(self) -> Sorter:
        port: Sorter = self._job.spec.ports["sorting"](self.engine())
        return port

    def prepare(self, phase: Phase) -> None:
        self.engine()

    def connect(self) -> AbstractContextManager[Sorter]:
        return nullcontext(self._port())

    def release(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def work(self, phase: Phase, port: Sorter, client: int, clients: int, round: int) -> Iterator[Operations]:
        length, lists = int(self._job.params["length"]), int(self._job.params["lists"])
        # Seeded by job, client and round alone: every engine gets the same lists in the same order.
        rng = random.Random(f"{self._job.seed}:{client}:{round}")
        own = len(range(client, lists, clients))
        arguments = [rng.sample(range(length), length) for _ in range(own)]
        yield Operations(
            calls=lambda _: (port.sort,),
            arguments=arguments,
            check=self._check,
            weights=[length] * own,
        )

    def _check(self, answers: Sequence[Any]) -> int:
        """Every list is a shuffled range, so every answer must be that range."""
        if self._job.spec.floor:
            return 0
        right = list(range(int(self._job.params["length"])))
        given = [answer for answer in answers if type(answer) is not Failure]
        for at, answer in enumerate(given):
            if not same(answer, right):
                raise Wrong(f"list {at} is not sorted")
        return len(given)

    def payload_bytes(self, phase: Phase, items: int) -> int | None:
        # Nothing is stored.
        return None

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        return {}

    def verify(self, phase: Phase) -> int:
        return 0

    def caveats(self) -> Iterable[Caveat]:
        return ()

    def close(self) -> None:
        self.release()


class SortingSuite:
    """See `dyno.suite.Suite`."""

    name = "sorting"
    title = "lists of whole numbers, sorted"
    ports = ("sorting",)
    engines = ()
    params = (
        Setting("length", integer(1), 1_000, "numbers in a list"),
        Setting("lists", integer(1), 1_000, "lists to sort, all clients together"),
    )
    presets = {  # noqa: RUF012
        "quick": Preset({}, samples=3, budget=1, timeout=60),
        "standard": Preset({"length": 100_000}, samples=5, budget=10, timeout=600),
    }
    phases = (
        Phase("sort", "sort every list into a new one", unit="number", writes=False, checked="every list, exactly"),
    )
    layout = None

    def workload(self, job: Job) -> Workload:
        return SortingWorkload(job)


SUITE = SortingSuite()
