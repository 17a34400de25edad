"""InfluxDB 1.x by its own client: samples go in as lines of its protocol over HTTP, and come back as CSV. A server of
Dyno's own, or a user's by its address.

A variable is a tag, and value, status and severity are fields. InfluxData, InfluxDB 1.6 documentation, "Line
protocol", "Querying data using the HTTP API" and "Frequently asked questions" (duplicate points).
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import Any

from dyno.contracts.engine import EngineSpec, Maintenance, PortSpec, Server
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting, choice
from dyno.engines.influxdb.server import KIND, OURS, InfluxDB, missing
from dyno.host import filesystem
from dyno.host.installation import version
from dyno.servers import loopback, namespace, program_option, set_option, user_server
from dyno.servers.user_server import URL, UserServer
from dyno.suites.series import samples
from dyno.suites.series.port import Buckets, SampleBatch, Samples

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # Each write is in its log, which is flushed (fsync) before it is acknowledged. Nothing switches that off: with a
    # delay several writes wait for one flush. It is no tier `power`: the files that name its series are not flushed,
    # and with one of them lost it does not start. See docs/crash.md.
    Tier.PROCESS: {"data.wal-fsync-delay": "0s"},
}
PORT = 8_086
FORBIDDEN = 403
MEASUREMENT = "samples"
FIELDS = "val, stat, sevr"
OF_ONE = ("time", "val", "stat", "sevr")
CHUNK = 20_000
"""Points of an answer that come at once, where all are asked for. Its default is 10,000."""
PATIENCE_SECONDS = 120.0
CSV = {"Accept": "application/csv"}
SECTIONS = {"config-httpd": "http", "config-cqs": "continuous_queries"}
"""Sections of the configuration file by their names in the diagnostics. Other names differ by the prefix alone."""
INDEXES = {"inmem": '"inmem"', "tsi1": '"tsi1"'}


def serve(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
    if options[URL]:
        return UserServer(str(options[URL]))
    settings = {name: f'"{value}"' for name, value in TIERS[tier].items()}
    settings["data.index-version"] = INDEXES[str(options["index"])]
    return InfluxDB(home, {**settings, **set_option.given(options)}, program_option.given(options))


def _address(server: Any) -> loopback.Address:
    return server.address if server.own else loopback.of_url(server.url, PORT)


def _connect(server: Any, **how: Any) -> Any:
    """Its client, which has been answered. Raises Refused."""
    from influxdb import InfluxDBClient
    from influxdb.exceptions import InfluxDBClientError, InfluxDBServerError
    from requests import RequestException

    at = _address(server)
    secure = {"ssl": at.secure, "verify_ssl": at.secure}
    found = InfluxDBClient(
        at.host, at.port, at.user, at.password, **secure, retries=1, session=loopback.session(at), **how
    )
    try:
        found.get_list_database()
    except (RequestException, InfluxDBClientError, InfluxDBServerError) as error:
        found.close()
        raise user_server.unreachable(server, error) from None
    return found


class Influx:
    """One database on the server."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value], server: Any) -> None:
        self.server, self._options = server, options
        self.database = namespace.of(home)
        self._client = _connect(server)
        try:
            if not server.own:
                for name in namespace.abandoned([each["name"] for each in self._client.get_list_database()]):
                    self._client.drop_database(name)
            # Does nothing where it is there.
            self._client.create_database(self.database)
        except BaseException:
            self.close()
            raise

    def connect(self) -> Any:
        return _connect(self.server, database=self.database)

    def close(self) -> None:
        self._client.close()

    def version(self) -> str:
        return f"InfluxDB {self._client.ping().removeprefix('v')} (influxdb {version('influxdb')})"

    def settings(self) -> Mapping[str, Value | None]:
        """Settings as Dyno wrote them to the configuration file, without host and port. Those that a row of the run
        sets are read back if the server reports them: it reports only some."""
        every = self.server.settings if self.server.own else {}
        kept = {name: value.strip('"') for name, value in every.items() if not name.endswith(("dir", "-address"))}
        names = set_option.to_read(self._options)
        effective = self._diagnostics() if names else {}
        kept |= {name: effective[name] for name in names if name in effective}
        return {**kept, **user_server.transport(self.server, _address(self.server).secure, "loopback")}

    def _diagnostics(self) -> dict[str, str]:
        """Returns the settings that the server reports, by their names in the configuration file."""
        # The client can't decode this answer in its usual format, MessagePack.
        asked = {"params": {"q": "SHOW DIAGNOSTICS"}, "headers": {"Accept": "application/json"}}
        (result,) = self._client.request("query", **asked).json()["results"]
        return {
            f"{SECTIONS.get(series['name'], series['name'].removeprefix('config-'))}.{name}": (
                str(value).lower() if isinstance(value, bool) else str(value)
            )
            for series in result["series"]
            for name, value in zip(series["columns"], series["values"][0], strict=True)
        }

    def upkeep(self) -> None:
        """Waits until what is in its log is in its files: after some minutes without a write it is."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.server.own and any(map(_waiting, self._log())):
            if time.monotonic() > deadline:
                raise TimeoutError(f"its log was not written to its files in {PATIENCE_SECONDS:g} s")
            time.sleep(0.05)

    def _log(self) -> list[Path]:
        return filesystem.files(self.server.wal / self.database)

    def files(self) -> Iterable[Path]:
        """Its log is among them: what is in it is nowhere else."""
        return [*filesystem.files(self.server.data / self.database), *self._log()] if self.server.own else ()

    def caveats(self) -> Iterable[Caveat]:
        if self._options[set_option.SET]:
            yield set_option.CAVEAT
        if self.server.own:
            yield Caveat("log-in-size", "keeps what came in last in its log, uncompressed, which is in its size")
        else:
            yield from user_server.caveats(_address(self.server).secure)


class Series:
    """See `dyno.suites.series.port.Series`."""

    def __init__(self, engine: Influx, names: Sequence[str]) -> None:
        self._client = engine.connect()
        self._names = names
        # As it is told where an answer has several.
        self._numbers = {f"pv={_tag(name)}": number for number, name in enumerate(names)}
        self._heads = [f"{MEASUREMENT},pv={_tag(name)} val=" for name in names]
        self._writing = {"db": engine.database, "precision": "ns"}
        self._reading = {"db": engine.database, "epoch": "ns"}

    def insert(self, batch: SampleBatch) -> None:
        heads = self._heads
        lines = [
            f"{heads[pv]}{val!r},stat={stat}i,sevr={sevr}i {ts}" for pv, ts, val, stat, sevr in samples.rows_of(batch)
        ]
        self._client.write(lines, self._writing, protocol="line")

    def settle(self) -> None:
        """What is acknowledged can be read."""

    def _asked(self, query: str, stream: bool = False, **how: str) -> Any:
        return self._client.request(
            "query", params={**self._reading, "q": query, **how}, headers=CSV.copy(), stream=stream
        )

    def _table(self, query: str) -> Any:
        """An answer as a table; None where there is nothing in it."""
        from pyarrow import csv

        content = self._asked(query).content
        return csv.read_csv(BytesIO(content), convert_options=_types()) if content else None

    def _where(self, pv: int, rest: str = "") -> str:
        name = self._names[pv].replace("\\", "\\\\").replace("'", "\\'")
        return f"FROM {MEASUREMENT} WHERE pv = '{name}'{rest}"

    def seen(self, pv: int, ts: int) -> bool:
        return bool(self._asked(f"SELECT val {self._where(pv, f' AND time = {ts}')}").content)

    def one(self, pv: int) -> Samples:
        return _samples(self._table(f"SELECT {FIELDS} {self._where(pv)}"))

    def window(self, pv: int, start: int, end: int) -> Samples:
        within = f" AND time >= {start} AND time < {end}"
        return _samples(self._table(f"SELECT {FIELDS} {self._where(pv, within)}"))

    def all(self) -> Iterator[SampleBatch]:
        """By one query, whose answer is read as it comes."""
        from pyarrow import ArrowInvalid, PythonFile, csv

        asked = f"SELECT {FIELDS} FROM {MEASUREMENT} GROUP BY pv"
        with closing(self._asked(asked, True, chunked="true", chunk_size=str(CHUNK))) as answer:
            answer.raw.decode_content = True
            try:
                reader = csv.open_csv(PythonFile(answer.raw, "r"), convert_options=_types())
            except ArrowInvalid:
                # An empty answer.
                return
            yield from map(self._batch, reader)

    def _batch(self, found: Any) -> SampleBatch:
        return samples.batch_of_table(found, "tags", OF_ONE, self._numbers)

    def latest(self) -> SampleBatch:
        found = self._table(f"SELECT {FIELDS} FROM {MEASUREMENT} GROUP BY pv ORDER BY time DESC LIMIT 1")
        return samples.batch([()] * 5) if found is None else self._batch(found.unify_dictionaries())

    def downsample(self, pv: int, start: int, end: int, bucket: int) -> Buckets:
        within = f" AND time >= {start} AND time < {end} GROUP BY time({bucket}ns) fill(none)"
        found = self._table(f"SELECT mean(val), min(val), max(val) {self._where(pv, within)}")
        return samples.buckets([()] * 4 if found is None else _columns(found, "time", "mean", "min", "max"))

    def close(self) -> None:
        self._client.close()


def _waiting(log: Path) -> bool:
    """Whether there is something in it."""
    try:
        return log.stat().st_size > 0
    except FileNotFoundError:
        return False


def _tag(value: str) -> str:
    """As it is written in a line."""
    for special in (",", "=", " "):
        value = value.replace(special, f"\\{special}")
    return value


def _types() -> Any:
    return samples.csv_types("tags", ("time", "stat", "sevr"), ("val", "mean", "min", "max"))


def _columns(found: Any, *names: str) -> list[Any]:
    return [found.column(name).to_numpy() for name in names]


def _samples(found: Any) -> Samples:
    return samples.samples([()] * 4 if found is None else _columns(found, *OF_ONE))


def missing_right(error: Exception) -> str | None:
    """See `dyno.contracts.engine.EngineSpec.missing_right`."""
    return str(error) if getattr(error, "code", None) == FORBIDDEN else None


def removal(name: str, options: Mapping[str, Value]) -> str:
    at = loopback.of_url(str(options[URL]), PORT)
    words = ["-host", at.host, "-port", str(at.port), *(["-ssl"] if at.secure else []), "-username", at.user]
    return shlex.join(["influx", *words, "-password", "", "-execute", f"DROP DATABASE {name}"])


def remove(home: Path, options: Mapping[str, Value], server: Any) -> None:
    with closing(_connect(server)) as client:
        client.drop_database(namespace.of(home))


ENGINE = EngineSpec(
    name="influxdb",
    title="InfluxDB 1, a time-series server (influxdb)",
    opener=Influx,
    ports={"series": PortSpec(Series)},
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    modules=("influxdb", "requests", "pyarrow"),
    requires=("influxdb>=5.3", "requests>=2.28", "pyarrow>=15"),
    packages=("influxdb",),
    options=(
        user_server.setting("http", "https"),
        Setting(
            "index", choice(*INDEXES), "inmem", "the index of series of a server of Dyno's own: tsi1 is in files"
        ),
        set_option.setting("settings", (*OURS, "data.index-version")),
        KIND.setting,
    ),
    refuse=set_option.refused,
    server=serve,
    remove=remove,
    removal=removal,
    missing_right=missing_right,
    upkeep=Influx.upkeep,
    # Some seconds each.
    seldom=Maintenance("its log written to its files", Influx.upkeep, every=30),
    needs=lambda options: None if options[URL] else missing(program_option.given(options)),
    clients="one",
    by_default=False,
)
