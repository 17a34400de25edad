"""Requests of a client that waits for each: as many threads as are to be under way at once, and none for one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

LONGEST_SECONDS = 1e6


class Pool:
    """See `dyno.contracts.suite.InFlight`. `do` makes a request and returns its answer; what it raises is the
    answer, too."""

    def __init__(self, do: Callable[[Any], Any], places: int) -> None:
        self._do = do
        self._done: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        self._asked: list[SimpleQueue[Any]] = [SimpleQueue() for _ in range(places if places > 1 else 0)]
        self._threads = [Thread(target=self._serve, args=(place,), daemon=True) for place in range(len(self._asked))]
        for thread in self._threads:
            thread.start()

    def begin(self, place: int, argument: Any) -> None:
        if self._asked:
            self._asked[place].put(argument)
        else:
            self._done.put((place, self._answer(argument)))

    def ended(self, wait_ns: int) -> Sequence[tuple[int, Any]]:
        found: list[tuple[int, Any]] = []
        with suppress(Empty):
            found.append(self._done.get(timeout=min(wait_ns / 1e9, LONGEST_SECONDS)))
            while True:
                found.append(self._done.get_nowait())
        return found

    def _answer(self, argument: Any) -> Any:
        try:
            return self._do(argument)
        except Exception as error:
            return error

    def _serve(self, place: int) -> None:
        while (argument := self._asked[place].get()) is not None:
            self._done.put((place, self._answer(argument)))

    def close(self) -> None:
        for asked in self._asked:
            asked.put(None)
        for thread in self._threads:
            thread.join()
