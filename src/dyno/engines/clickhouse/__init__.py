"""ClickHouse through clickhouse-driver: a server that Dyno starts, or the user's own.

Settings that this module doesn't set have the program's defaults. Source: ClickHouse, Inc., ClickHouse documentation,
"ReplacingMergeTree", "Bulk inserts", "Server Settings" and "Users and Roles Settings".
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dyno.contracts.copyable import Copyable
from dyno.contracts.engine import CrashSpec, Gap, Maintenance, PortSpec, Server
from dyno.contracts.installation import Installation
from dyno.contracts.model import Tier, Value
from dyno.contracts.settings import Setting, integer
from dyno.engines.clickhouse.counters import COUNTERS
from dyno.host import filesystem
from dyno.host.installation import version
from dyno.servers import loopback, program_option, set_option, user_server
from dyno.servers.process import Process
from dyno.servers.program_option import ServerProgram
from dyno.servers.server_engine import ServerStore, server_engine
from dyno.suites.series import samples
from dyno.suites.series import sql as series_sql
from dyno.suites.series.port import SampleBatch
from dyno.suites.series.sql import DIRECTORY, FIELDS, TABLE
from dyno.suites.sql.port import ESCAPED

if TYPE_CHECKING:
    from clickhouse_driver import Client

    from dyno.servers.listen import StoreServer
    from dyno.servers.loopback import Address

VENDORS = "clickhouse"
"""Name of the vendor's program, which is a server if its first argument is `server`."""
# Versions before 19 don't print their version. They print this error message instead.
_VERSION = r"ClickHouse server version (\d[\d.]*\d)|Unknown option specified: version"


class ClickHouseProgram(ServerProgram):
    """Debian's program, which is only a server, or the vendor's, which combines many programs."""

    def explain_bad_program(self, path: str) -> str | None:
        of_many = self
        if Path(path).name == VENDORS:
            of_many = self._replace(arguments=("server", "--version"))
        return ServerProgram.explain_bad_program(of_many, path)


PROGRAM = ClickHouseProgram(
    "ClickHouse server", _VERSION, names=("clickhouse-server", VENDORS), install="dyno install clickhouse"
)
CONFIGURATION, USERS = "config.xml", "users.xml"
"""Names of the configuration files, which are also those of their templates for `str.format`."""
PROFILE: Mapping[str, str] = {
    # Like the profile that comes with ClickHouse. Without a profile, the program caches uncompressed blocks.
    "use_uncompressed_cache": "0",
}


class ClickHouse(Process, Copyable):
    """A server on a port of this machine, for ClickHouse's native protocol. `settings` go into the user's profile.
    `cache_bytes` is the size of the cache of marks, which tell where rows begin. `path` is the user's program."""

    def __init__(self, home: Path, settings: Mapping[str, str], cache_bytes: int, path: str = "") -> None:
        executable, home = PROGRAM.executable(path), home.absolute()
        self.data, self.address = home / "data", loopback.allocate_address(home)
        self._settings, self._cache_bytes = {**PROFILE, **settings}, cache_bytes
        words = [executable, *(["server"] if Path(executable).name == VENDORS else [])]
        # ClickHouse needs absolute paths.
        super().__init__(
            [*words, f"--config-file={home / CONFIGURATION}"], home, lambda: loopback.listens(self.address)
        )

    def prepare(self) -> None:
        from hashlib import sha256
        from html import escape

        values = {
            "home": self.home,
            "host": self.address.host,
            "port": self.address.port,
            "cache": self._cache_bytes,
            "users": USERS,
            "user": self.address.user,
            "hash": sha256(self.address.password.encode()).hexdigest(),
            "settings": "".join(f"<{n}>{escape(value, quote=False)}</{n}>" for n, value in self._settings.items()),
        }
        for name in (CONFIGURATION, USERS):
            template = Path(__file__).with_name(name).read_text(encoding="utf-8")
            (self.home / name).write_text(template.format(**values))


TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # A part is written under a temporary name and renamed when it is complete. The table setting fsync_after_insert,
    # which flushes the part, came with version 20.10.
    Tier.PROCESS: {"fsync_after_insert": "none"},
}
DENIED = (164, 497)
"""Numbers of the errors READONLY and ACCESS_DENIED."""
# If several rows have the same key, the last one counts. A merge of parts removes the others, and FINAL hides them.
CREATE = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} (pv UInt32, ts Int64, val Float64, stat Int16, sevr Int16) "
    "ENGINE = ReplacingMergeTree() PARTITION BY toYYYYMM(toDateTime(intDiv(ts, 1000000000), 'UTC')) ORDER BY (pv, ts)"
)
CREATE_NAMES = f"CREATE TABLE IF NOT EXISTS {DIRECTORY} (id UInt32, name String) ENGINE = MergeTree() ORDER BY id"


SQL_GAPS = (
    Gap("rollback", "unsupported", "ClickHouse has no transactions"),
    Gap("counts", "unsupported", "ClickHouse counts no changed rows, and the driver inserts rows only in bulk"),
    Gap("fractions", "upstream", "servers before version 20.4 have no times with fractions of a second"),
)
"""Gaps of the port `sql`."""


def start(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
    cache_bytes = int(str(options["cache_mib"])) << 20
    return ClickHouse(home, set_option.get_settings(options), cache_bytes, program_option.get_path(options))


class Click(ServerStore):
    """A store in one database on the server."""

    shown = ("max_threads", "max_block_size", "max_insert_block_size", *PROFILE)

    @classmethod
    def open_client(cls, server: StoreServer[Address], options: Mapping[str, Value], **arguments: Any) -> Client:
        from clickhouse_driver import Client
        from clickhouse_driver.errors import Error

        at = server.address
        arguments |= {"user": at.user or "default", "password": at.password, "secure": at.secure}
        client = Client(at.host, at.port, tcp_keepalive=True, **arguments)
        client.close = client.disconnect
        try:
            client.execute("SELECT 1")
        except (Error, OSError, EOFError) as error:
            client.close()
            raise user_server.unreachable_error(server, error, str(error).partition("\n")[0]) from None
        return client

    @classmethod
    def stores(cls, client: Client) -> Iterable[str]:
        return [name for (name,) in client.execute("SHOW DATABASES")]

    @classmethod
    def drop(cls, client: Client, name: str) -> None:
        client.execute(f"DROP DATABASE IF EXISTS {name}")

    def create(self) -> None:
        # On the user's own server this may need a right that is not needed for the user's own tables.
        if self.server.own:
            self.create_database()

    def create_database(self) -> None:
        self.client.execute(f"CREATE DATABASE IF NOT EXISTS {self.name}")

    def connect(self) -> Client:
        """Returns a connection to this store's database that returns columns as arrays."""
        self.create_database()
        return self.open_client(self.server, self.options, database=self.name, settings={"use_numpy": True})

    def merge(self) -> None:
        """Merges all parts of each table into one, as the server does in the background."""
        for (name,) in self.client.execute(f"SHOW TABLES FROM {self.name}"):
            self.client.execute(f"OPTIMIZE TABLE {self.name}.{name} FINAL")

    def version(self) -> str:
        ((number,),) = self.client.execute("SELECT version()")
        return f"ClickHouse {number} (clickhouse-driver {version('clickhouse-driver')})"

    def settings(self) -> Mapping[str, Value | None]:
        cache = None
        if self.server.own:
            cache = self.options["cache_mib"]
        return {**TIERS[self.tier], **super().settings(), "mark_cache_mib": cache}

    def read_settings(self, names: tuple[str, ...]) -> Mapping[str, Value | None]:
        query = "SELECT name, value FROM system.settings WHERE name IN %(names)s"
        values = dict(self.client.execute(query, {"names": names}))
        return {name: values.get(name) for name in names}

    def own_files(self) -> Iterable[Path]:
        """Returns the files of active parts. Parts that were merged into others stay on disk for some minutes."""
        query = "SELECT path FROM system.parts WHERE active AND database = %(database)s"
        return filesystem.files(*(Path(part) for (part,) in self.client.execute(query, {"database": self.name})))

    @staticmethod
    def missing_right(error: Exception) -> str | None:
        # The rest of the message is the server's stack trace.
        if getattr(error, "code", None) in DENIED:
            return str(error).partition("Stack trace")[0].strip()
        return None

    @classmethod
    def removal(cls, name: str, address: Address) -> str:
        words = [f"--host={address.host}", f"--port={address.port}", f"--user={address.user or 'default'}"]
        words.append("--password")
        if address.secure:
            words.append("--secure")
        return shlex.join(["clickhouse-client", *words, "-q", f"DROP DATABASE {name}"])


class Series(series_sql.SqlSeries):
    """The port `series`. Acknowledged samples can be read at once."""

    mark = "%s"
    begins = "intDiv(ts, {bucket}) * {bucket}"
    table = f"{TABLE} FINAL"
    last = f"SELECT pv, max(ts), argMax(val, ts), argMax(stat, ts), argMax(sevr, ts) FROM {TABLE} FINAL GROUP BY pv"

    def __init__(self, engine: Click, names: Sequence[str]) -> None:
        import numpy as np

        self._connection = client = engine.connect()
        self._execute = client.execute
        self._execute(CREATE_NAMES)
        self._execute(CREATE)
        known = {int(number): str(name) for number, name in self._execute(series_sql.NAMES)}
        if new := series_sql.missing_names(names, known):
            columns = [np.array([number for number, _ in new], "u4"), np.array([name for _, name in new], object)]
            self._execute(f"INSERT INTO {DIRECTORY} (id, name) VALUES", columns, columnar=True)
        super().__init__(samples.VariableIds(names, [*known.items(), *new]))

    def insert(self, batch: SampleBatch) -> None:
        columns = [self.numbers.to_store(batch.pv).astype("u4"), *batch[1:]]
        self._execute(f"INSERT INTO {TABLE} (pv, {FIELDS}) VALUES", columns, columnar=True)

    def columns(self, statement: str, values: Sequence[object], count: int) -> Sequence[Any]:
        # The driver, too, inserts values into the text of the statement. All values are integers.
        return self._execute(statement % tuple(values), columnar=True) or [()] * count

    def all(self) -> Iterator[SampleBatch]:
        """Yields the blocks of the answer as they arrive: after each progress report, those since the last."""
        progress = self._connection.execute_with_progress(f"SELECT pv, {FIELDS} FROM {TABLE} FINAL", columnar=True)
        complete = False
        try:
            while not complete:
                complete = next(progress, None) is None
                blocks, progress.data = progress.data, []
                yield from map(self.batch, blocks)
        finally:
            if not complete:
                # Disconnect, because the server would still send the rest.
                self._connection.disconnect()


ENGINE = server_engine(
    Click,
    name="clickhouse",
    title="ClickHouse, a server of columns (clickhouse-driver)",
    schemes=("clickhouse", "clickhouses"),
    address=partial(loopback.of_url, port=9_000, secure=("clickhouses",)),
    start=start,
    program=PROGRAM,
    settings=set_option.setting("settings", ("fsync_after_insert", "fsync_part_directory")),
    ports={
        "series": PortSpec(Series),
        "sql": PortSpec("dyno.engines.clickhouse.sql:Sql", clients="processes", gaps=SQL_GAPS, caveats=(ESCAPED,)),
    },
    tiers=TIERS,
    installation=Installation(
        modules=("clickhouse_driver", "pandas"),
        requires=("clickhouse-driver[numpy]>=0.2.9",),
        packages=("clickhouse-server",),
    ),
    options=(Setting("cache_mib", integer(1), 256, "cache of marks of a server of Dyno's own, in MiB"),),
    counters=COUNTERS,
    crashes=CrashSpec(Maintenance("merge of all parts", Click.merge)),
)
