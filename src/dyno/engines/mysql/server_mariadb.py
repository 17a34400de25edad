"""MariaDB, and MySQL: a server of its own, reached by a socket in its directory, that nobody else may enter.

One module for both: what differs is how the data directory is made, and a few settings. The settings that decide
speed stand here: what a tier or an option changes is given, the rest is the server's default but for what is said
beside it. MariaDB plc, MariaDB documentation, "InnoDB System Variables" and "mariadbd Options"; Oracle, MySQL 8.4
Reference Manual, "InnoDB Startup Options and System Variables" and "Initializing the Data Directory".
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from socket import AF_UNIX
from socket import socket as connection
from typing import NamedTuple

from dyno.contracts.model import Refused
from dyno.servers import program_option, user_server
from dyno.servers.process import Process, Served, as_user, directory, program, socket, unprivileged

MARIADB, MYSQL = "MariaDB", "MySQL"
INSTALL = {MARIADB: "dyno install mariadb", MYSQL: "dyno install mysql"}
# Where a distribution has it, and MySQL's own archive.
PLACES = (Path("/usr/libexec"), Path("/usr/local/mysql/bin"))
CONNECTIONS = 151
"""The default of max_connections, of both."""
SPARE_CONNECTIONS = 10
SETTINGS: Mapping[str, str] = {
    # No port, so that nobody else on the machine reaches it.
    "skip-networking": "ON",
    # Else it would read into its cache, at a start, what it had there before: no phase would be cold.
    "innodb-buffer-pool-dump-at-shutdown": "OFF",
    "innodb-buffer-pool-load-at-startup": "OFF",
    # MySQL's default is to have it, and MariaDB's is not.
    "performance-schema": "OFF",
}
NO_BINARY_LOG = "--skip-log-bin"
"""MySQL's default is to have one, and to write each commit to both logs; MariaDB's is not."""
ONLY: Mapping[str, Mapping[str, str]] = {
    MARIADB: {},
    # Another protocol, at a port and a socket of its own; and a directory that must be there, though nothing uses it.
    MYSQL: {"mysqlx": "OFF", "secure-file-priv": "NULL"},
}
LOG: Mapping[str, Mapping[str, str]] = {
    # As much as every server's log may have here: the default is 96 MiB, and what is full must be written to the
    # tables before anything goes on.
    MARIADB: {"innodb-log-file-size": "1G"},
    # MySQL has had it since 8.0.30, and takes an earlier name for it.
    MYSQL: {"loose-innodb-redo-log-capacity": "1G"},
}
USERS = ("mysql",)
_ASKED = ("--no-defaults", "--version")
_MYSQL = r"Ver (\d+(?:\.\d+)+)(?![\d.]*-MariaDB).* for "
KINDS = {
    MARIADB: program_option.Kind("MariaDB server", r"Ver (\d+(?:\.\d+)+)-MariaDB", _ASKED, least="10.4", users=USERS),
    MYSQL: program_option.Kind("MySQL server", _MYSQL, _ASKED, least="8.0", users=USERS),
}
OURS = ("skip-networking", "datadir", "tmpdir", "socket", "pid-file", "max-connections", "skip-log-bin", "log-bin")
"""What is not for others to change: see `MariaDB`."""
SCRIPTS = ("system_tables.sql", "performance_tables.sql", "system_tables_data.sql")
"""What makes MariaDB's system tables. Those of the help, of `sys` and of maps are left out: nobody asks them here."""


class Program(NamedTuple):
    """A server's program, and of which kind it is."""

    path: str
    kind: str


def find(wanted: str) -> Program | None:
    """The program of the kind that is wanted; in MySQL's place, which Debian does not have, MariaDB's if need be."""
    paths = [path for name in ("mariadbd", "mysqld") if (path := program(name, places=PLACES))]
    found = [Program(path, _kind(path)) for path in paths]
    instead = found[0] if found and wanted == MYSQL else None
    return next((each for each in found if each.kind == wanted), instead)


@cache
def _kind(path: str) -> str:
    # By its name where that tells: asking takes longer than all else of `dyno list`.
    if Path(path).resolve().name == "mariadbd":
        return MARIADB
    told = subprocess.run([path, "--no-defaults", "--version"], capture_output=True, text=True)
    return MARIADB if MARIADB in told.stdout else MYSQL


