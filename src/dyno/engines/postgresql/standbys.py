"""PostgreSQL with standbys that stream from it: a primary, and copies of it that are begun by pg_basebackup and apply
its log. Each has a directory of its own, and they reach each other by their sockets.

PostgreSQL Global Development Group, PostgreSQL documentation, "High Availability, Load Balancing, and Replication".
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dyno.engines.postgresql.server import PORT, USER, PostgreSQL
from dyno.servers.cluster import Cluster

MOST = 2
COMMITS: Mapping[str, str | None] = {"none": None, "write": "remote_write", "flush": "on", "apply": "remote_apply"}
"""The setting synchronous_commit by what a commit waits for: a standby has handed its log to the kernel, has flushed
it, or has applied it."""


class Standby(PostgreSQL):
    """A copy of `primary`, which must run when this one is first started."""

    def __init__(
        self, home: Path, settings: Mapping[str, str], clients: int, path: str, primary: PostgreSQL, name: str
    ) -> None:
        super().__init__(home, settings, clients, path)
        self._primary, self._name = primary, name

    def _create(self) -> None:
        self._enclosed()
        # Its slot has the primary keep the log for one that was lost.
        reach = f"host={self._primary.data} port={PORT} user={USER} application_name={self._name}"
        words = ["-D", str(self.data), "-d", reach, "-R", "-C", "-S", self._name, "-X", "stream", "-c", "fast"]
        self._made_by("pg_basebackup", [*words, "--no-sync"])


class Replicated(Cluster[PostgreSQL]):
    """So many standbys. `commits` is one of COMMITS: of all standbys, any one has to have it."""

    def __init__(
        self, home: Path, settings: Mapping[str, str], clients: int, path: str, standbys: int, commits: str
    ) -> None:
        names = [f"standby_{number + 1}" for number in range(standbys)]
        waits = COMMITS[commits]
        if waits is not None:
            settings = {**settings, "synchronous_commit": waits}
            given = {"synchronous_standby_names": f"ANY 1 ({', '.join(names)})"}
        else:
            given = {}
        self._primary = PostgreSQL(home / "primary", {**settings, **given}, clients, path)
        each = [Standby(home / name, settings, clients, path, self._primary, name) for name in names]
        super().__init__([self._primary, *each])
        self.copies, self.survives = 1 + standbys, waits is not None
        if waits is not None and standbys == 1:
            self.halts = "with its only standby gone, a commit waits for it for ever: say replicas=2"

    @property
    def address(self) -> Mapping[str, str]:
        """Of the primary."""
        return self._primary.address

    @property
    def data(self) -> Path:
        """Of the primary."""
        return self._primary.data
