"""Calls of a user's Python function, as slices for the measuring loop. The suite `calls` and the pytest plug-in share
them."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from dyno.contracts.declarations import exception_text
from dyno.contracts.model import Refused, UsageError, Wrong
from dyno.contracts.suite import Operations

if TYPE_CHECKING:
    import asyncio

LARGEST_SLICE, SLICE_NS = 1_000, 10_000_000
"""Slices grow up to this number of calls, as long as they take less than this time: answers are held in memory until
the end of a slice."""
WARM_NS = 20_000_000
"""Minimum time of a warm-up."""
MOST_SET_UP, SET_UP_NS = 10_000, 3_000_000_000
"""A round with set-ups ends after this number of calls, or after this time in set-ups."""
FOREVER_NS, SPIN_NS = 1 << 60, 1_500_000
"""An event loop wakes up to a millisecond late, so the loop polls this long before the end of a wait."""
NEEDS_ONE_BY_ONE = "setup needs calls one by one: a closed loop (no rate) of one client, and inflight=1"
NEEDS_ASYNC = "inflight is for an `async def`: calls of a plain function can't be in flight together"
DYNO = str(Path(__file__).parents[1])

UNFINISHED: tuple[tuple[str, Callable[[object], bool], type, str], ...] = (
    ("a coroutine", inspect.iscoroutinefunction, Coroutine, "the `async def` itself"),
    ("an async generator", inspect.isasyncgenfunction, AsyncGenerator, "an `async def` that consumes it"),
    ("a generator", inspect.isgeneratorfunction, Generator, "lambda: list(work())"),
)
"""Objects that a call may create instead of running the function: the name, a check of the function, the type, and a
function that runs the object."""
NOT_RUN = "a call only creates {kind} and does not run it; measure a function that runs it, such as {how}"


def is_async(function: Callable[..., object]) -> bool:
    """Returns whether calls of the function are coroutines, which need an event loop."""
    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))


def explain_unmeasurable(function: Callable[..., object]) -> str | None:
    """Returns why a call of the function runs nothing of it. None for functions that can be measured."""
    for attempted in (function, type(function).__call__):
        for kind, creates, _, how in UNFINISHED[1:]:
            if creates(attempted):
                return NOT_RUN.format(kind=kind, how=how)
    return None


def check_finished(answers: Sequence[object]) -> None:
    """Raises Wrong for answers that are coroutines or generators: the function has not been run."""
    for answered in set(map(type, answers)):
        for kind, _, type_, how in UNFINISHED:
            if issubclass(answered, type_):
                for coroutine in answers:
                    if isinstance(coroutine, Coroutine):
                        # A coroutine that is not closed causes a warning.
                        coroutine.close()
                raise Wrong(NOT_RUN.format(kind=kind, how=how))


def describe_exception(error: BaseException) -> str:
    """Returns the type and text of an exception of the user's code in one line, with the file and line that raised
    it."""
    line = f"{type(error).__name__}: {' '.join(exception_text(error).split())}".removesuffix(": ")
    trace, place = error.__traceback__, ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith((DYNO, "<frozen")):
            place = f" ({file}, line {trace.tb_lineno})"
        trace = trace.tb_next
    # The text of a syntax error has its own place.
    if isinstance(error, SyntaxError) and error.filename:
        return line
    return line + place


Judge = Callable[[Sequence[int], Sequence[object], Sequence[object]], int]
"""Takes the positions of a slice's arguments, the arguments, and the answers, of which there may be fewer. An answer
is a Failure if the call raised. Returns the number of compared answers. Raises Wrong."""


class Calls:
    """Slices of calls of a function, with each argument in turn.

    `arguments`: None to call the function without an argument. `setup` is called before each call, with the argument
    if there is one. What it returns is the argument of the call, unless that is None. `inflight`: for an `async def`,
    the number of calls that run at the same time.
    """

    def __init__(
        self,
        function: Callable[..., object],
        arguments: Sequence[object] | None,
        judge: Judge,
        setup: Callable[..., object] | None = None,
        inflight: int = 1,
    ) -> None:
        self._judge = judge
        self._setup = setup
        self._inflight = inflight
        if arguments is None:
            self._arguments: Sequence[object] = (None,)
        else:
            self._arguments = arguments
        self._bare = arguments is None
        self._with: Callable[[object], object] = function
        self._without: Callable[[object], object] = lambda _: function()
        self._loop: EventLoop | None = None
        if is_async(function):
            self._loop = EventLoop(self._without if self._bare else self._with)
            self._with, self._without = map(self._loop.complete, (self._with, self._without))
        self.not_run: str | None = None
        """Why an answer is unfinished, if one was."""
        self._size, self._answered = 1, True
        """Calls of the next slice, and whether the last slice was checked."""

    def slices(self, first: int = 0, over: Callable[[int], bool] = lambda done: False) -> Iterator[Operations]:
        """Yields slices that begin with the argument at this position. `over` takes the number of calls so far, and
        returns whether they are enough. With set-ups, a slice is one call; the next slice may be requested only after
        its answer was checked."""
        count = len(self._arguments)
        done = 0
        setting_up_ns = 0
        self._answered = True
        while not over(done):
            size, begin = 1 if self._setup else self._size, monotonic_ns()
            positions = [(first + done + step) % count for step in range(size)]
            arguments, call = [self._arguments[at] for at in positions], self._without if self._bare else self._with
            if self._setup is not None:
                if not self._answered:
                    raise Refused(NEEDS_ONE_BY_ONE)
                if done >= MOST_SET_UP or setting_up_ns > SET_UP_NS:
                    return
                result = self._set_up(arguments[0])
                setting_up_ns += monotonic_ns() - begin
                if result is not None:
                    arguments, call = [result], self._with
            self._answered = False
            yield self._slice(positions, arguments, call)
            done += size
            if self._setup is None:
                spent_ns = monotonic_ns() - begin
                if spent_ns < SLICE_NS:
                    grown = size * 2
                elif spent_ns > 4 * SLICE_NS:
                    grown = size // 2
                else:
                    grown = size
                self._size = min(max(grown, 1), LARGEST_SLICE)

    def warm_up(self, first: int = 0) -> Iterator[Operations]:
        """Yields slices with each argument once, and again until some time has passed."""
        end = monotonic_ns() + WARM_NS
        return self.slices(first, lambda done: done >= len(self._arguments) and monotonic_ns() > end)

    def _slice(
        self, positions: Sequence[int], arguments: Sequence[object], call: Callable[[object], object]
    ) -> Operations:
        check = partial(self._check, positions, arguments)
        if self._loop is not None and self._inflight > 1:
            return Operations(lambda _: (), arguments, check, many=self._loop, places=self._inflight, endless=True)
        return Operations(lambda _: (call,), arguments, check, endless=True)

    def _check(self, positions: Sequence[int], arguments: Sequence[object], answers: Sequence[object]) -> int:
        self._answered = True
        try:
            check_finished(answers)
        except Wrong as wrong:
            self.not_run = str(wrong)
            raise
        return self._judge(positions, arguments, answers)

    def _set_up(self, argument: object) -> object:
        assert self._setup is not None
        try:
            if self._bare:
                return self._setup()
            return self._setup(argument)
        except MemoryError:
            raise
        except Exception as error:
            raise Wrong(f"setup raised {describe_exception(error)}") from error

    def close(self) -> None:
        """Ends calls that are still running, and closes the event loop."""
        if self._loop is not None:
            self._loop.close()


class EventLoop:
    """An event loop of its own that runs calls of an `async def`, many at once (the methods of `InFlight`) or one."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        # Plain functions don't need it, and importing it takes long.
        import asyncio

        with suppress(RuntimeError):
            asyncio.get_running_loop()
            raise UsageError("an event loop is running already: measure an `async def` from a plain function")
        self._function, self._asyncio = function, asyncio
        self._cancelled: type[BaseException] = asyncio.CancelledError
        self._loop = asyncio.new_event_loop()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        """The tasks by place, because the loop itself keeps only weak references."""
        self._ended: list[tuple[int, object]] = []
        self._full: MemoryError | None = None

    def complete(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Returns a plain function that runs a call to its end."""
        run = self._loop.run_until_complete
        return lambda argument: run(function(argument))

    def begin(self, place: int, argument: object) -> None:
        self._tasks[place] = self._loop.create_task(self._run(place, argument))

    async def _run(self, place: int, argument: object) -> None:
        answer: object
        try:
            answer = await self._function(argument)
        except MemoryError as error:
            self._full = answer = error
        except Exception as error:
            answer = error
        except self._cancelled:
            answer = RuntimeError("the call was cancelled")
        self._ended.append((place, answer))
        self._loop.stop()

    def ended(self, wait_ns: int) -> Sequence[tuple[int, object]]:
        if not self._ended:
            timer = None
            if wait_ns < SPIN_NS:
                self._loop.call_soon(self._loop.stop)
            elif wait_ns < FOREVER_NS:
                timer = self._loop.call_later((wait_ns - SPIN_NS) / 1e9, self._loop.stop)
            self._loop.run_forever()
            if timer is not None:
                timer.cancel()
        if self._full is not None:
            raise self._full
        ended, self._ended = self._ended, []
        return ended

    def close(self) -> None:
        loop = self._loop
        if loop.is_running() or loop.is_closed():
            return
        with suppress(Exception):
            if tasks := self._asyncio.all_tasks(loop):
                for task in tasks:
                    task.cancel()
                # A task may ignore that it is cancelled.
                loop.run_until_complete(self._asyncio.wait(tasks, timeout=1))
            loop.run_until_complete(self._asyncio.wait_for(loop.shutdown_asyncgens(), 1))
        loop.close()
