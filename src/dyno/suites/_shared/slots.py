"""Transactions on a few slots, which follow from a seed: what suites whose stores hold values by name have as their
history. How a slot is stored may not be put here.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

COUNTER = "commits"
"""A slot of its own, which every transaction that writes changes: it holds how many there are."""
SLOTS, MOST_WRITES = 40, 4
LEAST_BYTES, MOST_BYTES = 20, 6_000
DELETING = 0.15
"""The share of transactions that delete, where there is enough to delete."""

NAMES = tuple(f"slot{number:02}" for number in range(SLOTS))

Writes = Mapping[str, str | None]
"""Of one transaction: the new values by slot, or None for those that go. Not both in one."""


class Slots:
    """The transactions of a seed, worked out as far as they were asked for. `single`: of one slot each, which they
    all give a value, for a store that has no transactions of several."""

    def __init__(self, seed: int, single: bool = False) -> None:
        self._seed, self._single = seed, single
        self._writes: list[Writes] = []
        self._states: list[Mapping[str, str]] = [{}]

    def writes(self, number: int) -> Writes:
        """Those of transaction `number`, from 0 up."""
        self._reach(number + 1)
        return self._writes[number]

    def state(self, commits: int) -> Mapping[str, str]:
        """Values by slot after so many transactions."""
        self._reach(commits)
        return self._states[commits]

    def _reach(self, commits: int) -> None:
        while len(self._writes) < commits:
            held = dict(self._states[-1])
            writes = self._next(held)
            for slot, value in writes.items():
                if value is None:
                    del held[slot]
                else:
                    held[slot] = value
            self._writes.append(writes)
            self._states.append(held)

    def _next(self, held: Mapping[str, str]) -> Writes:
        number = len(self._writes)
        rng = random.Random(f"{self._seed} {number}")
        if self._single:
            return {rng.choice(NAMES): _value(rng)}
        there = sorted(held.keys() - {COUNTER})
        some = rng.randint(1, MOST_WRITES)
        if len(there) > SLOTS // 4 and rng.random() < DELETING:
            return dict.fromkeys(rng.sample(there, some))
        slots = rng.sample(NAMES, some)
        return {**{slot: _value(rng) for slot in slots}, COUNTER: str(number + 1)}


def _value(rng: random.Random) -> str:
    """Of a length of every order of magnitude, of letters that no compression makes much shorter."""
    size = round(LEAST_BYTES * (MOST_BYTES / LEAST_BYTES) ** rng.random())
    return rng.randbytes(size // 2 + 1).hex()[:size]
