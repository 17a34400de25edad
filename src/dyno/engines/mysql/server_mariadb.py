"""A MariaDB or MySQL server that Dyno starts. It listens on a socket in its directory, which no other user may enter.

The two products create the data directory differently and differ in a few settings. This module sets what affects
speed; a tier or an option may change it. All other settings have the server's defaults. Sources: MariaDB plc, MariaDB
documentation, "InnoDB System Variables" and "mariadbd Options"; Oracle, MySQL 8.4 Reference Manual, "InnoDB Startup
Options and System Variables" and "Initializing the Data Directory".
"""

import shutil
import subprocess
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path

from dyno.contracts.copyable import Copyable
from dyno.contracts.model import Refused, Unavailable
from dyno.contracts.safe_read import toml
from dyno.servers import listen
from dyno.servers.known_settings import fit_settings, read_output
from dyno.servers.listen import Listener
from dyno.servers.process import Process, accepts, as_user, directory, program, unprivileged
from dyno.servers.program_option import ServerProgram
from dyno.servers.set_option import plain_name

MARIADB, MYSQL = "MariaDB", "MySQL"
# Directories of programs in distributions, and in MySQL's own archive.
PLACES = (Path("/usr/libexec"), Path("/usr/local/mysql/bin"))
CONNECTIONS = 151
"""The default of max_connections on both servers."""
SPARE_CONNECTIONS = 10
SETTINGS = Path(__file__).with_name("settings.toml")
NO_BINARY_LOG = "--skip-log-bin"
"""By default, MySQL has a binary log and writes each commit to both logs. MariaDB has none."""
USERS = ("mysql",)
OURS = ("skip-networking", "datadir", "tmpdir", "socket", "pid-file", "max-connections", "skip-log-bin", "log-bin")
"""Settings that users may not change."""
HEADING = "Value (after reading options)"
"""End of the heading of the table of variables. A line of dashes follows."""
TOLERATED = "loose_"
"""Prefix of a setting that the server may not have."""
PREFIXES = ("skip_", "disable_", "enable_", "maximum_")
"""Prefixes that the server takes before the name of any setting."""
SCRIPTS = ("system_tables.sql", "performance_tables.sql", "system_tables_data.sql")
"""Scripts that create MariaDB's system tables, except those for the help, for `sys` and for geometry."""


class SqlServer(ServerProgram):
    """A server program of one product. MySQL falls back to MariaDB's program, because Debian doesn't have MySQL's."""

    def find(self) -> str | None:
        paths = [path for name in self.names if (path := program(name, places=PLACES))]
        fallback = None
        if paths and self.title.startswith(MYSQL):
            fallback = paths[0]
        return next((path for path in paths if self.title.startswith(product_of(path))), fallback)


PROGRAMS = {
    product: SqlServer(
        f"{product} server",
        pattern,
        ("--no-defaults", "--version"),
        least=least,
        users=USERS,
        names=("mariadbd", "mysqld"),
        install=f"dyno install {product.lower()}",
        needed=f"a {product} server",
    )
    for product, pattern, least in (
        (MARIADB, r"Ver (\d+(?:\.\d+)+)-MariaDB", "10.4"),
        (MYSQL, r"Ver (\d+(?:\.\d+)+)(?![\d.]*-MariaDB).* for ", "8.0"),
    )
}


@cache
def product_of(path: str) -> str:
    # Decide by the name if possible, because starting the program takes longer than the rest of `dyno list`.
    if Path(path).resolve().name == "mariadbd":
        return MARIADB
    process = subprocess.run([path, "--no-defaults", "--version"], capture_output=True, text=True)
    if MARIADB in process.stdout:
        return MARIADB
    return MYSQL


def find_unknown_settings(path: str, settings: Mapping[str, str]) -> Collection[str]:
    """Returns the settings that the program doesn't have. It ignores unknown ones if it only prints its variables."""
    words = [f"--{name}={value}" for name, value in settings.items()]
    _, _, table = read_output([path, "--no-defaults", "--help", "--verbose", *words]).partition(HEADING)
    known = [plain_name(line.partition(" ")[0]) for line in table.partition("\n\n")[0].splitlines()[1:]]
    if not known:
        # A value is wrong. The server itself says which.
        return ()
    return [name for name in settings if not _is_known(plain_name(name), known)]


def _is_known(name: str, known: Iterable[str]) -> bool:
    if name.startswith(TOLERATED):
        return True
    stems = (name, *(name.removeprefix(prefix) for prefix in PREFIXES if name.startswith(prefix)))
    # The server completes names that aren't whole.
    return any(each.startswith(stem) for each in known for stem in stems)


