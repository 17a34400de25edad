"""QuestDB: samples go in by its own client, as InfluxDB's lines over HTTP, and are asked for by psycopg; all of them
come out as CSV. A server of Dyno's own, or a user's by its address.

QuestDB, QuestDB documentation, "Python client", "Deduplication", "Durability and commit modes" and "REST API".
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import Any
from urllib.parse import parse_qs, urlsplit

from dyno.contracts.engine import EngineSpec, Maintenance, PortSpec, Server
from dyno.contracts.model import Caveat, Tier, Value
from dyno.engines.questdb.server import OURS, PACKAGES, PROGRAM, QuestDB, missing
from dyno.host import filesystem
from dyno.host.installation import version
from dyno.servers import loopback, namespace, set_option, user_server
from dyno.servers.loopback import Address
from dyno.servers.user_server import URL, UserServer
from dyno.suites.series import samples
from dyno.suites.series.port import Buckets, SampleBatch, Samples

MODE = "cairo.commit.mode"
TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # What is written is stored into files that are mapped: the kernel has it, whatever becomes of the process. With
    # `sync` the table's write-ahead log is flushed before a batch is acknowledged; but with a page of the table's
    # symbols torn the log is not merged into it any more, so that it is no tier `power`. See docs/crash.md.
    Tier.PROCESS: {MODE: "nosync"},
}
SHOWN = (MODE, "shared.worker.count", "cairo.writer.data.append.page.size", "cairo.wal.purge.interval")
HTTP_PORT, PG_PORT = 9_000, 8_812
USER, PASSWORD = "admin", "quest"
"""Of PostgreSQL's protocol, where a user's own server has its defaults."""
LONGEST_BATCH = 1 << 32
"""Bytes, as its client writes it. Its default is 100 MiB."""
FIELDS = "val, stat, sevr"


def serve(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
    if options[URL]:
        return UserServer(str(options[URL]))
    return QuestDB(home, {MODE: str(TIERS[tier][MODE]), **set_option.given(options)})


def _http_of_url(url: str) -> Address:
    """Address of HTTP; `?pg=` names the port of PostgreSQL's protocol."""
    return loopback.of_url(url, HTTP_PORT, known=("pg",))


def _http(server: Any) -> Address:
    address: Address = server.address if server.own else _http_of_url(server.url)
    return address


def _postgresql(server: Any) -> Address:
    """Where it speaks PostgreSQL's protocol: on the same host, at the port that the address names with ?pg=."""
    if server.own:
        return server.postgresql  # type: ignore[no-any-return]
    at = _http(server)
    port = int(parse_qs(urlsplit(server.url).query).get("pg", [str(PG_PORT)])[0])
    return replace(at, port=port, user=at.user or USER, password=at.password or PASSWORD)


def _connect(server: Any) -> Any:
    import psycopg

    at = _postgresql(server)
    # By default libpq goes on without TLS if the server has none, and believes any certificate.
    verified = {"sslmode": "verify-full", "sslrootcert": os.environ.get("PGSSLROOTCERT", "system")}
    tls: Mapping[str, Any] = verified if at.secure else {}
    try:
        return psycopg.connect(
            host=at.host, port=at.port, user=at.user, password=at.password, dbname="qdb", autocommit=True, **tls
        )
    except psycopg.OperationalError as error:
        raise user_server.unreachable(server, error) from None


