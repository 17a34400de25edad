"""Latencies of the statements of a transaction, unless reading the clock for each would cost too much."""

from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import Any

from dyno.suites.sql.language.operations import Run
from dyno.suites.sql.language.script import Script, Statement

FEWEST = 2
"""A transaction with fewer statements has only its own latency."""
MOST_SHARE = 0.02
"""Share of a transaction's time that the clock may take."""
CALLS = 2_000
SHOWN = 24
"""Characters of a statement that its name has."""


class StatementTimer:
    """Times the statements of one client's transaction."""

    def __init__(self, script: Script, prefix: str = "") -> None:
        statements = script.statements
        width = len(str(len(statements)))
        self.names = [f"{prefix}{at:0{width}} {_shorten(each)}" for at, each in enumerate(statements, 1)]
        self.on = len(statements) >= FEWEST
        self._spans = list[int]()
        self._into = list[list[int]]()

    def start_slice(self) -> list[list[int]]:
        """Returns the list to which the transactions of the next slice add the spans of their statements."""
        self._into = []
        return self._into

    def time_statement(self, run: Run) -> Run:
        def run_timed(values: Sequence[Any]) -> Any:
            begin = monotonic_ns()
            answer = run(values)
            self._spans.append(monotonic_ns() - begin)
            return answer

        return run_timed

    def time_transaction(self, run: Run) -> Run:
        def run_timed(inputs: Sequence[Any]) -> Any:
            self._spans = []
            answer = run(inputs)
            # A transaction that fails has no spans, as it has no latency.
            self._into.append(self._spans)
            return answer

        return run_timed

    def take(self, spans: Sequence[Sequence[int]]) -> dict[str, list[int]]:
        """Returns the spans of a slice by statement; empty if the clock takes too much of them, now and from then
        on."""
        if not self.on or not spans:
            return {}
        mean_ns = sum(map(sum, spans)) / len(spans)
        if _cost_ns() * len(self.names) > MOST_SHARE * mean_ns:
            self.on = False
            return {}
        return {name: list(each) for name, each in zip(self.names, zip(*spans, strict=True), strict=True)}


class ClientCall:
    """The callable of a client's slices, which times statements as long as that is cheap. `make_call`: makes it,
    given a timer for each transaction, or none."""

    def __init__(
        self, make_call: Callable[[Sequence[StatementTimer]], Any], timers: Sequence[StatementTimer]
    ) -> None:
        self._make_call = make_call
        self._timers = [timer for timer in timers if any(each.on for each in timers)]
        self._call = make_call(self._timers)

    @property
    def timed(self) -> bool:
        return bool(self._timers)

    def start_slice(self, spans: list[list[list[int]]], entered: object) -> list[Any]:
        """Returns the callable of a slice. `spans`: gets a list for each timer, to which its transactions add their
        spans."""
        spans[:] = [timer.start_slice() for timer in self._timers]
        return [self._call]

    def take_spans(self, spans: Sequence[list[list[int]]], answers: object) -> dict[str, list[int]]:
        """Returns the latencies of statements since they were last taken, by name. Called between batches, so this is
        where timing ends that costs too much."""
        taken = dict[str, list[int]]()
        # A slice that began before timing ended has spans that nobody needs.
        for timer, of_slice in zip(self._timers, spans, strict=False):
            taken |= timer.take(of_slice)
            of_slice.clear()
        if self._timers and not any(timer.on for timer in self._timers):
            self._timers = []
            self._call = self._make_call(())
        return taken


def _shorten(statement: Statement) -> str:
    text = " ".join("?".join(statement.pieces).split())
    if len(text) > SHOWN:
        return f"{text[:SHOWN].rstrip()}…"
    return text


_costs: list[float] = []


def _cost_ns() -> float:
    """Returns what timing a statement costs here, measured once."""
    if not _costs:
        timer = StatementTimer(Script((), ()))
        plain: Run = len
        timed = timer.time_statement(plain)
        spent = []
        for run in (plain, timed):
            begin = monotonic_ns()
            for _ in range(CALLS):
                run(())
            spent.append(monotonic_ns() - begin)
        _costs.append(max(spent[1] - spent[0], 0) / CALLS)
    return _costs[0]
