"""The port for sessions on the user's own tables in which nothing may be changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from dyno.contracts.cleanup import undo_on_error
from dyno.contracts.model import Refused
from dyno.contracts.native_load import Exchange
from dyno.suites.sql.guard import REMEDY, find_effect, is_control
from dyno.suites.sql.native import NativeStatement
from dyno.suites.sql.port import Protection


class ReadingPort:
    """A port that checks each statement, and sends it within a transaction of Dyno's own, which is rolled back.

    The transaction is begun anew wherever the script begins or ends one, after an error, and before and after each
    slice of operations.
    """

    def __init__(self, port: Any) -> None:
        self._port: Any = port
        self.protection: Protection = getattr(port, "protection", Protection())
        self.aborts: Sequence[str] = getattr(port, "aborts", ())
        self.begin_request = self.protection.request
        self._begin = self.protection.begin
        with undo_on_error(port.close):
            self.rollback()

    @property
    def exchange(self) -> Exchange:
        exchange: Exchange = self._port.exchange
        return exchange

    def define(self, script: str) -> None:
        raise Refused(f"a session that only reads executes no schema: {REMEDY}")

    def load(self, table: str, columns: Mapping[str, Sequence[object]]) -> None:
        raise Refused(f"a session that only reads loads no rows: {REMEDY}")

    def statement(self, pieces: Sequence[str], named: bool = False) -> Callable[[Sequence[Any]], Any]:
        self._check(pieces)
        if self._begin is None or not is_control(pieces[0]):
            run: Callable[[Sequence[Any]], Any] = self._port.statement(pieces, named)
            return run

        def begin(values: Sequence[object]) -> object:
            self.rollback()
            if named:
                return ([], [])
            return 0

        return begin

    def native_statement(self, pieces: Sequence[str], named: bool) -> NativeStatement:
        self._check(pieces)
        statement: NativeStatement = self._port.native_statement(pieces, named)
        return statement

    def _check(self, pieces: Sequence[str]) -> None:
        # An operation of native load that failed has left its transaction.
        self.rollback()
        text = " ? ".join(pieces)
        effect = find_effect(text, self.protection.pasted and len(pieces) > 1)
        if not effect and (functions := self.protection.effects(text)):
            effect = f"the server says that {functions[0]} may change something"
        if effect:
            raise Refused(f"{text!r:.200} is not sent, because {effect}: {REMEDY}")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A new transaction around the block, of which nothing stays."""
        self.rollback()
        yield
        self.rollback()

    def rollback(self) -> None:
        if self._begin is None:
            self._port.rollback()
        else:
            self._begin()

    def aborted(self, error: Exception) -> bool:
        return bool(self._port.aborted(error))

    def close(self) -> None:
        self._port.close()
