"""The port `command`: a program that is started again and again."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol


class Conditions(NamedTuple):
    most: int
    """Maximum number of timed runs. One run takes place in any case."""
    limit_ns: int
    """No further run begins when the timed runs together took that long."""
    warmups: int
    """Untimed runs before."""
    settles: bool
    """Whether first runs that together take less than 0.1 s are left out, too."""
    same: bool
    """Whether the output is kept and compared."""


class Run(NamedTuple):
    """One run, from the call that starts the program to the return of the call that waits for its end."""

    elapsed_ns: int
    user_ns: int
    """CPU time of the program and of the processes that it has waited for."""
    system_ns: int
    peak_bytes: int
    """Largest resident memory of one of these processes."""
    status: int
    """Exit status, or minus the number of the signal that ended it."""
    core_wait_ns: int | None
    """Time in which the program, or after its end the process that started it, was ready to run and waited for a
    core. Processes that the program started are left out. None if the kernel does not count it."""
    minor_faults: int
    """This and the rest: of the program and the processes that it has waited for."""
    major_faults: int
    voluntary_switches: int
    involuntary_switches: int


class Ended(NamedTuple):
    """What the runs of a trial were. They end with the first that fails."""

    runs: Sequence[Run]
    differing: int
    """Number of runs whose output was not that of the first."""
    output: Path | None
    """File with the output of the first run, if it is kept."""
    said: str
    """Last line of the errors of the last run."""
    allowed: Sequence[int] | None
    """Exit statuses besides 0 that are no failure; None: all are."""


class Command(Protocol):
    """Engines implement it as a class called with `(engine, directory, values)`: where the program runs, and values
    for the names in braces. Creating and closing it runs the user's set-up and clean-up."""

    def program(self) -> Path:
        """Returns the path of the program. Raises Refused if there is none."""

    def run(self, conditions: Conditions) -> Ended:
        """Runs the program. Raises Refused if it can't be started, or if a command before or after a run fails."""

    def close(self) -> None: ...
