"""The contract of servers whose loaded data can be copied, so that only the first trial of a cell loads them."""

from abc import ABC
from pathlib import Path


class Copyable(ABC):
    """A server, started by Dyno, that works with a copy of another trial's data directory. Dyno recognises it by
    `isinstance`, and copies the directory while the server is stopped."""

    data: Path
    """The data directory, which holds everything that the server stores."""
