"""The port `primes`. No engine and no measuring may be put here."""

from __future__ import annotations

from typing import Protocol

from dyno.contracts.suite import Report


class Primes(Protocol):
    """Engines implement it as a class called with `(engine,)`."""

    def search(self, threads: int, limit: int, limit_ns: int, events: int = 0) -> Report:
        """An event is a search of all primes from 3 to below `limit`, each number divided by all from 2 to its root.
        Each of so many threads does one after the other, for so many ns, or until there were so many `events` for
        each. The report's operations and items are events; its facts tell of the latencies and the threads' shares
        (see docs/suites/cpu.md); and `fewest_primes` and `most_primes`, by any event, where the engine counts them.
        """

    def close(self) -> None: ...
