"""The sorting suite: its parameters, its phase, the lists, and the checks of the answers."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from dyno.contracts.engine import Engine
from dyno.contracts.equality import same
from dyno.contracts.model import Phase, Preset, Wrong
from dyno.contracts.settings import Setting, integer
from dyno.contracts.suite import Failure, Job, Operations, Suite, Workload
from dyno_sorting.port import Sorted, Sorter

NUMBER_BYTES = 8


class SortingWorkload(Workload):
    """See `dyno.contracts.suite.Workload`, which has defaults for the other methods."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._engine = job.open(job.home)

    def engine(self) -> Engine:
        return self._engine

    def connect(self) -> AbstractContextManager[Sorter]:
        return nullcontext(self._job.port(self._engine))

    def conformance(self) -> None:
        self._check([self._job.port(self._engine).sort([2, 0, 1])], 3)

    def work(self, phase: Phase, port: Sorter, client: int, clients: int, round: int) -> Iterator[Operations]:
        length, lists = int(self._job.params["length"]), int(self._job.params["lists"])
        # Seeded without the engine, so that every engine gets the same lists in the same order.
        rng = random.Random(f"{self._job.seed}:{client}:{round}")
        kinds = [("shuffled", "reversed")[at % 2] for at in range(client, lists, clients)]
        yield Operations(
            calls=lambda _: (port.sort,),
            arguments=[rng.sample(range(length), length) if k == "shuffled" else range(length)[::-1] for k in kinds],
            check=lambda answers: self._check(answers, length),
            weights=[length] * len(kinds),
            kinds=kinds,
            sizes=[length * NUMBER_BYTES] * len(kinds),
            parts=parts,
        )

    def _check(self, answers: Sequence[Any], length: int) -> int:
        """Checks that every answer is the range of numbers that its list had, shuffled or reversed."""
        judged = [] if self._job.spec.floor else [answer for answer in answers if type(answer) is not Failure]
        rights = [list(range(length)), np.arange(length)]
        for at, answer in enumerate(judged):
            if type(answer) is not tuple or not any(same(answer[0], right) for right in rights):
                raise Wrong(f"list {at} is not sorted")
        return len(judged)


def parts(answers: Sequence[Sorted]) -> Mapping[str, Sequence[int]]:
    """The parts of each operation's latency, which its answer has."""
    return {"copy": [copy_ns for _, copy_ns, _ in answers], "order": [order_ns for *_, order_ns in answers]}


class SortingSuite(Suite):
    """See `dyno.contracts.suite.Suite`."""

    name = "sorting"
    title = "lists of whole numbers, sorted"
    ports = ("sorting",)
    params = (
        Setting("length", integer(1), 1_000, "numbers in a list"),
        Setting("lists", integer(1), 200, "lists to sort, all clients together"),
    )
    presets = {  # noqa: RUF012
        "quick": Preset({"length": (10, 100, 1_000, 10_000)}, samples=3, budget=1, timeout=60),
        "standard": Preset({"length": (100, 10_000, 1_000_000), "lists": 1_000}, samples=5, budget=10, timeout=600),
    }
    phases = (
        Phase(
            "sort",
            "sort every list into a new one",
            unit="number",
            writes=False,
            checked="every list, exactly",
            kinds={"shuffled": False, "reversed": False},
            parts=("copy", "order"),
            metric="bandwidth",
        ),
    )

    def workload(self, job: Job) -> Workload:
        return SortingWorkload(job)


SUITE = SortingSuite()
