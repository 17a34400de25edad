"""A test engine, not a real one: SQLite, whose answers are wrong now and then in the way of the option `how`. Not for
measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from dyno.contracts.engine import Listing, PortSpec
from dyno.contracts.settings import Setting, choice, integer
from dyno.engines import sqlite
from dyno.engines.sqlite.sql import Sql
from dyno.suites.sql.port import DEFAULT, Session


class Twisted(Sql):
    def __init__(self, engine: sqlite.SQLite, session: Session = DEFAULT) -> None:
        super().__init__(engine, session)
        # Passes the brief checks before measuring.
        inside = engine._path.parent.name == "store"
        self._how, self._every = str(engine._options["how"]) if inside else "not", int(engine._options["every"])
        self._rows = count(1)
        self._commits = count(1)
        self._answers = count(1)

    def statement(self, pieces: Sequence[str], named: bool = False) -> Callable[[Sequence[Any]], Any]:
        run, how = super().statement(pieces, named), self._how
        undo = super().statement(["ROLLBACK"])

        def twisted(values: Sequence[Any]) -> Any:
            if how == "lose" and pieces[0].strip() == "COMMIT" and next(self._commits) % self._every == 0:
                return undo(())
            answer = run(values)
            if type(answer) is not list:
                return answer
            if how == "reverse":
                return answer[::-1]
            if how == "drop":
                return [row for row in answer if next(self._rows) % self._every]
            if how == "float":
                return [self._off(row) for row in answer]
            if how == "exchange":
                return self._exchanged(answer)
            if how == "cents":
                return self._with_wrong_cents(answer)
            return answer

        return twisted

    def _exchanged(self, answer: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Exchanges the first values of two rows from an answer on."""
        if next(self._answers) < self._every or len(answer) < 2:
            return answer
        one, other, *rest = answer
        return [(other[0], *one[1:]), (one[0], *other[1:]), *rest]

    def _with_wrong_cents(self, answer: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Adds 9 cents to the last value of one row in an answer now and then."""
        if next(self._answers) % self._every or not answer:
            return answer
        middle = len(answer) // 2
        *values, last = answer[middle]
        return [*answer[:middle], (*values, last + 0.09), *answer[middle + 1 :]]

    def _off(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        wrong = next(self._rows) % self._every == 0
        return tuple(value + 1e-4 if wrong and type(value) is float else value for value in row)


HOWS = ("not", "reverse", "drop", "float", "lose", "exchange", "cents")
ENGINE = replace(
    sqlite.ENGINE,
    name="twisted",
    title="A test engine: SQLite with wrong answers",
    listing=Listing(by_default=False),
    ports={"sql": PortSpec(Twisted)},
    options=(
        *sqlite.ENGINE.options,
        Setting("how", choice(*HOWS), "not", "what is wrong"),
        Setting("every", integer(1), 1_000, "rows, answers or commits from one wrong one to the next"),
    ),
)
