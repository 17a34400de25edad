"""InfluxDB 1.x through its own client, on a server that Dyno starts or the user's own. Samples are written in the
line protocol over HTTP and read as CSV.

A variable is a tag; value, status and severity are fields. Source: InfluxData, InfluxDB 1.6 documentation, "Line
protocol", "Querying data using the HTTP API", "Frequently asked questions" (duplicate points), "Configuration
settings" and "Authentication and authorization". Settings that this module doesn't set have their defaults.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from dyno.contracts.cleanup import undo_on_error
from dyno.contracts.engine import CrashSpec, Maintenance, PortSpec, Server
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Tier, Unavailable, Value
from dyno.contracts.safe_read import toml
from dyno.contracts.settings import Setting, choice
from dyno.engines.influxdb.counters import COUNTERS
from dyno.host import filesystem
from dyno.host.installation import version
from dyno.servers import loopback, program_option, set_option, user_server
from dyno.servers.process import Process
from dyno.servers.server_engine import ServerStore, server_engine
from dyno.suites.series import port, samples
from dyno.suites.series.port import Buckets, SampleBatch, Samples

if TYPE_CHECKING:
    import pyarrow
    from influxdb import InfluxDBClient
    from pyarrow import csv

    from dyno.servers.listen import StoreServer
    from dyno.servers.loopback import Address

CONFIGURATION, READY = "influxdb.conf", "/ping"
SETTINGS = Path(__file__).with_name("settings.toml")
PROGRAM = program_option.ServerProgram(
    "InfluxDB server",
    r"InfluxDB v?(\d[\d.]*)",
    ("version",),
    least="1",
    below="2",
    names=("influxd",),
    install="dyno install influxdb",
)
OURS = (
    *("bind-address", "meta.dir", "data.dir", "data.wal-dir", "data.wal-fsync-delay"),
    *("http.bind-address", "http.enabled", "http.auth-enabled", "http.https-enabled"),
)
"""Settings that users may not change."""


class InfluxDB(Process):
    """See `dyno.contracts.engine.Server`. `settings` go into influxdb.conf: names are 'section.name', values are
    TOML. `path` is the user's program."""

    def __init__(self, home: Path, settings: Mapping[str, str], path: str = "") -> None:
        self.data, self.wal = home / "data", home / "wal"
        self.address = loopback.allocate_address(home)
        listen = f'"{self.address.host}:{self.address.port}"'
        self.settings = {**toml(SETTINGS), **settings, "http.bind-address": listen}
        words = [PROGRAM.executable(path), "run", "-config", CONFIGURATION]
        super().__init__(words, home, lambda: loopback.says(self.address, READY))

    def prepare(self) -> None:
        # Settings without a section are the first.
        sections: dict[str, str] = {"": ""}
        for name, value in sorted(self.settings.items()):
            section, _, key = name.rpartition(".")
            sections[section] = sections.get(section, f"[{section}]\n") + f"{key} = {value}\n"
        (self.home / CONFIGURATION).write_text("".join(sections.values()))

    def start(self) -> None:
        new = not (self.home / CONFIGURATION).exists()
        super().start()
        if new:
            with undo_on_error(self.kill):
                self._create_user()

    def _create_user(self) -> None:
        """Creates the only user. Until then, the server refuses all other requests."""
        from http.client import HTTPConnection

        query = f"CREATE USER {self.address.user} WITH PASSWORD '{self.address.password}' WITH ALL PRIVILEGES"
        with closing(HTTPConnection(self.address.host, self.address.port, timeout=60)) as client:
            client.request("POST", f"/query?{urlencode({'q': query})}")
            response = client.getresponse()
            text = response.read().decode(errors="replace")
        if response.status != 200 or "error" in text:
            raise Unavailable(f"influxd made no user: {text.strip()}")


TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # Each write is in the log, which is flushed (fsync) before the write is acknowledged. No setting prevents that:
    # with a delay, several writes wait for one flush. The tier is not `power`, because the files that name the series
    # are not flushed. If one of them is lost, the server does not start. See docs/reference/crash-findings.md.
    Tier.PROCESS: {"data.wal-fsync-delay": "0s"},
}
FORBIDDEN = 403
MEASUREMENT = "samples"
FIELDS = "val, stat, sevr"
OF_ONE = ("time", "val", "stat", "sevr")
CHUNK = 20_000
"""Points in one piece of the answer when all samples are read. The default is 10,000."""
TIMEOUT_SECONDS = 120.0
CSV = {"Accept": "application/csv"}
SECTIONS = {"config-httpd": "http", "config-cqs": "continuous_queries"}
"""Sections of the configuration file, by their names in the diagnostics. All other names differ only by a prefix."""


