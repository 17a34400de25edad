"""Cleanup at the end of a block that may have failed, and SQL transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def finally_(do: Callable[[], object]) -> Iterator[None]:
    """Calls `do` at the end of the block. If the block raised, an error from `do` is suppressed."""
    with undo_on_error(do):
        yield
    do()


@contextmanager
def undo_on_error(undo: Callable[[], object]) -> Iterator[None]:
    """Calls `undo` if the block raises. An error from `undo` is suppressed: on a lost connection a rollback fails
    too, and would mask the cause."""
    try:
        yield
    except BaseException:
        with suppress(Exception):
            undo()
        raise


@contextmanager
def transaction(execute: Callable[[str], object], begin: str = "BEGIN") -> Iterator[None]:
    """A SQL transaction: commits at the end of the block, rolls back if it raises."""
    execute(begin)
    with undo_on_error(lambda: execute("ROLLBACK")):
        yield
    execute("COMMIT")
