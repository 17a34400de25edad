"""ClickHouse by clickhouse-driver: a server of Dyno's own, or a user's by its address.

ClickHouse, Inc., ClickHouse documentation, "ReplacingMergeTree" and "Bulk inserts".
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dyno.contracts.engine import EngineSpec, Maintenance, PortSpec, Server
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting, integer
from dyno.engines.clickhouse.server import KIND, PROFILE, ClickHouse, missing
from dyno.host import filesystem
from dyno.host.installation import version
from dyno.servers import loopback, namespace, program_option, set_option, user_server
from dyno.servers.user_server import URL, UserServer
from dyno.suites.series import samples, sql
from dyno.suites.series.port import Buckets, SampleBatch, Samples
from dyno.suites.series.sql import DIRECTORY, FIELDS, TABLE

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # A part is written under another name, and gets its own when it is whole. What would flush it, the setting
    # fsync_after_insert of a table, came with version 20.10.
    Tier.PROCESS: {"fsync_after_insert": "none"},
}
PORT = 9_000
DENIED = (164, 497)
"""READONLY and ACCESS_DENIED."""
SHOWN = ("max_threads", "max_block_size", "max_insert_block_size", *PROFILE)
# Of rows with one key the last that came in is left: when parts are merged, and by FINAL when they are read.
CREATE = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} (pv UInt32, ts Int64, val Float64, stat Int16, sevr Int16) "
    "ENGINE = ReplacingMergeTree() PARTITION BY toYYYYMM(toDateTime(intDiv(ts, 1000000000), 'UTC')) ORDER BY (pv, ts)"
)
CREATE_NAMES = f"CREATE TABLE IF NOT EXISTS {DIRECTORY} (id UInt32, name String) ENGINE = MergeTree() ORDER BY id"


def serve(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
    if options[URL]:
        return UserServer(str(options[URL]))
    return ClickHouse(home, set_option.given(options), int(options["cache_mib"]) << 20, program_option.given(options))


def _address(server: Any) -> loopback.Address:
    return server.address if server.own else loopback.of_url(server.url, PORT, ("clickhouses",))


def _connect(server: Any, **how: Any) -> Any:
    """A connection, as soon as it is used. Raises Refused where there is none."""
    from clickhouse_driver import Client
    from clickhouse_driver.errors import Error

    at = _address(server)
    found = Client(
        at.host, at.port, user=at.user or "default", password=at.password, secure=at.secure, tcp_keepalive=True, **how
    )
    try:
        found.execute("SELECT 1")
    except (Error, OSError, EOFError) as error:
        found.disconnect()
        raise user_server.unreachable(server, str(error).splitlines()[0]) from None
    return found


class Click:
    """One database on the server."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value], server: Any) -> None:
        self._server, self._options, self._tier = server, options, tier
        self._database = namespace.of(home)
        self._client = _connect(server)
        try:
            if not server.own:
                for name in namespace.abandoned([name for (name,) in self._client.execute("SHOW DATABASES")]):
                    self._client.execute(f"DROP DATABASE IF EXISTS {name}")
            self._client.execute(f"CREATE DATABASE IF NOT EXISTS {self._database}")
        except BaseException:
            self.close()
            raise

    def connect(self) -> Any:
        """A connection whose statements are about this store, and which takes and gives arrays."""
        return _connect(self._server, database=self._database, settings={"use_numpy": True})

    def close(self) -> None:
        self._client.disconnect()

    def merge(self) -> None:
        """All parts of each table into one, as is done in the background some time."""
        for (name,) in self._client.execute(f"SHOW TABLES FROM {self._database}"):
            self._client.execute(f"OPTIMIZE TABLE {self._database}.{name} FINAL")

    def version(self) -> str:
        ((told,),) = self._client.execute("SELECT version()")
        return f"ClickHouse {told} (clickhouse-driver {version('clickhouse-driver')})"

    def settings(self) -> Mapping[str, Value | None]:
        names = tuple(dict.fromkeys((*SHOWN, *set_option.to_read(self._options))))
        asked = "SELECT name, value FROM system.settings WHERE name IN %(names)s"
        told = dict(self._client.execute(asked, {"names": names}))
        return {
            **TIERS[self._tier],
            **{name: told.get(name) for name in names},
            "mark_cache_mib": self._options["cache_mib"] if self._server.own else None,
            **user_server.transport(self._server, _address(self._server).secure, "loopback"),
        }

    def files(self) -> Iterable[Path]:
        """Of the parts that are in use: those that were merged into others are there for some minutes more."""
        if not self._server.own:
            return ()
        asked = "SELECT path FROM system.parts WHERE active AND database = %(database)s"
        parts = self._client.execute(asked, {"database": self._database})
        return filesystem.files(*(Path(part) for (part,) in parts))

    def caveats(self) -> Iterable[Caveat]:
        if self._options[set_option.SET]:
            yield set_option.CAVEAT
        if not self._server.own:
            yield from user_server.caveats(_address(self._server).secure)


