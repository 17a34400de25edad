"""What a store is found to be after a crash, and what that means for the promise of its tier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dyno.contracts.model import Tier
from dyno.contracts.suite import History

OK, LOST, TORN, CORRUPT, REFUSED, CRASH, HANG = "ok", "lost", "torn", "corrupt", "refused", "crash", "hang"
OUTCOMES = (OK, LOST, TORN, CORRUPT, REFUSED, CRASH, HANG)
"""In the order of how bad they are; see docs/crash.md."""


@dataclass(frozen=True)
class Judgement:
    """Of one store after one crash."""

    outcome: str
    why: str = ""
    held: int | None = None
    """Transactions that the store holds, where it holds the first so many, whole."""
    lost: int = 0
    """Of those that were acknowledged."""

    @property
    def sound(self) -> bool:
        return self.outcome == OK


def held(history: History, found: Mapping[str, Any], begun: int) -> int | None:
    """The first transactions whose state is exactly what was found; None where it is no such state."""
    return next((count for count in range(begun, -1, -1) if history.state(count) == found), None)


def judge(history: History, found: Mapping[str, Any], acknowledged: int, begun: int) -> Judgement:
    """Exact: what is found is the state after c transactions, with acknowledged <= c <= begun."""
    count = held(history, found, begun)
    if count is None:
        return Judgement(TORN, _odd(history, found, acknowledged, begun))
    if count < acknowledged:
        lost = acknowledged - count
        return Judgement(LOST, f"{lost} of {acknowledged} acknowledged commits are not there", count, lost)
    return Judgement(OK, held=count)


def _odd(history: History, found: Mapping[str, Any], acknowledged: int, begun: int) -> str:
    """What is not as after the transactions that come nearest."""
    states = {count: history.state(count) for count in range(begun, max(0, acknowledged - 20) - 1, -1)}
    names = {count: _differing(state, found) for count, state in states.items()}
    near = min(names, key=lambda count: (len(names[count]), -count))
    shown = ", ".join(names[near][:3]) + (f" and {len(names[near]) - 3} more" if len(names[near]) > 3 else "")
    return f"it holds no state that ever was: nearest that after {near} commits, but for {shown}"


def _differing(state: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in {*state, *found} if state.get(name) != found.get(name))


PROMISES = {Tier.VOLATILE: (), Tier.PROCESS: ("killed",), Tier.POWER: ("killed", "cut")}
"""What a tier promises that an acknowledged commit survives: SIGKILL of its process, a loss of power."""
