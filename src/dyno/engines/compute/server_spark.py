"""The Java process of a local Spark, which its Python library starts: whose it is, and that it ends with the
trial."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress


class Local:
    """See `dyno.contracts.engine.Server`. Its start is part of what is measured: what opens the engine calls the
    library, and tells by `launched` which process it is."""

    own = True

    def __init__(self) -> None:
        self._pid: int | None = None

    def start(self) -> None:
        pass

    def launched(self, pid: int) -> None:
        self._pid = pid

    def stop(self) -> None:
        self.kill()

    def kill(self) -> None:
        if self._pid is not None:
            # Here: lists of engines do without psutil.
            import psutil

            from dyno.servers import leftover_processes

            with suppress(psutil.NoSuchProcess):
                leftover_processes.kill(leftover_processes.family(self._pid))
            self._pid = None

    def close(self) -> None:
        self.kill()

    def pids(self) -> Iterable[int]:
        return () if self._pid is None else (self._pid,)
