"""The operations of the suite `sql`: the user's scripts as functions, and the inputs of each operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from zlib import crc32

from dyno.contracts.model import Wrong
from dyno.contracts.suite import Job
from dyno.suites.sql.data.generators import USAGE
from dyno.suites.sql.data.tables import draw
from dyno.suites.sql.definition import Definition
from dyno.suites.sql.language.script import BATCH, Inputs, Script, Set, Statement
from dyno.suites.sql.port import Sql

if TYPE_CHECKING:
    import numpy as np

Run = Callable[[Any], Any]
"""Executes a statement, given its parameters, or a transaction, given its inputs."""
CONTROL = ("BEGIN", "START", "COMMIT", "END", "ROLLBACK", "SET")
"""First words of statements that have no answer."""


class Aborted(Exception):
    """The engine ended a transaction because of others: a deadlock or a conflict."""


def compile_script(
    script: Script, port: Sql, named: bool, judged: bool, wrap: Callable[[Run], Run] = lambda run: run
) -> Run:
    """Returns a function that executes the script once, given its inputs. It returns the rows or the number of
    changed rows of the only statement, or a tuple of these. `named`: each is a pair of the columns' names and the
    rows. If not `judged`, the engine is a null engine, and the variables of \\gset are 0. `wrap`: is around each
    statement of a transaction with several."""
    statements = script.statements
    # The values of other \set commands are inputs.
    planned = [step for step in script.steps if isinstance(step, Statement) or step.late]
    if len(planned) == 1 and statements[0].gset is None:
        run = port.statement(statements[0].pieces, named)
        if statements[0].names == script.inputs:
            return _guard_transaction(run, port)
        at = [script.inputs.index(name) for name in statements[0].names]
        pick = itemgetter(*at) if len(at) > 1 else lambda inputs: (inputs[at[0]],)
        return _guard_transaction(lambda inputs: run(pick(inputs)), port)
    steps = [
        (step, None)
        if isinstance(step, Set)
        else (step, wrap(port.statement(step.pieces, named or step.gset is not None)))
        for step in planned
    ]

    unknown: dict[str, object] = {}
    if not judged:
        used = [step.expression.variables if isinstance(step, Set) else step.names for step in planned]
        unknown = dict.fromkeys(chain.from_iterable(used), 0)

    def transaction(inputs: tuple[object, ...]) -> object:
        variables = {**unknown, **dict(zip(script.inputs, inputs, strict=True))}
        answers = []
        for step, run in steps:
            if isinstance(step, Set):
                variables[step.name] = step.expression.evaluate(variables)
                continue
            answer = run([variables[name] for name in step.names])  # type: ignore[misc]
            if step.gset is not None:
                names, rows = answer
                if len(rows) != 1 and judged:
                    raise Wrong(f"line {step.line}: \\gset needs one row, got {len(rows)}")
                for name, value in zip(names, *rows, strict=True) if rows else ():
                    variables[step.gset + name] = value
                answer = answer if named else rows
            if step.keyword not in CONTROL:
                answers.append(answer)
        if len(answers) == 1:
            return answers[0]
        return tuple(answers)

    return _guard_transaction(transaction, port)


def _guard_transaction(
    run: Callable[[tuple[object, ...]], object], port: Sql
) -> Callable[[tuple[object, ...]], object]:
    """Returns the function, which leaves no transaction open when it fails."""

    def run_guarded(inputs: tuple[object, ...]) -> object:
        try:
            return run(inputs)
        except Exception as error:
            port.rollback()
            if port.aborted(error):
                raise Aborted(str(error)) from error
            raise

    return run_guarded


class Kinds:
    """The operations of a phase, in the order in which one client executes them: pure functions of their number."""

    def __init__(
        self, definition: Definition, job: Job, phase: str, client: int, found: Mapping[str, Sequence[object]]
    ) -> None:
        """`found`: the values of the variables that a query of the user's gives."""
        names = definition.mixes.get(phase, {phase: 1.0})
        self.transactions = [definition.transactions[name] for name in names]
        self._weights = list(names.values())
        self._seed = [job.seed, crc32(phase.encode()), client]
        self._client = client
        self._clients = job.clients
        self._first = 0
        given = {name: given_value(job.params[name], definition, job.seed) for name in definition.given}
        given |= {name: partial(_choose_values, values) for name, values in found.items()}
        given |= {"n": self._numbers, "client_id": client}
        self.scripts = [each.script(job.spec.name) for each in self.transactions]
        self._inputs = [
            Inputs(script, [*self._seed, at], {name: given[name] for name in script.given})
            for at, script in enumerate(self.scripts)
        ]

    def batch(self, number: int) -> tuple[list[int], list[tuple[object, ...]]]:
        """Returns the position of the transaction, and the inputs, of each operation of a batch."""
        self._first = number * BATCH
        if len(self._inputs) == 1:
            return [0] * BATCH, self._inputs[0].batch(number)
        import numpy as np

        generator = np.random.Generator(np.random.Philox(np.random.SeedSequence([*self._seed, number])))
        shares = np.array(self._weights) / sum(self._weights)
        kinds = generator.choice(len(shares), BATCH, p=shares).tolist()
        # An operation has the inputs of its number, whatever the transactions of the others are.
        each = [inputs.batch(number) for inputs in self._inputs]
        return kinds, [each[kind][at] for at, kind in enumerate(kinds)]

    def _numbers(self, generator: np.random.Generator, count: int) -> list[int]:
        """Returns the batch's values of the variable n."""
        return [(self._first + at) * self._clients + self._client for at in range(count)]


def _choose_values(values: Sequence[object], generator: np.random.Generator, count: int) -> list[object]:
    return [values[at] for at in generator.integers(0, len(values), count).tolist()]


QUERY = "from:"
"""Begins a variable's value that is a query, whose rows are the values to choose from."""


def given_value(value: object, definition: Definition, seed: int) -> object:
    """Returns the value of a variable that the user gave: a number, a function that draws values, or the text. Raises
    UsageError."""
    text = str(value)
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            pass
    kind, colon, _ = text.partition(":")
    generated = colon and kind in USAGE and not text.startswith(QUERY)
    if generated or text.partition(".")[0] in definition.tables:
        return draw(text, definition.tables, seed)
    return text
