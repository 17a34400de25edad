"""QuestDB: a server that Dyno starts, or the user's own. Samples are written through QuestDB's own client, in
InfluxDB's line protocol over HTTP. Queries go through psycopg, and all samples are read as CSV.

Settings that this module doesn't set have their defaults. Source: QuestDB, QuestDB documentation, "Python client",
"Deduplication", "Durability and commit modes", "Configuration" and "REST API".
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from dyno.contracts.engine import CrashSpec, Maintenance, PortSpec, Server
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.programs import Jars, Program
from dyno.contracts.safe_read import toml
from dyno.contracts.versions import Built, Versions
from dyno.engines.questdb.counters import COUNTERS
from dyno.host import filesystem
from dyno.host.installation import version
from dyno.servers import loopback, program_option, set_option, user_server
from dyno.servers.loopback import Address
from dyno.servers.process import Process
from dyno.servers.program_option import JavaProgram
from dyno.servers.server_engine import ServerStore, server_engine
from dyno.suites.series import samples
from dyno.suites.series.port import Buckets, SampleBatch, Samples

if TYPE_CHECKING:
    import psycopg

    from dyno.servers.listen import StoreServer

PROGRAM = JavaProgram(
    "QuestDB",
    Program(
        "questdb",
        "9.3.4",
        # The archive includes its dependencies.
        Jars(
            ("-org.questdb:questdb:9.3.4",), sha256="70da4a6be76d63bfb71ab15d1f9426a9e92e576076775ecb5f2f3c8395cba4a7"
        ),
    ),
    "Java 17 or later",
)
MODULE = "io.questdb/io.questdb.ServerMain"
# The flags of QuestDB's own start script, except the log of garbage collections.
JAVA = ("-XX:+UseParallelGC", "-Dnoebug", "-ea")
SETTINGS = Path(__file__).with_name("settings.toml")
OURS = (
    *("http.bind.to", "http.net.bind.to", "http.user", "http.password", "http.enabled"),
    *("pg.net.bind.to", "pg.user", "pg.password", "pg.enabled", "cairo.root", "cairo.commit.mode"),
)
"""Settings that users may not change."""


class QuestDB(Process):
    """A server in Java with two ports: HTTP, and PostgreSQL's protocol. `settings` go into server.conf. `archives`:
    those of another version."""

    def __init__(self, home: Path, settings: Mapping[str, str], archives: str = "") -> None:
        jars, java = PROGRAM.paths(archives)
        self.root = home / "questdb"
        self.data = self.root / "db"
        self.address = loopback.allocate_address(home)
        self.postgresql = replace(loopback.allocate_address(home), password=self.address.password)
        """The address of PostgreSQL's protocol."""
        http, pg = self.address, self.postgresql
        self.settings = {
            **toml(SETTINGS),
            **settings,
            "http.bind.to": f"{http.host}:{http.port}",
            "http.user": http.user,
            "http.password": http.password,
            "pg.net.bind.to": f"{pg.host}:{pg.port}",
            "pg.user": pg.user,
            "pg.password": pg.password,
        }
        # QuestDB unpacks native libraries into the temporary directory. It would leave them in /tmp.
        words = [*JAVA, f"-Djava.io.tmpdir={home.absolute() / 'tmp'}", "-p", str(jars), "-m", MODULE]
        super().__init__([java, *words, "-d", self.root.name], home, lambda: loopback.says(self.address, "/ping"))

    def prepare(self) -> None:
        # Remove libraries that a killed server unpacked.
        shutil.rmtree(self.home / "tmp", ignore_errors=True)
        for part in ("tmp", f"{self.root.name}/conf"):
            (self.home / part).mkdir(parents=True, exist_ok=True)
        lines = [f"{name}={value}\n" for name, value in self.settings.items()]
        (self.root / "conf" / "server.conf").write_text("".join(lines))


MODE = "cairo.commit.mode"
TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # Rows are stored into mapped files, so the kernel has them if the process dies. With `sync`, the table's log is
    # flushed before a batch is acknowledged. That is not tier `power`: if a page of the table's symbols is torn, the
    # log can't be merged into the table any more. See docs/reference/crash-findings.md.
    Tier.PROCESS: {MODE: "nosync"},
}
PG_PORT = 8_812
USER, PASSWORD = "admin", "quest"
"""Default user and password of PostgreSQL's protocol."""
LONGEST_BATCH = 1 << 32
"""Maximum number of bytes of a batch in the line protocol. The client's default is 100 MiB."""
FIELDS = "val, stat, sevr"