class Quest:
    """One table on the server."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value], server: Any) -> None:
        self.server, self._options = server, options
        self.table = namespace.of(home)
        self._connection = _connect(server)
        try:
            if not server.own:
                for (name,) in self._connection.execute("SELECT table_name FROM tables()").fetchall():
                    if namespace.abandoned([name]):
                        self._connection.execute(f"DROP TABLE IF EXISTS {name}")
        except BaseException:
            self.close()
            raise

    def _told(self) -> dict[str, str]:
        found = self._connection.execute("SELECT property_path, value FROM (SHOW PARAMETERS)").fetchall()
        return {str(name): str(value) for name, value in found}

    def squash(self) -> None:
        """Partitions that were split by what came late are joined, and their old files removed, as is done in the
        background some time."""
        self._connection.execute(f"ALTER TABLE {self.table} SQUASH PARTITIONS")
        self._connection.execute(f"VACUUM TABLE {self.table}")

    def connect(self) -> Any:
        return _connect(self.server)

    def close(self) -> None:
        self._connection.close()

    def version(self) -> str:
        (told,) = self._connection.execute("SELECT build()").fetchone()
        server = told.removeprefix("Build Information: ").split(",")[0]
        return f"{server} (questdb {version('questdb')}, psycopg {version('psycopg')})"

    def settings(self) -> Mapping[str, Value | None]:
        told = self._told()
        names = dict.fromkeys((*SHOWN, *set_option.to_read(self._options)))
        reached = user_server.transport(self.server, _http(self.server).secure, "loopback")
        return {**{name: told.get(name) for name in names}, **reached}

    def files(self) -> Iterable[Path]:
        """Of its table, and of the log of what has not been merged into it, or was a short while ago."""
        if not self.server.own:
            return ()
        return filesystem.files(*self.server.data.glob(f"{self.table}~*"))

    def caveats(self) -> Iterable[Caveat]:
        if self._options[set_option.SET]:
            yield set_option.CAVEAT
        if self.server.own:
            yield Caveat("ahead", "has files that are longer than what is in them, until it is stopped, in its size")
        else:
            yield from user_server.caveats(_http(self.server).secure)


class Series:
    """See `dyno.suites.series.port.Series`."""

    def __init__(self, engine: Quest, names: Sequence[str]) -> None:
        import pandas

        self._table, self._names = engine.table, names
        self._numbers = {name: number for number, name in enumerate(names)}
        self._kind = pandas.CategoricalDtype(list(names))
        self._http = _http(engine.server)
        self._session = loopback.session(self._http)
        self._connection = engine.connect()
        # What comes in binary need not be printed and read.
        self._ask = self._connection.cursor(binary=True).execute
        # A sample that has variable and time of one that is there takes its place.
        self._ask(
            f"CREATE TABLE IF NOT EXISTS {self._table} (pv SYMBOL CAPACITY {max(len(names), 256)} CACHE INDEX, "
            "ts TIMESTAMP_NS, val DOUBLE, stat SHORT, sevr SHORT) "
            "TIMESTAMP(ts) PARTITION BY DAY WAL DEDUP UPSERT KEYS(ts, pv)"
        )
        self._sender = self._connected()

    def _connected(self) -> Any:
        import questdb

        at, sender = self._http, questdb.Sender
        made: Any = sender.from_conf(
            f"http{'s' if at.secure else ''}::addr={at.host}:{at.port};auto_flush=off;"
            f"retry_timeout=0;max_buf_size={LONGEST_BATCH};",
            username=at.user or None,
            password=at.password if at.user else None,
        )
        made.establish()
        return made

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
        """Until the log has been merged into the table."""
        self._ask(f"SELECT wait_wal_table('{self._table}')").fetchall()

    def _of(self, pv: int) -> str:
        return f"pv = '{self._names[pv].replace(chr(39), chr(39) * 2)}'"

    def _within(self, start: int, end: int) -> str:
        return f"ts >= {start}::timestamp_ns AND ts < {end}::timestamp_ns"

    def seen(self, pv: int, ts: int) -> bool:
        where = f"{self._of(pv)} AND ts = {ts}::timestamp_ns"
        (count,) = self._ask(f"SELECT count() FROM {self._table} WHERE {where}").fetchone()
        return bool(count)

    def one(self, pv: int) -> Samples:
        return self._samples(self._of(pv))

    def window(self, pv: int, start: int, end: int) -> Samples:
        return self._samples(f"{self._of(pv)} AND {self._within(start, end)}")

    def _samples(self, where: str) -> Samples:
        # Which come in the order of their times.
        rows = self._ask(f"SELECT ts::long, {FIELDS} FROM {self._table} WHERE {where}").fetchall()
        return samples.samples(samples.columns_of(rows, 4))

    def all(self) -> Iterator[SampleBatch]:
        """By one query, whose answer is read as it comes."""
        from pyarrow import PythonFile, csv

        asked = {"query": f"SELECT pv, ts::long ts, {FIELDS} FROM {self._table}"}
        plain = {"Accept-Encoding": "identity"}
        with closing(self._session.get(f"{self._http.url}/exp", params=asked, headers=plain, stream=True)) as answer:
            answer.raise_for_status()
            types = samples.csv_types("pv", ("ts", "stat", "sevr"), ("val",))
            yield from map(self._batch, csv.open_csv(PythonFile(answer.raw, "r"), convert_options=types))

    def _batch(self, found: Any) -> SampleBatch:
        return samples.batch_of_table(found, "pv", ("ts", "val", "stat", "sevr"), self._numbers)

    def latest(self) -> SampleBatch:
        asked = f"SELECT pv, ts::long, {FIELDS} FROM {self._table} LATEST ON ts PARTITION BY pv"
        pv, *rest = samples.columns_of(self._ask(asked).fetchall())
        return samples.batch([[self._numbers[name] for name in pv], *rest])

    def downsample(self, pv: int, start: int, end: int, bucket: int) -> Buckets:
        asked = (
            f"SELECT ts::long, mean, low, high FROM (SELECT ts, avg(val) mean, min(val) low, max(val) high "
            f"FROM {self._table} WHERE {self._of(pv)} AND {self._within(start, end)} "
            f"SAMPLE BY {bucket // 60_000_000_000}m ALIGN TO CALENDAR)"
        )
        return samples.buckets(samples.columns_of(self._ask(asked).fetchall(), 4))

    def close(self) -> None:
        self._sender.close(False)
        self._session.close()
        self._connection.close()


def missing_right(error: Exception) -> str | None:
    """See `dyno.contracts.engine.EngineSpec.missing_right`. Its errors have no code of their own."""
    said = " ".join(str(error).split())
    return said if re.search("permission denied|Access denied|read.?only", said, re.IGNORECASE) else None


def removal(name: str, options: Mapping[str, Value]) -> str:
    at = _http_of_url(str(options[URL]))
    return shlex.join(["curl", "-G", f"{at.url}/exec", "--data-urlencode", f"query=DROP TABLE {name}"])


def remove(home: Path, options: Mapping[str, Value], server: Any) -> None:
    with closing(_connect(server)) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {namespace.of(home)}")
        if not server.own:
            # Rows that a killed client had sent may still arrive, and create the table again.
            sleep(0.5)
            connection.execute(f"DROP TABLE IF EXISTS {namespace.of(home)}")


ENGINE = EngineSpec(
    name="questdb",
    title="QuestDB, a time-series server (questdb, psycopg)",
    opener=Quest,
    ports={"series": PortSpec(Series)},
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    modules=("questdb", "psycopg", "requests", "pandas", "pyarrow"),
    requires=("questdb>=6", "psycopg[binary]>=3.1", "requests>=2.28", "pandas>=2.0", "pyarrow>=15"),
    programs=(PROGRAM,),
    packages=PACKAGES,
    options=(
        user_server.setting("http", "https"),
        set_option.setting("settings", OURS),
    ),
    refuse=set_option.refused,
    server=serve,
    remove=remove,
    removal=removal,
    missing_right=missing_right,
    seldom=Maintenance("partitions squashed, and old files removed", Quest.squash),
    # Meanwhile what was in the log before is merged into the table, whose files are written and flushed, too.
    log=("server/questdb/db/dyno_*/wal*", "server/questdb/db/dyno_*/txn_seq/*"),
    needs=lambda options: None if options[URL] else missing(),
    clients="one",
    by_default=False,
)
