"""Native load for the suite `sql`: scripts whose statements and parameters are all known before an operation begins.

The statements of an operation are sent one after the other, each when the response to the one before has arrived.
After an error the others are not sent, and ROLLBACK is. In a session on the user's own tables in which nothing may be
changed, each transaction is one of Dyno's own: the request that begins it goes with the first statement's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dyno.contracts.native_load import Request
from dyno.contracts.suite import Failure
from dyno.suites.sql.language.operations import CONTROL, Aborted
from dyno.suites.sql.language.script import Script, Set

BEGINS, ENDS = ("BEGIN", "START"), ("COMMIT", "END")
LASTING = (*BEGINS, *ENDS, "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE", "SET", "LOCK", "UNLOCK")
"""Keywords that a script without a transaction must not have, because their effects outlast the operation."""


class NativeStatement(NamedTuple):
    """A statement that the engine's library has prepared."""

    request: Callable[[Sequence[object]], bytes]
    """Returns the request for these values of the parameters."""
    answer: Callable[[Any], Any]
    """Converts a decoded response to what `Sql.statement` returns."""


def can_load_script(script: Script) -> bool:
    """Returns whether some engine's native load can run the script."""
    statements = script.statements
    if any(isinstance(step, Set) and step.late for step in script.steps):
        return False
    if any(statement.gset is not None for statement in statements):
        return False
    keywords = [statement.keyword for statement in statements]
    if len(statements) > 1 and keywords[0] in BEGINS and keywords[-1] in ENDS:
        # COMMIT AND CHAIN begins another transaction.
        return "CHAIN" not in statements[-1].pieces[0].upper()
    return not any(word in LASTING for word in keywords)


class Step(NamedTuple):
    """A statement of a script."""

    statement: NativeStatement | None
    """None: a new transaction in place of the script's own BEGIN or COMMIT, in a session that only reads."""
    places: Sequence[int] = ()
    """Positions of its parameters among the script's inputs."""
    answered: bool = True
    """Whether its answer is one of the operation's."""
    begin: bytes = b""
    """The request that begins a new transaction, which is sent together with the statement's own."""

    def request(self, inputs: tuple[object, ...]) -> tuple[bytes, int]:
        """Returns the request, and its number of responses."""
        if self.statement is None:
            return self.begin, 1
        request = self.statement.request([inputs[at] for at in self.places])
        return self.begin + request, self.responses

    @property
    def responses(self) -> int:
        return 1 + bool(self.begin and self.statement)

    def answer(self, response: object) -> object:
        if self.statement is None:
            return 0
        return self.statement.answer(response)


class NativeTransaction:
    """A script as an operation of native load. `port` is that of one client, `named` as in
    `operations.compile_script`."""

    def __init__(self, script: Script, port: Any, named: bool) -> None:
        begin: bytes = getattr(port, "begin_request", b"")
        self._steps = list[Step]()
        within = False
        for step in script.statements:
            if begin and step.keyword in (*BEGINS, *ENDS):
                within = step.keyword in BEGINS
                self._steps.append(Step(None, answered=False, begin=begin))
                continue
            statement = port.native_statement(step.pieces, named)
            places = [script.inputs.index(name) for name in step.names]
            self._steps.append(Step(statement, places, step.keyword not in CONTROL, b"" if within else begin))
        self._responses = sum(step.responses for step in self._steps)
        self._aborts: Sequence[str] = port.aborts

    def request(self, inputs: tuple[object, ...]) -> Request:
        requests = tuple(step.request(inputs) for step in self._steps)
        if self._responses == 1:
            return requests[0][0]
        return requests

    def answer(self, inputs: tuple[object, ...], response: Any) -> object:
        responses = response
        if self._responses == 1:
            responses = [response]
        answers, at = [], 0
        for step in self._steps:
            at += step.responses
            if step.answered or len(self._steps) == 1:
                answers.append(step.answer(responses[at - 1]))
        if len(answers) == 1:
            return answers[0]
        return tuple(answers)

    def failed(self, inputs: tuple[object, ...], failure: Failure) -> Failure:
        """Marks the failure if the engine aborted the transaction because of others."""
        code = failure.error.partition(":")[0]
        if code in self._aborts:
            return Failure(f"{Aborted.__name__}: {failure.error}")
        return failure


class NativeMix:
    """The transactions of a mix. The argument is the transaction's position, and its inputs."""

    def __init__(self, members: Sequence[NativeTransaction]) -> None:
        self._members = members

    def request(self, argument: tuple[int, tuple[object, ...]]) -> Request:
        return self._members[argument[0]].request(argument[1])

    def answer(self, argument: tuple[int, tuple[object, ...]], response: object) -> object:
        return self._members[argument[0]].answer(argument[1], response)

    def failed(self, argument: tuple[int, tuple[object, ...]], failure: Failure) -> Failure:
        return self._members[argument[0]].failed(argument[1], failure)