def start(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
    settings = {name: f'"{value}"' for name, value in TIERS[tier].items()}
    index = options["index"]
    settings["data.index-version"] = f'"{index}"'
    return InfluxDB(home, {**settings, **set_option.get_settings(options)}, program_option.get_path(options))


class Influx(ServerStore):
    """A store in one database on the server."""

    own_caveats = (Caveat("log-in-size", "keeps what came in last in its log, uncompressed, which is in its size"),)

    @classmethod
    def open_client(
        cls, server: StoreServer[Address], options: Mapping[str, Value], **arguments: Any
    ) -> InfluxDBClient:
        from influxdb import InfluxDBClient
        from influxdb.exceptions import InfluxDBClientError, InfluxDBServerError
        from requests import RequestException

        at = server.address
        arguments |= {"ssl": at.secure, "verify_ssl": at.secure, "retries": 1, "session": loopback.session(at)}
        client = InfluxDBClient(at.host, at.port, at.user, at.password, **arguments)
        try:
            client.get_list_database()
        except (RequestException, InfluxDBClientError, InfluxDBServerError) as error:
            client.close()
            raise user_server.unreachable_error(server, error) from None
        return client

    @classmethod
    def stores(cls, client: InfluxDBClient) -> Iterable[str]:
        return [each["name"] for each in client.get_list_database()]

    @classmethod
    def drop(cls, client: InfluxDBClient, name: str) -> None:
        client.drop_database(name)

    def create(self) -> None:
        # Does nothing if the database exists.
        self.client.create_database(self.name)

    def connect(self) -> InfluxDBClient:
        return self.open_client(self.server, self.options, database=self.name)

    def version(self) -> str:
        return f"InfluxDB {self.client.ping().removeprefix('v')} (influxdb {version('influxdb')})"

    def read_settings(self, names: tuple[str, ...]) -> Mapping[str, Value | None]:
        """Returns the settings in the configuration file, except directories and addresses. The server reports only
        some of the settings in `names`; a reported value replaces the one from the file."""
        file = self.server.settings if self.server.own else {}
        written = {name: value.strip('"') for name, value in file.items() if not name.endswith(("dir", "-address"))}
        effective: dict[str, str] = {}
        if names:
            # Request JSON, because the client can't decode this answer in its usual format, MessagePack.
            request = {"params": {"q": "SHOW DIAGNOSTICS"}, "headers": {"Accept": "application/json"}}
            (result,) = self.client.request("query", **request).json()["results"]
            for series in result["series"]:
                section = SECTIONS.get(series["name"], series["name"].removeprefix("config-"))
                for key, value in zip(series["columns"], series["values"][0], strict=True):
                    if isinstance(value, bool):
                        effective[f"{section}.{key}"] = str(value).lower()
                    else:
                        effective[f"{section}.{key}"] = str(value)
        return {**written, **{name: effective[name] for name in names if name in effective}}

    def upkeep(self) -> None:
        """Waits until the server has written the log to the data files, some time after the last write."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while self.server.own and any(map(_has_data, self._log())):
            if time.monotonic() > deadline:
                raise TimeoutError(f"its log was not written to its files in {TIMEOUT_SECONDS:g} s")
            time.sleep(0.05)

    def _log(self) -> list[Path]:
        return filesystem.files(self.server.wal / self.name)

    def own_files(self) -> Iterable[Path]:
        # Include the log, which holds data that no other file has.
        return [*filesystem.files(self.server.data / self.name), *self._log()]

    @staticmethod
    def missing_right(error: Exception) -> str | None:
        if getattr(error, "code", None) == FORBIDDEN:
            return str(error)
        return None

    @classmethod
    def removal(cls, name: str, address: Address) -> str:
        words = ["-host", address.host, "-port", str(address.port)]
        if address.secure:
            words.append("-ssl")
        words += ["-username", address.user, "-password", ""]
        return shlex.join(["influx", *words, "-execute", f"DROP DATABASE {name}"])


class Series(port.Series):
    """The port `series`. Acknowledged samples can be read at once."""

    def __init__(self, engine: Influx, names: Sequence[str]) -> None:
        self._client = engine.connect()
        self._names = names
        # Answers name a variable in this form.
        self._numbers = {f"pv={_tag(name)}": number for number, name in enumerate(names)}
        self._heads = [f"{MEASUREMENT},pv={_tag(name)} val=" for name in names]
        self._writing = {"db": engine.name, "precision": "ns"}
        self._reading = {"db": engine.name, "epoch": "ns"}

    def insert(self, batch: SampleBatch) -> None:
        heads = self._heads
        lines = [
            f"{heads[pv]}{val!r},stat={stat}i,sevr={sevr}i {ts}"
            for pv, ts, val, stat, sevr in samples.iterate_rows(batch)
        ]
        self._client.write(lines, self._writing, protocol="line")

    def _query(self, query: str, stream: bool = False, **how: str) -> Any:
        return self._client.request(
            "query", params={**self._reading, "q": query, **how}, headers=CSV.copy(), stream=stream
        )

    def _columns(self, query: str, *names: str) -> Sequence[Any]:
        """Returns columns of the answer to the query."""
        table = self._table(query)
        if table is None:
            return [()] * len(names)
        return [table.column(name).to_numpy() for name in names]

    def _table(self, query: str) -> pyarrow.Table | None:
        """Returns the answer to the query as a table; None if it is empty."""
        from pyarrow import csv

        content = self._query(query).content
        if content:
            return csv.read_csv(BytesIO(content), convert_options=_types())
        return None

    def _from_clause(self, pv: int, rest: str = "") -> str:
        name = self._names[pv].replace("\\", "\\\\").replace("'", "\\'")
        return f"FROM {MEASUREMENT} WHERE pv = '{name}'{rest}"

    def seen(self, pv: int, ts: int) -> bool:
        return bool(self._query(f"SELECT val {self._from_clause(pv, f' AND time = {ts}')}").content)

    def one(self, pv: int) -> Samples:
        return samples.samples(self._columns(f"SELECT {FIELDS} {self._from_clause(pv)}", *OF_ONE))

    def window(self, pv: int, start: int, end: int) -> Samples:
        within = f" AND time >= {start} AND time < {end}"
        return samples.samples(self._columns(f"SELECT {FIELDS} {self._from_clause(pv, within)}", *OF_ONE))

    def all(self) -> Iterator[SampleBatch]:
        """Yields the answer to one query as it arrives."""
        from pyarrow import ArrowInvalid, PythonFile, csv

        query = f"SELECT {FIELDS} FROM {MEASUREMENT} GROUP BY pv"
        with closing(self._query(query, True, chunked="true", chunk_size=str(CHUNK))) as answer:
            answer.raw.decode_content = True
            try:
                reader = csv.open_csv(PythonFile(answer.raw, "r"), convert_options=_types())
            except ArrowInvalid:
                # The answer is empty.
                return
            yield from map(self._batch, reader)

    def _batch(self, table: pyarrow.Table | pyarrow.RecordBatch) -> SampleBatch:
        return samples.batch_of_table(table, "tags", OF_ONE, self._numbers)

    def latest(self) -> SampleBatch:
        table = self._table(f"SELECT {FIELDS} FROM {MEASUREMENT} GROUP BY pv ORDER BY time DESC LIMIT 1")
        if table is None:
            return samples.batch([()] * 5)
        return self._batch(table.unify_dictionaries())

    def downsample(self, pv: int, start: int, end: int, bucket: int) -> Buckets:
        within = f" AND time >= {start} AND time < {end} GROUP BY time({bucket}ns) fill(none)"
        query = f"SELECT mean(val), min(val), max(val) {self._from_clause(pv, within)}"
        return samples.buckets(self._columns(query, "time", "mean", "min", "max"))

    def close(self) -> None:
        self._client.close()


def _has_data(log: Path) -> bool:
    try:
        return log.stat().st_size > 0
    except FileNotFoundError:
        return False


def _tag(value: str) -> str:
    """Returns a tag's value, escaped for the line protocol."""
    for special in (",", "=", " "):
        value = value.replace(special, f"\\{special}")
    return value


def _types() -> csv.ConvertOptions:
    return samples.csv_types("tags", ("time", "stat", "sevr"), ("val", "mean", "min", "max"))


ENGINE = server_engine(
    Influx,
    name="influxdb",
    title="InfluxDB 1, a time-series server (influxdb)",
    schemes=("http", "https"),
    address=partial(loopback.of_url, port=8_086),
    start=start,
    program=PROGRAM,
    settings=set_option.setting("settings", (*OURS, "data.index-version")),
    ports={"series": PortSpec(Series)},
    tiers=TIERS,
    installation=Installation(
        modules=("influxdb", "requests", "pyarrow"),
        requires=("influxdb>=5.3", "requests>=2.28", "pyarrow>=15"),
        packages=("influxdb",),
    ),
    options=(
        Setting(
            "index",
            choice("inmem", "tsi1"),
            "inmem",
            "the index of series of a server of Dyno's own: tsi1 is in files",
        ),
    ),
    upkeep=Influx.upkeep,
    counters=COUNTERS,
    # Each run takes some seconds.
    crashes=CrashSpec(Maintenance("its log written to its files", Influx.upkeep, every=30)),
)