def missing(wanted: str, path: str = "") -> str | None:
    """What is not here, with the command that installs it; None where all is. `path`: of a program of the user's
    choice."""
    if path:
        return KINDS[wanted].wrong(path)
    return None if find(wanted) else user_server.lacking(f"a {wanted} server", INSTALL[wanted])


class MariaDB(Served):
    """See `dyno.contracts.engine.Server`. `settings` are system variables; `path` is that of another program;
    `environment`: variables of its process, beside those that are here."""

    def __init__(
        self,
        wanted: str,
        home: Path,
        settings: Mapping[str, str],
        clients: int,
        path: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        found = Program(path, wanted) if path else find(wanted)
        if found is None or missing(wanted, path):
            raise Refused(f"{missing(wanted, path)}")
        self._program = found
        # It refuses to run as root.
        self._user = unprivileged(*USERS)
        self._home, self.data, self._socket = home, home / "data", home / "mysqld.sock"
        given = {
            **SETTINGS,
            **ONLY[found.kind],
            **LOG[found.kind],
            **settings,
            "socket": self._socket,
            "pid-file": home / "mysqld.pid",
            "max-connections": max(CONNECTIONS, clients + SPARE_CONNECTIONS),
        }
        self._process = Process(
            [*self._command(), NO_BINARY_LOG, *(f"--{name}={value}" for name, value in given.items())],
            home,
            self._answers,
            self._user,
            environment=environment,
        )

    def _command(self) -> list[str]:
        """Without the settings in /etc; with its temporary tables in its directory, and not in /tmp."""
        return [self._program.path, "--no-defaults", f"--datadir={self.data}", f"--tmpdir={self._home}"]

    @property
    def address(self) -> Mapping[str, str | bool]:
        """How its client library reaches it: who may enter the directory may connect, and nobody else listens."""
        return {"unix_socket": str(self._socket), "user": "root", "ssl_disabled": True}

    def start(self) -> None:
        if not self.data.exists():
            self._create()
        # What one that was killed has left there: MySQL takes the number in the lock for a process that may live.
        for left in self._home.glob("mysqld.*"):
            left.unlink()
        self._process.start()

    def _create(self) -> None:
        directory(self._home, self._user)
        socket(self._socket)
        if self._program.kind == MARIADB:
            directory(self.data, self._user)
            # As mariadb-install-db does it, which wants programs of the client's package. None of it is worth a wait
            # for the device: what is measured comes later.
            words = ["--bootstrap", "--log-warnings=0", "--debug-no-sync"]
            self._run([*self._command(), *words], _system_tables(Path(self._program.path)))
        else:
            self._run(
                [*self._command(), "--initialize-insecure", *(f"--{n}={v}" for n, v in ONLY[MYSQL].items())], b""
            )

    def _run(self, command: list[str], given: bytes) -> None:
        made = subprocess.run(command, input=given, cwd=self._home, capture_output=True, **as_user(self._user))
        if made.returncode != 0:
            # The next attempt begins anew.
            shutil.rmtree(self.data, ignore_errors=True)
            said = (made.stdout + made.stderr).decode(errors="replace").splitlines()
            errors = [line for line in said if "ERROR" in line] or said or ["it said nothing"]
            raise Refused(f"{self._process.name} could not make its data directory: {errors[0].strip()}")

    def _answers(self) -> bool:
        # It greets who connects; while it starts nobody listens yet, or nobody greets.
        with closing(connection(AF_UNIX)) as client:
            client.settimeout(1)
            try:
                client.connect(str(self._socket))
                return bool(client.recv(1))
            except OSError:
                return False


def _system_tables(program: Path) -> bytes:
    """The statements that make MariaDB's system tables, with a user root that needs no password."""
    share = program.resolve().parents[1] / "share"
    for place in (share / "mariadb", share / "mysql", share):
        for prefix in ("mariadb", "mysql"):
            scripts = [place / f"{prefix}_{name}" for name in SCRIPTS]
            if all(script.exists() for script in scripts):
                # Bootstrapping takes a statement a line.
                first = b"CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n"
                return first + b"\n".join(script.read_bytes() for script in scripts)
    raise Refused(f"the scripts that make MariaDB's system tables are not in {share}: {INSTALL[MARIADB]}")
