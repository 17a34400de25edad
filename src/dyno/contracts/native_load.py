"""Native load: the requests of a port as bytes, sent by the loop in rust/wire instead of the engine's library.

A port is written once, for its library. For native load its connection is replaced by one that calls `Exchange.ask`.
A method of the port then runs twice. To encode the operation, it runs until its first request. When the response is
there, it runs again and returns its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from dyno.contracts.model import Refused
from dyno.contracts.native import REMEDY, load_native

if TYPE_CHECKING:
    from dyno.contracts.suite import Failure

Request = bytes | tuple[tuple[bytes, int], ...]
"""A request with one response, or several requests, each with its number of responses."""
CLIENT, NATIVE_CLIENT = "client", "native"
"""CLIENT is the option of a server's engine that selects the client; NATIVE_CLIENT is its value for native load."""
_NOTHING = object()
A = TypeVar("A")


def missing_native(options: Mapping[str, object]) -> str | None:
    """Returns what native load lacks here if these options request it, in one line; None if nothing is missing."""
    if options.get(CLIENT) != NATIVE_CLIENT or hasattr(load_native(), "Wire"):
        return None
    return f"needs Dyno's native module for client={NATIVE_CLIENT}: {REMEDY}"


class Requested(BaseException):
    """Ends a method at its first request. Not an Exception, so that a port's `except Exception` doesn't catch it."""

    def __init__(self, request: Request) -> None:
        self.request = request


class Exchange:
    """Stands between a port and its connection.

    `protocol` is a protocol of `dyno._native.Wire`, and `descriptor` that of the connected socket. `encrypted` says
    whether the connection uses TLS. Native load doesn't speak TLS: raises Refused.
    """

    def __init__(self, protocol: str, descriptor: int, encrypted: bool) -> None:
        if encrypted:
            raise Refused("native load can't use an encrypted connection: use --load library")
        self.protocol, self.descriptor = protocol, descriptor
        self.active = False
        """If True, requests go to `ask`; otherwise the library sends them."""
        self._response: object = _NOTHING

    def ask(self, request: Request) -> Any:
        """Returns the response to the method's request. Raises Requested if there is no response yet."""
        response, self._response = self._response, _NOTHING
        if response is _NOTHING:
            raise Requested(request)
        return response

    def request(self, method: Callable[[A], object], argument: A) -> Request:
        """Returns the request of one call of `method`. Raises TypeError if the method sends none."""
        self.active = True
        try:
            method(argument)
        except Requested as requested:
            return requested.request
        finally:
            self.active = False
        raise TypeError("an operation that sends no request has no native load")

    def answer(self, method: Callable[[A], object], argument: A, response: object) -> object:
        """Returns the answer of `method` for this response. Raises TypeError if the method sends a second request."""
        self.active, self._response = True, response
        try:
            return method(argument)
        except Requested:
            raise TypeError("an operation whose requests depend on responses has no native load") from None
        finally:
            self.active, self._response = False, _NOTHING


class Rows:
    """A decoded response of a SQL server, with the methods of a cursor."""

    def __init__(self, response: list[tuple[object, ...]] | int) -> None:
        if isinstance(response, int):
            self._rows: list[tuple[object, ...]] = []
            self.rowcount = response
        else:
            self._rows = response
            self.rowcount = len(response)

    def fetchone(self) -> tuple[object, ...] | None:
        if self._rows:
            return self._rows[0]
        return None

    def fetchall(self) -> list[tuple[object, ...]]:
        return self._rows


class NativeCall:
    """A method of a port that native load can call. A direct call goes through the library."""

    def __init__(self, method: Callable[[Any], object], exchange: Exchange) -> None:
        self._method, self._exchange = method, exchange

    def __call__(self, argument: object) -> object:
        return self._method(argument)

    def request(self, argument: object) -> Request:
        return self._exchange.request(self._method, argument)

    def answer(self, argument: object, response: object) -> object:
        return self._exchange.answer(self._method, argument, response)

    def failed(self, argument: object, failure: Failure) -> Failure:
        """Returns what to record for an error response."""
        return failure


class NativePair:
    """Two calls whose requests are sent one after the other. The second takes the operation's argument, the first
    what `first_argument` returns for it."""

    def __init__(self, first: NativeCall, second: NativeCall, first_argument: Callable[[Any], object]) -> None:
        self._first = first
        self._second = second
        self._argument = first_argument

    def __call__(self, argument: object) -> object:
        return self._first(self._argument(argument)), self._second(argument)

    def request(self, argument: object) -> Request:
        return (*_pairs(self._first.request(self._argument(argument))), *_pairs(self._second.request(argument)))

    def answer(self, argument: object, response: list[object]) -> object:
        first = sum(responses for _, responses in _pairs(self._first.request(self._argument(argument))))
        one, two = response[:first], response[first:]
        return (
            self._first.answer(self._argument(argument), one[0] if len(one) == 1 else one),
            self._second.answer(argument, two[0] if len(two) == 1 else two),
        )

    def failed(self, argument: object, failure: Failure) -> Failure:
        return failure


def _pairs(request: Request) -> tuple[tuple[bytes, int], ...]:
    if isinstance(request, tuple):
        return request
    return ((request, 1),)
