"""Seeded transactions on a few named slots, for crash tests of stores that hold values by name."""

import random
from collections.abc import Mapping

COUNTER = "commits"
"""Slot that every writing transaction sets to the number of commits so far."""
SLOTS, MOST_WRITES = 40, 4
LEAST_BYTES, MOST_BYTES = 20, 6_000
DELETING = 0.15
"""Share of the transactions that delete slots, once more than a quarter of the slots are filled."""

NAMES = tuple(f"slot{number:02}" for number in range(SLOTS))

Writes = Mapping[str, str | None]
"""New values by slot of one transaction. Either all are texts, or all are None, which deletes the slots."""


class Slots:
    """The transactions of a seed, computed on demand. `single`: each sets one slot, for stores of single writes."""

    def __init__(self, seed: int, single: bool = False) -> None:
        self._seed, self._single = seed, single
        self._writes: list[Writes] = []
        self._states: list[Mapping[str, str]] = [{}]

    def writes(self, number: int) -> Writes:
        """Returns the writes of transaction `number`, which counts from 0."""
        self._compute(number + 1)
        return self._writes[number]

    def state(self, commits: int) -> Mapping[str, str]:
        """Returns the values by slot after `commits` transactions."""
        self._compute(commits)
        return self._states[commits]

    def _compute(self, commits: int) -> None:
        while len(self._writes) < commits:
            state = dict(self._states[-1])
            writes = self._draw_writes(state)
            for slot, value in writes.items():
                if value is None:
                    del state[slot]
                else:
                    state[slot] = value
            self._writes.append(writes)
            self._states.append(state)

    def _draw_writes(self, state: Mapping[str, str]) -> Writes:
        number = len(self._writes)
        rng = random.Random(f"{self._seed} {number}")
        if self._single:
            return {rng.choice(NAMES): _value(rng)}
        filled = sorted(state.keys() - {COUNTER})
        count = rng.randint(1, MOST_WRITES)
        if len(filled) > SLOTS // 4 and rng.random() < DELETING:
            return dict.fromkeys(rng.sample(filled, count))
        slots = rng.sample(NAMES, count)
        return {**{slot: _value(rng) for slot in slots}, COUNTER: str(number + 1)}


def _value(rng: random.Random) -> str:
    """Returns a value that is hard to compress, with a length of any order of magnitude."""
    size = round(LEAST_BYTES * (MOST_BYTES / LEAST_BYTES) ** rng.random())
    return rng.randbytes(size // 2 + 1).hex()[:size]