def start(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
    return QuestDB(home, set_option.combine_settings(TIERS[tier], options), program_option.get_path(options))


def _postgresql(server: Any) -> Address:
    """Returns the address of PostgreSQL's protocol. It has the same host, and the port that the URL names by ?pg=."""
    if server.own:
        return server.postgresql  # type: ignore[no-any-return]
    at: Address = server.address
    port = int(parse_qs(urlsplit(server.url).query).get("pg", [str(PG_PORT)])[0])
    return replace(at, port=port, user=at.user or USER, password=at.password or PASSWORD)


class Quest(ServerStore):
    """A store in one table on the server."""

    shown = (MODE, "shared.worker.count", "cairo.writer.data.append.page.size", "cairo.wal.purge.interval")
    own_caveats = (
        Caveat("ahead", "has files that are longer than what is in them, until it is stopped, in its size"),
    )

    @classmethod
    def open_client(cls, server: StoreServer[Address], options: Mapping[str, Value]) -> psycopg.Connection:
        import psycopg

        at = _postgresql(server)
        # By default, libpq accepts any certificate, and connects without TLS if the server has none.
        verified = {"sslmode": "verify-full", "sslrootcert": os.environ.get("PGSSLROOTCERT", "system")}
        tls: Mapping[str, Any] = verified if at.secure else {}
        try:
            return psycopg.connect(
                host=at.host, port=at.port, user=at.user, password=at.password, dbname="qdb", autocommit=True, **tls
            )
        except psycopg.OperationalError as error:
            raise user_server.unreachable_error(server, error) from None

    @classmethod
    def stores(cls, client: psycopg.Connection) -> Iterable[str]:
        return [name for (name,) in client.execute("SELECT table_name FROM tables()").fetchall()]

    @classmethod
    def drop(cls, client: psycopg.Connection, name: str) -> None:
        client.execute(f"DROP TABLE IF EXISTS {name}")

    @classmethod
    def remove(cls, home: Path, options: Mapping[str, Value], server: StoreServer[Address]) -> None:
        super().remove(home, options, server)
        if not server.own:
            # Remove the table twice: rows that a killed client has sent may still arrive and create it again.
            sleep(0.5)
            super().remove(home, options, server)

    def squash(self) -> None:
        """Joins partitions that late samples split, as the server does in the background, and removes old files."""
        self.client.execute(f"ALTER TABLE {self.name} SQUASH PARTITIONS")
        self.client.execute(f"VACUUM TABLE {self.name}")

    def version(self) -> str:
        (build,) = self.client.execute("SELECT build()").fetchone()
        server = build.removeprefix("Build Information: ").split(",")[0]
        return f"{server} (questdb {version('questdb')}, psycopg {version('psycopg')})"

    def read_settings(self, names: tuple[str, ...]) -> Mapping[str, Value | None]:
        rows = self.client.execute("SELECT property_path, value FROM (SHOW PARAMETERS)").fetchall()
        values = {str(name): str(value) for name, value in rows}
        return {name: values.get(name) for name in names}

    def own_files(self) -> Iterable[Path]:
        """Returns the files of the table and its log, of which parts remain for a while after the merge."""
        return filesystem.files(*self.server.data.glob(f"{self.name}~*"))

    @staticmethod
    def missing_right(error: Exception) -> str | None:
        # QuestDB's errors have no codes of their own.
        text = " ".join(str(error).split())
        if re.search("permission denied|Access denied|read.?only", text, re.IGNORECASE):
            return text
        return None

    @classmethod
    def removal(cls, name: str, address: Address) -> str:
        return shlex.join(["curl", "-G", f"{address.url}/exec", "--data-urlencode", f"query=DROP TABLE {name}"])


class Series:
    """See `dyno.suites.series.port.Series`."""

    def __init__(self, engine: Quest, names: Sequence[str]) -> None:
        import pandas
        import questdb

        self._table, self._names = engine.name, names
        self._numbers = {name: number for number, name in enumerate(names)}
        self._kind = pandas.CategoricalDtype(list(names))
        self._http = engine.server.address
        self._session = loopback.session(self._http)
        self._connection = engine.connect()
        # Binary results save formatting and parsing.
        self._execute = self._connection.cursor(binary=True).execute
        # With deduplication, a sample replaces another sample of the same variable and time.
        self._execute(
            f"CREATE TABLE IF NOT EXISTS {self._table} (pv SYMBOL CAPACITY {max(len(names), 256)} CACHE INDEX, "
            "ts TIMESTAMP_NS, val DOUBLE, stat SHORT, sevr SHORT) "
            "TIMESTAMP(ts) PARTITION BY DAY WAL DEDUP UPSERT KEYS(ts, pv)"
        )
        at = self._http
        sender: Any = questdb.Sender.from_conf(
            f"http{'s' if at.secure else ''}::addr={at.host}:{at.port};auto_flush=off;"
            f"retry_timeout=0;max_buf_size={LONGEST_BATCH};",
            username=at.user or None,
            password=at.password if at.user else None,
        )
        sender.establish()
        self._sender = sender

    def insert(self, batch: SampleBatch) -> None:
        from pandas import Categorical, DataFrame

        rows = {
            "pv": Categorical.from_codes(batch.pv, dtype=self._kind, validate=False),
            "ts": batch.ts.view("M8[ns]"),
            **{name: getattr(batch, name) for name in ("val", "stat", "sevr")},
        }
        self._sender.dataframe(DataFrame(rows, copy=False), table_name=self._table, symbols=["pv"], at="ts")
        self._sender.flush(transactional=True)

    def settle(self) -> None:
        """Waits until the log has been merged into the table."""
        self._execute(f"SELECT wait_wal_table('{self._table}')").fetchall()

    def _name_condition(self, pv: int) -> str:
        return f"pv = '{self._names[pv].replace(chr(39), chr(39) * 2)}'"

    def _time_condition(self, start: int, end: int) -> str:
        return f"ts >= {start}::timestamp_ns AND ts < {end}::timestamp_ns"

    def seen(self, pv: int, ts: int) -> bool:
        where = f"{self._name_condition(pv)} AND ts = {ts}::timestamp_ns"
        (count,) = self._execute(f"SELECT count() FROM {self._table} WHERE {where}").fetchone()
        return bool(count)

    def one(self, pv: int) -> Samples:
        return self._samples(self._name_condition(pv))

    def window(self, pv: int, start: int, end: int) -> Samples:
        return self._samples(f"{self._name_condition(pv)} AND {self._time_condition(start, end)}")

    def _samples(self, where: str) -> Samples:
        # The server returns samples in the order of their times.
        rows = self._execute(f"SELECT ts::long, {FIELDS} FROM {self._table} WHERE {where}").fetchall()
        return samples.samples(samples.columns_of(rows, 4))

    def all(self) -> Iterator[SampleBatch]:
        """Yields the answer to one query as it arrives."""
        from pyarrow import PythonFile, csv

        query = {"query": f"SELECT pv, ts::long ts, {FIELDS} FROM {self._table}"}
        plain = {"Accept-Encoding": "identity"}
        with closing(self._session.get(f"{self._http.url}/exp", params=query, headers=plain, stream=True)) as answer:
            answer.raise_for_status()
            types = samples.csv_types("pv", ("ts", "stat", "sevr"), ("val",))
            for table in csv.open_csv(PythonFile(answer.raw, "r"), convert_options=types):
                yield samples.batch_of_table(table, "pv", ("ts", "val", "stat", "sevr"), self._numbers)

    def latest(self) -> SampleBatch:
        query = f"SELECT pv, ts::long, {FIELDS} FROM {self._table} LATEST ON ts PARTITION BY pv"
        pv, *rest = samples.columns_of(self._execute(query).fetchall())
        return samples.batch([[self._numbers[name] for name in pv], *rest])

    def downsample(self, pv: int, start: int, end: int, bucket: int) -> Buckets:
        query = (
            f"SELECT ts::long, mean, low, high FROM (SELECT ts, avg(val) mean, min(val) low, max(val) high "
            f"FROM {self._table} WHERE {self._name_condition(pv)} AND {self._time_condition(start, end)} "
            f"SAMPLE BY {bucket // 60_000_000_000}m ALIGN TO CALENDAR)"
        )
        return samples.buckets(samples.columns_of(self._execute(query).fetchall(), 4))

    def close(self) -> None:
        self._sender.close(False)
        self._session.close()
        self._connection.close()


ENGINE = server_engine(
    Quest,
    name="questdb",
    title="QuestDB, a time-series server (questdb, psycopg)",
    schemes=("http", "https"),
    # `?pg=` names the port of PostgreSQL's protocol.
    address=partial(loopback.of_url, port=9_000, known=("pg",)),
    start=start,
    program=PROGRAM,
    versions=Versions((Built(PROGRAM.pinned, earliest="9"),)),
    settings=set_option.setting("settings", OURS),
    ports={"series": PortSpec(Series)},
    tiers=TIERS,
    installation=Installation(
        modules=("questdb", "psycopg", "requests", "pandas", "pyarrow"),
        requires=("questdb>=6", "psycopg[binary]>=3.1", "requests>=2.28", "pandas>=2.0", "pyarrow>=15"),
    ),
    counters=COUNTERS,
    crashes=CrashSpec(
        Maintenance("partitions squashed, and old files removed", Quest.squash),
        # The server merges the log into the table in the background, so only the log proves the tier.
        log=("server/questdb/db/dyno_*/wal*", "server/questdb/db/dyno_*/txn_seq/*"),
    ),
)
