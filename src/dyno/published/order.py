"""The order of a published experiment's systems in its main phase."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from dyno.contracts.model import UsageError, Value

FASTER, ALIKE = " > ", " ≈ "


@dataclass(frozen=True)
class Order:
    """The published order, and the rows of a run that are put in order next to it."""

    published: str = ""
    """Names of contenders or of `sides`, fastest first: 'ZEO > MySQL ≈ PostgreSQL'."""
    phase: str = ""
    metric: str = "throughput"
    params: Mapping[str, Value] = field(default_factory=dict)
    """Parameters of all rows."""
    sides: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    """If values of parameters are put in order rather than contenders: the parameters of each, by name."""
    read_as: str = ""
    """How the order follows from the published text, if not from the figures of `phase`."""
    none: str = ""
    """Why the experiment has no order. It then has no other field."""

    @property
    def names(self) -> list[str]:
        if self.published:
            return re.split(f"{FASTER}|{ALIKE}", self.published)
        return []

    def check(self, where: str, contenders: Mapping[str, str]) -> None:
        """Raises UsageError unless the order has either names and a phase, or a reason for having none."""
        if bool(self.none) == bool(self.published and self.phase):
            raise UsageError(f"{where}: order: expected published and phase, or none with the reason")
        if strange := [name for name in self.names if name not in (self.sides or contenders)]:
            raise UsageError(f"{where}: order: {strange[0]} is not one of {', '.join(self.sides or contenders)}")
