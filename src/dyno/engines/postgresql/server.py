"""PostgreSQL servers that Dyno starts: one server, or a primary with standbys that stream its log. Each has its own
directory and listens on a socket there, which no other user may enter.

This module sets what affects speed; a tier or an option may change it. All other settings have the server's defaults.
Source: PostgreSQL Global Development Group, PostgreSQL documentation, "Server Configuration" and "High Availability,
Load Balancing, and Replication".
"""

import signal
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from dyno.contracts.copyable import Copyable
from dyno.contracts.model import Refused, Unavailable
from dyno.contracts.safe_read import toml
from dyno.servers import program_option
from dyno.servers.known_settings import find_rejected, fit_settings
from dyno.servers.listen import Listener, ServerAddress, write_certificate
from dyno.servers.process import Cluster, Process, as_user, program, unprivileged

USERS = ("postgres",)
USER = "dyno"
DATABASE = "postgres"
PORT = 5432
CONNECTIONS = 100
"""The default of max_connections."""
SPARE_CONNECTIONS = 10
READY = ("ready", "standby")
"""States in postmaster.pid of a server that answers: a primary, and a standby."""
SETTINGS = Path(__file__).with_name("settings.toml")
OURS = ("listen_addresses", "unix_socket_directories", "max_connections", "dynamic_shared_memory_type", "port")
"""Settings that users may not change."""
MOST_STANDBYS = 2
COMMITS: Mapping[str, str | None] = {"none": None, "write": "remote_write", "flush": "on", "apply": "remote_apply"}
"""Values of synchronous_commit, by what a commit waits for: a standby has written, flushed or applied the log."""


def places() -> list[Path]:
    """Returns Debian's directories of PostgreSQL's programs, one for each version, the latest first."""
    return sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parts[-2].zfill(4), reverse=True)


PROGRAM = program_option.ServerProgram(
    "PostgreSQL server",
    r"postgres \(PostgreSQL\) (\d+(?:\.\d+)*)",
    # The first version that psycopg 3 supports.
    least="10",
    helpers=("initdb",),
    users=USERS,
    names=("postgres",),
    places=places,
    install="dyno install postgresql",
    needed="a PostgreSQL server",
)


def find_unknown_settings(path: str, settings: Mapping[str, str]) -> Collection[str]:
    """Returns the settings that the program doesn't have."""

    def print_port(settings: Mapping[str, str]) -> list[str]:
        # This ends for want of a data directory, after the arguments were read, and root may do it.
        return [path, "-C", "port", *(word for name, value in settings.items() for word in ("-c", f"{name}={value}"))]

    return find_rejected(settings, print_port, r'unrecognized configuration parameter "([^"]+)"')


