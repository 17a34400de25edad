"""How long crashes may take: a part of the time that was given, handed on from the whole to each row and each way."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Allowed:
    """Until when, by the monotonic clock; for ever by default. What was begun before is brought to its end."""

    end: float = math.inf

    @classmethod
    def seconds(cls, many: float | None) -> Allowed:
        return cls() if many is None else cls(time.monotonic() + many)

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.end

    def part(self, share: float) -> Allowed:
        """That share of what is left."""
        now = time.monotonic()
        return self if self.end == math.inf else Allowed(now + max(0.0, self.end - now) * share)
