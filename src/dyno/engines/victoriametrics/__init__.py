"""VictoriaMetrics through its HTTP API: a server that Dyno starts, or the user's own. Samples are written and read as
lines of JSON, one for each series of a batch.

VictoriaMetrics stores values with 12 decimal digits and times in ms. So that all samples are read back unchanged, a
variable has five series: value, status, severity, the remainder of the value and the remainder of the time. Source:
VictoriaMetrics, Inc., VictoriaMetrics documentation, "How to import data in JSON line format", "Deduplication",
"Retention", "Key concepts" and "List of command-line flags".
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dyno.contracts.engine import Gap, PortSpec, Server
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.safe_read import toml
from dyno.contracts.settings import Setting, integer
from dyno.engines.victoriametrics.counters import COUNTERS
from dyno.host import filesystem
from dyno.host.installation import version
from dyno.servers import loopback, program_option, set_option, user_server
from dyno.servers.process import Process
from dyno.servers.server_engine import ServerStore, server_engine
from dyno.suites.series import port, samples
from dyno.suites.series.port import Array, SampleBatch, Samples

if TYPE_CHECKING:
    from dyno.servers.listen import StoreServer
    from dyno.servers.loopback import Address

PREFIX = "DYNO_"
"""Prefix of environment variables that the server reads as flags. The password is one, because every user of the
machine can read the command line."""
SETTINGS = Path(__file__).with_name("settings.toml")
PROGRAM = program_option.ServerProgram(
    # Debian's program does not print its version.
    *("VictoriaMetrics server", "is a time series database and monitoring solution", ("-help",)),
    names=("victoria-metrics", "victoria-metrics-prod"),
    install="dyno install victoriametrics",
)
OURS = ("storageDataPath", "httpListenAddr", "httpAuth.username", "httpAuth.password", "envflag.enable")
"""Settings that users may not change."""


def packaged_version(path: str = "") -> str | None:
    """Returns the version of the Debian package that contains the program, which doesn't report its own version."""
    executable = path or PROGRAM.find()
    if executable is None or shutil.which("dpkg-query") is None:
        return None
    owner = subprocess.run(["dpkg-query", "-S", executable], capture_output=True, text=True).stdout.partition(":")[0]
    words = ["dpkg-query", "-W", "-f", "${Version}", owner]
    if owner:
        return subprocess.run(words, capture_output=True, text=True).stdout.strip() or None
    return None


class VictoriaMetrics(Process):
    """A single node. `settings` are flags, and others have their defaults; `path` is the user's program."""

    def __init__(self, home: Path, settings: Mapping[str, str], path: str = "") -> None:
        self.data = home / "data"
        self.address = loopback.allocate_address(home)
        flags = {
            **toml(SETTINGS),
            **settings,
            # The path is relative to the server's directory.
            "storageDataPath": "data",
            "httpListenAddr": f"{self.address.host}:{self.address.port}",
            "httpAuth.username": self.address.user,
            "envflag.enable": "true",
            "envflag.prefix": PREFIX,
        }
        super().__init__(
            [PROGRAM.executable(path), *(f"-{name}={value}" for name, value in flags.items())],
            home,
            lambda: loopback.says(self.address, "/health"),
            environment={f"{PREFIX}httpAuth_password": self.address.password},
        )


TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # New samples stay in memory for some seconds, and there is no log.
    Tier.VOLATILE: {"write-ahead log": "none"},
}
STORE = "store"
"""Label whose value is the name of the store that a series belongs to."""
SERIES = ("val", "rest", "ns", "stat", "sevr")
MS = 1_000_000
DIGITS, DECIMALS = 9, 9
"""Maximum number of digits and of decimals of a value in the series `val`; the others are in `rest`. With so few,
neither series loses digits, whatever other values are in the same block."""
FIRST = 100 * 86_400
"""Start of the search for last samples, in seconds since 1970. If it is earlier, the server answers nothing."""
TOGETHER = 25
"""Number of variables in one request when all samples are read."""
FLAGS = re.compile(r'^-([\w.]+)="(.*)"$', re.MULTILINE)
DEFAULTS = re.compile(r'^flag\{name="([\w.]+)", value="(.*)", is_set="false"\}', re.MULTILINE)