class MariaDB(Process, Copyable):
    """See `dyno.contracts.engine.Server`. `settings` are system variables; `path` is the user's program;
    `environment` has variables in addition to this process's; `listener` is where it also listens for other
    machines."""

    def __init__(
        self,
        product: str,
        home: Path,
        settings: Mapping[str, str],
        clients: int,
        path: str = "",
        environment: Mapping[str, str] | None = None,
        listener: Listener | None = None,
    ) -> None:
        self._listener = listener
        self._path = PROGRAMS[product].executable(path)
        if path:
            self._product = product
        else:
            self._product = product_of(self._path)
        self.home = home
        self.data = home / "data"
        self._socket = home / "mysqld.sock"
        ours = toml(SETTINGS)
        own = {**ours["all"], **ours["created"].get(self._product, {}), **ours[self._product]}
        fitted = fit_settings(path, own, settings, find_unknown_settings)
        self.left_out = fitted.left_out
        variables = {
            **fitted.settings,
            "socket": self._socket,
            "pid-file": home / "mysqld.pid",
            "max-connections": max(CONNECTIONS, clients + SPARE_CONNECTIONS),
            **({} if listener is None else _listen_variables(listener)),
        }
        super().__init__(
            [*self._command(), NO_BINARY_LOG, *(f"--{name}={value}" for name, value in variables.items())],
            home,
            self._answers,
            # The server refuses to run as root.
            unprivileged(*USERS),
            environment=environment,
            unix=self._socket,
        )

    def _command(self) -> list[str]:
        """Returns the command line, with no settings from /etc, and temporary tables in the server's directory."""
        return [self._path, "--no-defaults", f"--datadir={self.data}", f"--tmpdir={self.home}"]

    @property
    def address(self) -> Mapping[str, str | bool]:
        """Arguments with which client libraries connect. Every user who may enter the directory may connect."""
        return {"unix_socket": str(self._socket), "user": "root", "ssl_disabled": True}

    def reached(self) -> listen.ServerAddress:
        listener = self._listener
        assert listener is not None
        encrypted = {"ssl_ca": str(listener.certificate), "ssl_verify_cert": True}
        tls = {"ssl_disabled": True} if listener.certificate is None else encrypted
        return listener.reached(user=listen.USER, password=listener.password, **tls)

    def start(self) -> None:
        super().start()
        if self._listener is not None:
            import pymysql

            # At each start: a copy of another trial's data has that trial's password.
            login = f"'{listen.USER}'@'%'"
            password = f"IDENTIFIED BY '{self._listener.password}'"
            with closing(pymysql.connect(**self.address)) as client, client.cursor() as cursor:
                cursor.execute(f"CREATE USER IF NOT EXISTS {login} {password}")
                cursor.execute(f"ALTER USER {login} {password}")
                cursor.execute(f"GRANT ALL ON *.* TO {login}")

    def prepare(self) -> None:
        if not self.data.exists():
            self._create()
        if self._listener is not None:
            listen.write_certificate(self._listener, self.user)
        # Remove the files of a killed server. MySQL assumes that the process in the lock file may still run.
        for file in self.home.glob("mysqld.*"):
            file.unlink()

    def _create(self) -> None:
        if self._product == MARIADB:
            directory(self.data, self.user)
            # Do the steps of mariadb-install-db, which needs the client's package. Nothing needs to be flushed yet.
            words = ["--bootstrap", "--log-warnings=0", "--debug-no-sync"]
            self._run([*self._command(), *words], _system_tables(Path(self._path)))
        else:
            created = toml(SETTINGS)["created"][MYSQL]
            words = ["--initialize-insecure", *(f"--{name}={value}" for name, value in created.items())]
            self._run([*self._command(), *words], b"")

    def _run(self, command: list[str], statements: bytes) -> None:
        process = subprocess.run(command, input=statements, cwd=self.home, capture_output=True, **as_user(self.user))
        if process.returncode != 0:
            # Let the next attempt start from nothing.
            shutil.rmtree(self.data, ignore_errors=True)
            lines = (process.stdout + process.stderr).decode(errors="replace").splitlines()
            errors = [line for line in lines if "ERROR" in line] or lines or ["it said nothing"]
            raise Unavailable(f"{self.program} could not make its data directory: {errors[0].strip()}")

    def _answers(self) -> bool:
        # A server that is ready greets a client. While it starts, it accepts no connection or does not greet.
        return accepts(self._socket, greeted=True)


def _listen_variables(listener: Listener) -> Mapping[str, object]:
    """Returns the system variables of a server that listens for other machines."""
    if listener.certificate is None:
        tls = {}
    else:
        tls = {"ssl-cert": listener.certificate, "ssl-key": listener.key}
    return {"skip-networking": "OFF", "bind-address": listener.host, "port": listener.port, **tls}


def _system_tables(program: Path) -> bytes:
    """Returns the statements that create MariaDB's system tables, and a user root without a password."""
    share = program.resolve().parents[1] / "share"
    for place in (share / "mariadb", share / "mysql", share):
        for prefix in ("mariadb", "mysql"):
            scripts = [place / f"{prefix}_{name}" for name in SCRIPTS]
            if all(script.exists() for script in scripts):
                # With --bootstrap, a statement ends at the end of its line.
                first = b"CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n"
                return first + b"\n".join(script.read_bytes() for script in scripts)
    raise Refused(f"the scripts that make MariaDB's system tables are not in {share}: {PROGRAMS[MARIADB].install}")
