"""PostgreSQL: a cluster of its own, reached by a socket in its directory, that nobody else may enter.

The settings that decide its speed stand here: what a tier or an option changes is given, the rest is the server's
default but for what is said beside it. PostgreSQL Global Development Group, PostgreSQL documentation, "Server
Configuration".
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from dyno.contracts.model import Refused
from dyno.servers import program_option, user_server
from dyno.servers.process import Process, Served, as_user, directory, program, socket, unprivileged

INSTALL = "dyno install postgresql"
USERS = ("postgres",)
USER, DATABASE, PORT = "dyno", "postgres", 5432
CONNECTIONS = 100
"""The default of max_connections."""
SPARE_CONNECTIONS = 10
READY = ("ready", "standby")
"""What a server says of itself that answers, the second of one that copies another."""
SETTINGS: Mapping[str, str] = {
    # Compiling pays for queries that take seconds: of a plan whose costs are guessed high, it takes longer than the
    # query.
    "jit": "off",
    # As much as every server's log may have here. Its default too, in all versions until now.
    "max_wal_size": "1GB",
    # Else one falls into some phase of a trial, every 5 minutes.
    "checkpoint_timeout": "30min",
}
KIND = program_option.Kind(
    # jit came with version 11.
    *("PostgreSQL server", r"postgres \(PostgreSQL\) (\d+(?:\.\d+)*)"),
    least="11",
    helpers=("initdb",),
    users=USERS,
)
OURS = ("listen_addresses", "unix_socket_directories", "max_connections", "dynamic_shared_memory_type", "port")
"""What is not for others to change: see `PostgreSQL`."""


def places() -> list[Path]:
    """Debian keeps each version's programs apart: the latest first."""
    return sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parts[-2].zfill(4), reverse=True)


def missing(path: str = "") -> str | None:
    """What is not here, with the command that installs it; None where all is. `path`: of a program of the user's
    choice."""
    if path:
        return KIND.wrong(path)
    found = program("postgres", places=places()) and program("initdb", places=places())
    return None if found else user_server.lacking("a PostgreSQL server", INSTALL)


class PostgreSQL(Served):
    """See `dyno.contracts.engine.Server`. `settings` are those of postgresql.conf; `path` is that of another
    program."""

    def __init__(self, home: Path, settings: Mapping[str, str], clients: int, path: str = "") -> None:
        self._path = path
        # It refuses to run as root.
        self._user = unprivileged(*USERS)
        self._home, self.data = home, home / "data"
        given = {
            **SETTINGS,
            **settings,
            "listen_addresses": "",
            # Relative to its data directory.
            "unix_socket_directories": ".",
            "max_connections": str(max(CONNECTIONS, clients + SPARE_CONNECTIONS)),
            # Its segments are files in its directory, and none in /dev/shm that would outlive SIGKILL.
            "dynamic_shared_memory_type": "mmap",
        }
        words = [word for name, value in given.items() for word in ("-c", f"{name}={value}")]
        self._process = Process(
            [self._program("postgres"), "-D", str(self.data), "-p", str(PORT), *words],
            home,
            self._answers,
            self._user,
            ending=signal.SIGINT,
            orphaned=signal.SIGQUIT,
        )

    @property
    def address(self) -> Mapping[str, str]:
        """How its client library reaches it."""
        return {"host": str(self.data), "port": str(PORT), "user": USER, "dbname": DATABASE}

    def start(self) -> None:
        if not self.data.exists():
            self._create()
        # Of a server that was killed: the one still says that it is ready, the other names a process that may seem
        # to be there, until somebody waits for it.
        for left in ("postmaster.pid", f".s.PGSQL.{PORT}.lock"):
            (self.data / left).unlink(missing_ok=True)
        self._process.start()

    def _enclosed(self) -> None:
        """Its directory, which no other user may enter."""
        directory(self._home, self._user)
        socket(self.data / f".s.PGSQL.{PORT}")

    def _create(self) -> None:
        self._enclosed()
        # Who may enter the directory may connect: nobody but its user and root.
        words = ["-D", str(self.data), "-A", "trust", "-U", USER, "--no-locale", "-E", "UTF8", "--no-sync"]
        self._made_by("initdb", words)

    def _made_by(self, name: str, words: Sequence[str]) -> None:
        """Has another program of PostgreSQL's make the data directory."""
        made = subprocess.run(
            [self._program(name), *words], cwd=self._home, capture_output=True, text=True, **as_user(self._user)
        )
        if made.returncode != 0:
            said = (made.stderr or made.stdout).strip().splitlines()
            raise Refused(f"{name} failed: {said[-1] if said else 'it said nothing'}")

    def _answers(self) -> bool:
        # Its last line says so, and is written when it is: pg_isready would take 20 ms of its own.
        try:
            return (self.data / "postmaster.pid").read_text().splitlines()[7].strip() in READY
        except (OSError, IndexError):
            return False

    def close(self) -> None:
        # Immediately, without writing a checkpoint first.
        self._process.stop(signal.SIGQUIT)

    def _program(self, name: str) -> str:
        if why := missing(self._path):
            raise Refused(why)
        if self._path:
            found = self._path if name == "postgres" else program_option.beside(self._path, name)
        else:
            found = program(name, places=places())
        if found is None:
            raise Refused(f"{name} is gone")
        return found