class PostgreSQL(Process, Copyable):
    """See `dyno.contracts.engine.Server`. `settings` become command-line options; `path` is the user's program;
    `listener` is where it also listens for other machines."""

    def __init__(
        self,
        home: Path,
        settings: Mapping[str, str],
        clients: int,
        path: str = "",
        listener: Listener | None = None,
    ) -> None:
        self._path = path
        self.data = home / "data"
        self._listener = listener
        self._port = PORT if listener is None else listener.port
        program = PROGRAM.executable(path)
        fitted = fit_settings(path, toml(SETTINGS), settings, find_unknown_settings)
        self.left_out = fitted.left_out
        arguments = {
            **fitted.settings,
            "listen_addresses": "" if listener is None else listener.host,
            # The path is relative to the data directory.
            "unix_socket_directories": ".",
            "max_connections": str(max(CONNECTIONS, clients + SPARE_CONNECTIONS)),
            # Store segments as files in the data directory. In /dev/shm they would survive SIGKILL.
            "dynamic_shared_memory_type": "mmap",
        }
        if listener is not None and listener.certificate is not None:
            arguments |= {
                "ssl": "on",
                "ssl_cert_file": str(listener.certificate),
                "ssl_key_file": str(listener.key),
            }
        words = [word for name, value in arguments.items() for word in ("-c", f"{name}={value}")]
        super().__init__(
            [program, "-D", str(self.data), "-p", str(self._port), *words],
            home,
            self._answers,
            # The server refuses to run as root.
            unprivileged(*USERS),
            ending=signal.SIGINT,
            orphaned=signal.SIGQUIT,
            unix=self.data / f".s.PGSQL.{self._port}",
        )

    @property
    def address(self) -> Mapping[str, str]:
        """Arguments with which client libraries connect."""
        return {"host": str(self.data), "port": str(self._port), "user": USER, "dbname": DATABASE}

    def reached(self) -> ServerAddress:
        listener = self._listener
        assert listener is not None
        # In the address of a host name, the name is checked too.
        encrypted = {"sslmode": "verify-full", "sslrootcert": str(listener.certificate)}
        tls = encrypted
        if listener.certificate is None:
            tls = {"sslmode": "disable"}
        return listener.reached(user=USER, password=listener.password, dbname=DATABASE, **tls)

    def start(self) -> None:
        super().start()
        if self._listener is not None:
            import psycopg

            # At each start: a copy of another trial's data has that trial's password.
            address: Any = self.address
            with psycopg.connect(**address, autocommit=True) as connection:
                connection.execute(f"ALTER ROLE {USER} PASSWORD '{self._listener.password}'".encode())

    def prepare(self) -> None:
        if not self.data.exists():
            self._initialize()
        if self._listener is not None:
            write_certificate(self._listener, self.user)
            kind = "hostssl"
            if self._listener.certificate is None:
                kind = "host"
            rules = f"local all all trust\n{kind} all all all scram-sha-256\n"
            (self.data / "pg_hba.conf").write_text(rules)
        # Remove the files of a killed server. One still says that the server is ready. The other names a process that
        # is a zombie until its parent waits for it.
        for name in ("postmaster.pid", f".s.PGSQL.{self._port}.lock"):
            (self.data / name).unlink(missing_ok=True)

    def _initialize(self) -> None:
        """Creates the data directory."""
        # With `trust`, every user who may enter the directory may connect: the server's user and root.
        self._run("initdb", ["-A", "trust", "-U", USER, "--no-locale", "-E", "UTF8", "--no-sync"])

    def _run(self, name: str, words: Sequence[str]) -> None:
        """Runs another of PostgreSQL's programs on the data directory."""
        if self._path:
            path = program_option.sibling(self._path, name)
        else:
            path = program(name, places=places())
        if path is None:
            raise Refused(f"{name} not found")
        command = [path, "-D", str(self.data), *words]
        process = subprocess.run(command, cwd=self.home, capture_output=True, text=True, **as_user(self.user))
        if process.returncode != 0:
            lines = (process.stderr or process.stdout).strip().splitlines()
            raise Unavailable(f"{name} failed: {lines[-1] if lines else 'it said nothing'}")

    def _answers(self) -> bool:
        # The last line of the file is the server's state. pg_isready would take 20 ms.
        try:
            return (self.data / "postmaster.pid").read_text().splitlines()[7].strip() in READY
        except (OSError, IndexError):
            return False

    def close(self) -> None:
        # SIGQUIT shuts the server down immediately, without a checkpoint.
        self.stop(signal.SIGQUIT)


class Standby(PostgreSQL):
    """A standby of `primary`, which must run when the standby is first started."""

    def __init__(
        self, home: Path, settings: Mapping[str, str], clients: int, path: str, primary: PostgreSQL, name: str
    ) -> None:
        super().__init__(home, settings, clients, path)
        self._primary, self._name = primary, name

    def _initialize(self) -> None:
        # The replication slot makes the primary keep its log for a standby that is away.
        source = f"host={self._primary.data} port={PORT} user={USER} application_name={self._name}"
        words = ["-d", source, "-R", "-C", "-S", self._name, "-X", "stream", "-c", "fast", "--no-sync"]
        self._run("pg_basebackup", words)


class Replicated(Cluster[PostgreSQL]):
    """A primary and its standbys. `acknowledged` is a key of COMMITS; a commit waits for any one of the standbys."""

    def __init__(
        self, home: Path, settings: Mapping[str, str], clients: int, path: str, standbys: int, acknowledged: str
    ) -> None:
        names = [f"standby_{number + 1}" for number in range(standbys)]
        commit = COMMITS[acknowledged]
        of_primary = {}
        if commit is not None:
            settings = {**settings, "synchronous_commit": commit}
            of_primary = {"synchronous_standby_names": f"ANY 1 ({', '.join(names)})"}
        primary = PostgreSQL(home / "primary", {**settings, **of_primary}, clients, path)
        each = [Standby(home / name, settings, clients, path, primary, name) for name in names]
        super().__init__([primary, *each])
        self.address, self.data = primary.address, primary.data
        self.copies, self.survives = 1 + standbys, commit is not None
        if commit is not None and standbys == 1:
            self.halts = "with its only standby gone, a commit waits for it for ever: say replicas=2"