def start(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
    settings = {"memory.allowedBytes": f"{options['cache_mib']}MiB", **set_option.get_settings(options)}
    return VictoriaMetrics(home, settings, program_option.get_path(options))


class Api:
    """Sends requests to a server. Raises the exceptions of `requests`."""

    def __init__(self, server: StoreServer[Address]) -> None:
        import requests

        self._url, self._session = server.address.url, loopback.session(server.address)
        try:
            # This request needs the password, so it also checks the credentials.
            self.post("/api/v1/labels")
        except requests.RequestException as error:
            self.close()
            raise user_server.unreachable_error(server, error) from None

    def post(self, path: str, data: bytes | Mapping[str, str] | Sequence[tuple[str, str]] | None = None) -> bytes:
        """Sends a form or raw bytes by POST, because a URL's length is limited; returns the answer's body."""
        answer = self._session.post(self._url + path, data=data)
        answer.raise_for_status()
        return bytes(answer.content)

    def close(self) -> None:
        self._session.close()


class Victoria(ServerStore):
    """A store: all series on the server with one value of the label `store`."""

    @classmethod
    def open_client(cls, server: StoreServer[Address], options: Mapping[str, Value]) -> Api:
        return Api(server)

    @classmethod
    def stores(cls, client: Api) -> Iterable[str]:
        return json.loads(client.post(f"/api/v1/label/{STORE}/values"))["data"]  # type: ignore[no-any-return]

    @classmethod
    def drop(cls, client: Api, name: str) -> None:
        client.post("/api/v1/admin/tsdb/delete_series", {"match[]": f'{{{STORE}="{name}"}}'})

    def version(self) -> str:
        match = re.search(rb'vm_app_version\{.*short_version="v?([^"]+)"', self.client.post("/metrics"))
        number = match[1].decode() if match else None
        if number is None and self.server.own:
            number = packaged_version(program_option.get_path(self.options))
        return f"VictoriaMetrics {number or 'of unknown version'} (requests {version('requests')})"

    def settings(self) -> Mapping[str, Value | None]:
        return {**TIERS[self.tier], **super().settings()}

    def read_settings(self, names: tuple[str, ...]) -> Mapping[str, Value | None]:
        """Returns the flags that the server was started with, and the defaults of other flags in `names`."""
        flags = dict(FLAGS.findall(self.client.post("/flags").decode()))
        if unset := [name for name in names if name not in flags]:
            defaults = dict(DEFAULTS.findall(self.client.post("/metrics").decode()))
            flags |= {name: defaults[name] for name in unset if name in defaults}
        hidden = {name.lower() for name in OURS} | {"envflag.prefix"}
        return {name: value for name, value in flags.items() if name.lower() not in hidden}

    def own_files(self) -> Iterable[Path]:
        """Returns the files of samples and index, after a snapshot, which writes all samples to disk."""
        snapshot = json.loads(self.client.post("/snapshot/create"))["snapshot"]
        self.client.post(f"/snapshot/delete?snapshot={snapshot}")
        return filesystem.files(*(self.server.data / name for name in ("data", "indexdb")))

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("in-pieces", "keeps 12 digits and ms: what is left of value and time is in two more series")
        yield Caveat("means-here", "can't reckon with values in pieces: means are worked out by the client")
        if self.server.own:
            yield from super().caveats()

    @classmethod
    def removal(cls, name: str, address: Address) -> str:
        path = f"{address.url}/api/v1/admin/tsdb/delete_series"
        return shlex.join(["curl", path, "--data-urlencode", f'match[]={{{STORE}="{name}"}}'])


class Series(port.Series):
    """The port `series`. Buckets are computed in the client."""

    def __init__(self, engine: Victoria, names: Sequence[str]) -> None:
        import orjson

        self._api = Api(engine.server)
        self._store = engine.name
        self._names = names
        self._numbers = {name: number for number, name in enumerate(names)}
        self._dumps, self._loads = orjson.dumps, orjson.loads

    def insert(self, batch: SampleBatch) -> None:
        """Sends a line of JSON for each series of each variable."""
        import numpy as np

        order = np.argsort(batch.pv, kind="stable")
        pv, ts, val, stat, sevr = (values[order] for values in batch)
        times, ns = np.divmod(ts, MS)
        fields = [values.tolist() for values in (*_pieces(val), ns, stat, sevr)]
        ends = [*(np.flatnonzero(pv[1:] != pv[:-1]) + 1).tolist(), len(pv)]
        every = times.tolist()
        start = 0
        lines = list[bytes]()
        for end in ends:
            name = self._names[pv[start]]
            for series, values in zip(SERIES, fields, strict=True):
                metric = {"__name__": series, STORE: self._store, "pv": name}
                line = {"metric": metric, "values": values[start:end], "timestamps": every[start:end]}
                lines.append(self._dumps(line))
            start = end
        self._api.post("/api/v1/import", b"\n".join(lines))

    def settle(self) -> None:
        """Makes new samples visible, as the server does by itself after about a second."""
        self._api.post("/internal/force_flush")

    def _export_samples(self, pvs: Iterable[int], start: str = "0", end: str = "") -> dict[int, Samples]:
        """Returns samples by variable, joined from five series each. `start` and `end` are in seconds. Raises
        RuntimeError if the series have different times."""
        import numpy as np

        form = [("match[]", f'{{{STORE}="{self._store}", pv={json.dumps(self._names[pv])}}}') for pv in pvs]
        form += [("start", start), *([("end", end)] if end else [])]
        columns: dict[int, dict[str, tuple[list[int], list[float]]]] = defaultdict(dict)
        for line in self._api.post("/api/v1/export", form).splitlines():
            series = self._loads(line)
            metric = series["metric"]
            columns[self._numbers[metric["pv"]]][metric["__name__"]] = series["timestamps"], series["values"]
        exported = {}
        for pv, parts in columns.items():
            if len(parts) == len(SERIES):
                (times, *others), numbers = zip(*(parts[name] for name in SERIES), strict=True)
                if any(each != times for each in others):
                    raise RuntimeError("the series of a variable have different times")
                val, rest, ns, stat, sevr = (np.array(each, "f8") for each in numbers)
                ts = np.array(times, "i8") * MS + ns.astype("i8")
                exported[pv] = samples.samples([ts, val + rest, stat, sevr])
        return exported

    def seen(self, pv: int, ts: int) -> bool:
        at = _seconds(ts)
        return ts in self.one(pv, at, at).ts

    def one(self, pv: int, start: str = "0", end: str = "") -> Samples:
        return self._export_samples((pv,), start, end).get(pv) or samples.samples([()] * 4)

    def window(self, pv: int, start: int, end: int) -> Samples:
        if start >= end:
            return samples.samples([()] * 4)
        return self.one(pv, _seconds(start), _seconds(end - MS))

    def all(self) -> Iterator[SampleBatch]:
        import numpy as np

        for first in range(0, len(self._names), TOGETHER):
            some = range(first, min(first + TOGETHER, len(self._names)))
            if exported := self._export_samples(some):
                pv = np.repeat(np.array(list(exported), "i4"), [len(each.ts) for each in exported.values()])
                yield SampleBatch(pv, *(np.concatenate(columns) for columns in zip(*exported.values(), strict=True)))

    def latest(self) -> SampleBatch:
        now = int(time.time())
        labels = f'{{{STORE}="{self._store}"}}[{now - FIRST}s]'
        last = self._vector(f"last_over_time({labels})", now)
        times = self._vector(f"tlast_over_time(ns{labels})", now)
        parts: dict[str, dict[str, float]] = defaultdict(dict)
        for metric, value in last:
            parts[metric["pv"]][metric["__name__"]] = value
        rows = [
            (
                self._numbers[name],
                round(value * 1_000) * MS + round(parts[name]["ns"]),
                parts[name]["val"] + parts[name]["rest"],
                *(round(parts[name][field]) for field in ("stat", "sevr")),
            )
            for name, value in ((metric["pv"], value) for metric, value in times)
        ]
        return samples.batch(samples.columns_of(rows))

    def _vector(self, query: str, at: int) -> list[tuple[dict[str, str], float]]:
        answer = self._loads(self._api.post("/api/v1/query", {"query": query, "time": str(at)}))
        return [(each["metric"], float(each["value"][1])) for each in answer["data"]["result"]]

    def close(self) -> None:
        self._api.close()


def _pieces(val: Array) -> tuple[Array, Array]:
    """Returns the first digits of each value, and the remainders. The sum of both is exactly the value."""
    import numpy as np

    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        decimals = DIGITS - 1 - np.floor(np.log10(np.abs(val)))
        decimals = np.where(np.isfinite(decimals), np.minimum(decimals, DECIMALS), DECIMALS)
        scale = 10.0 ** np.abs(decimals)
        first = np.where(decimals >= 0, np.rint(val * scale) / scale, np.rint(val / scale) * scale)
    return first, val - first


def _seconds(ts: int) -> str:
    """Returns a time in ns as text in s, rounded down to whole ms."""
    return f"{ts // MS / 1_000:.3f}"


ENGINE = server_engine(
    Victoria,
    name="victoriametrics",
    title="VictoriaMetrics, a server of metrics (requests)",
    schemes=("http", "https"),
    address=partial(loopback.of_url, port=8_428),
    start=start,
    program=PROGRAM,
    settings=set_option.setting("flags", (*OURS, "memory.allowedBytes")),
    ports={
        "series": PortSpec(
            Series,
            gaps=(
                Gap("values", "unsupported", "keeps 12 digits, and fewer beside much greater values"),
                Gap("nanoseconds", "unsupported", "keeps one sample of a variable in each ms"),
                Gap("corrections", "unsupported", "keeps either of two samples with one time"),
            ),
        )
    },
    tiers=TIERS,
    installation=Installation(
        modules=("requests", "orjson"), requires=("requests>=2.28", "orjson>=3.9"), packages=("victoria-metrics",)
    ),
    counters=COUNTERS,
    options=(Setting("cache_mib", integer(1), 256, "memory for the caches of a server of Dyno's own, in MiB"),),
)
