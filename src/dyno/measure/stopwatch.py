"""Where the time of a trial goes: a stopwatch whose laps have names. No engine's figure comes from it."""

from __future__ import annotations

from collections import Counter
from time import monotonic_ns


class Stopwatch:
    """Each lap is of the part that it is then given to; all together are the time since this was made."""

    def __init__(self) -> None:
        self.parts_ns: Counter[str] = Counter()
        self.check_ns = 0
        """Of that, what checks of answers took: between flights and after phases."""
        self._since = monotonic_ns()

    def on(self, part: str) -> None:
        """What has passed since the last lap was spent on `part`."""
        now = monotonic_ns()
        self.parts_ns[part] += now - self._since
        self._since = now