class Series:
    """See `dyno.suites.series.port.Series`."""

    def __init__(self, engine: Click, names: Sequence[str]) -> None:
        import numpy as np

        self._client = client = engine.connect()
        self._ask = client.execute
        self._ask(CREATE_NAMES)
        self._ask(CREATE)
        known = {int(number): str(name) for number, name in self._ask(sql.NAMES)}
        if new := sql.missing_names(names, known):
            columns = [np.array([number for number, _ in new], "u4"), np.array([name for _, name in new], object)]
            self._ask(f"INSERT INTO {DIRECTORY} (id, name) VALUES", columns, columnar=True)
        self._numbers = samples.VariableIds(names, [*known.items(), *new])

    def insert(self, batch: SampleBatch) -> None:
        columns = [self._numbers.to_store(batch.pv).astype("u4"), *batch[1:]]
        self._ask(f"INSERT INTO {TABLE} (pv, {FIELDS}) VALUES", columns, columnar=True)

    def settle(self) -> None:
        """What is acknowledged can be read."""

    def _found(self, statement: str, columns: int, **set_option: int) -> Sequence[Any]:
        return self._ask(statement, set_option, columnar=True) or [()] * columns

    def seen(self, pv: int, ts: int) -> bool:
        asked = f"SELECT count() FROM {TABLE} WHERE pv = %(pv)s AND ts = %(ts)s"
        ((count,),) = self._ask(asked, {"pv": self._numbers.one(pv), "ts": ts})
        return bool(count)

    def one(self, pv: int) -> Samples:
        asked = f"SELECT {FIELDS} FROM {TABLE} FINAL WHERE pv = %(pv)s ORDER BY ts"
        return samples.samples(self._found(asked, 4, pv=self._numbers.one(pv)))

    def window(self, pv: int, start: int, end: int) -> Samples:
        asked = f"SELECT {FIELDS} FROM {TABLE} FINAL WHERE pv = %(pv)s AND ts >= %(a)s AND ts < %(b)s ORDER BY ts"
        return samples.samples(self._found(asked, 4, pv=self._numbers.one(pv), a=start, b=end))

    def all(self) -> Iterator[SampleBatch]:
        """Block by block, as the server sends them: those that came since it last told how far it is."""
        found = self._client.execute_with_progress(f"SELECT pv, {FIELDS} FROM {TABLE} FINAL", columnar=True)
        whole = False
        try:
            while not whole:
                whole = next(found, None) is None
                blocks, found.data = found.data, []
                yield from map(self._batch, blocks)
        finally:
            if not whole:
                # The rest is still coming.
                self._client.disconnect()

    def _batch(self, columns: Sequence[Any]) -> SampleBatch:
        pv, *rest = columns
        return samples.batch([self._numbers.from_store(pv), *rest])

    def latest(self) -> SampleBatch:
        last = ", ".join(f"argMax({name}, ts)" for name in ("val", "stat", "sevr"))
        return self._batch(self._found(f"SELECT pv, max(ts), {last} FROM {TABLE} FINAL GROUP BY pv", 5))

    def downsample(self, pv: int, start: int, end: int, bucket: int) -> Buckets:
        asked = (
            f"SELECT intDiv(ts, {bucket}) * {bucket} AS begins, avg(val), min(val), max(val) FROM {TABLE} FINAL "
            "WHERE pv = %(pv)s AND ts >= %(a)s AND ts < %(b)s GROUP BY begins ORDER BY begins"
        )
        return samples.buckets(self._found(asked, 4, pv=self._numbers.one(pv), a=start, b=end))

    def close(self) -> None:
        self._client.disconnect()


def missing_right(error: Exception) -> str | None:
    """See `dyno.contracts.engine.EngineSpec.missing_right`. The second line of an error is the server's stack."""
    return str(error).partition("Stack trace")[0].strip() if getattr(error, "code", None) in DENIED else None


def removal(name: str, options: Mapping[str, Value]) -> str:
    at = loopback.of_url(str(options[URL]), PORT, ("clickhouses",))
    words = [f"--host={at.host}", f"--port={at.port}", f"--user={at.user or 'default'}", "--password"]
    return shlex.join(
        ["clickhouse-client", *words, *(["--secure"] if at.secure else []), "-q", f"DROP DATABASE {name}"]
    )


def remove(home: Path, options: Mapping[str, Value], server: Any) -> None:
    client = _connect(server)
    try:
        client.execute(f"DROP DATABASE IF EXISTS {namespace.of(home)}")
    finally:
        client.disconnect()


ENGINE = EngineSpec(
    name="clickhouse",
    title="ClickHouse, a server of columns (clickhouse-driver)",
    opener=Click,
    ports={"series": PortSpec(Series)},
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    modules=("clickhouse_driver", "pandas"),
    requires=("clickhouse-driver[numpy]>=0.2.9",),
    packages=("clickhouse-server",),
    options=(
        user_server.setting("clickhouse", "clickhouses"),
        Setting("cache_mib", integer(1), 256, "cache of marks of a server of Dyno's own, in MiB"),
        set_option.setting("settings", ("fsync_after_insert", "fsync_part_directory")),
        KIND.setting,
    ),
    refuse=set_option.refused,
    server=serve,
    remove=remove,
    removal=removal,
    missing_right=missing_right,
    seldom=Maintenance("merge of all parts", Click.merge),
    needs=lambda options: None if options[URL] else missing(program_option.given(options)),
    clients="one",
    by_default=False,
)
