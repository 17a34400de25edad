"""VictoriaMetrics by its HTTP API: samples go in as lines of JSON, one for each series of a batch, and come out so. A
server of Dyno's own, or a user's by its address.

It keeps doubles to 12 decimal digits and times to the ms, one of both in a series. So a variable has five: value,
status and severity; and what is left of the value and of the time, so that all of them come back as they were.
VictoriaMetrics, Inc., VictoriaMetrics documentation, "How to import data in JSON line format", "Deduplication" and
"Key concepts".
"""

from __future__ import annotations

import json
import re
import shlex
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from dyno.contracts.engine import EngineSpec, Gap, PortSpec, Server
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting, integer
from dyno.engines.victoriametrics.server import KIND, OURS, VictoriaMetrics, missing, packaged
from dyno.host import filesystem
from dyno.host.installation import version
from dyno.servers import loopback, namespace, program_option, set_option, user_server
from dyno.servers.user_server import URL, UserServer
from dyno.suites.series import samples
from dyno.suites.series.port import Array, Buckets, SampleBatch, Samples

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # What was taken in waits in memory for up to some seconds, and there is no log of it.
    Tier.VOLATILE: {"write-ahead log": "none"},
}
PORT = 8_428
STORE = "store"
"""The label of all series of one store."""
SERIES = ("val", "rest", "ns", "stat", "sevr")
MS = 1_000_000
DIGITS, DECIMALS = 9, 9
"""Of a value that are in the series `val`, at most: so that neither these nor those that are left, in the series
`rest`, are ever cut off, whatever is in a block with them."""
FIRST = 100 * 86_400
"""Seconds since 1970 after which the last samples are looked for: what asks for earlier ones is told nothing."""
TOGETHER = 25
"""Variables that are exported in one answer, of all."""
SHOWN = re.compile(r'^-([\w.]+)="(.*)"$', re.MULTILINE)
DEFAULT = re.compile(r'^flag\{name="([\w.]+)", value="(.*)", is_set="false"\}', re.MULTILINE)


def serve(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
    if options[URL]:
        return UserServer(str(options[URL]))
    settings = {"memory.allowedBytes": f"{options['cache_mib']}MiB"}
    return VictoriaMetrics(home, {**settings, **set_option.given(options)}, program_option.given(options))


def _address(server: Any) -> loopback.Address:
    return server.address if server.own else loopback.of_url(server.url, PORT)


class Api:
    """The requests that are made of a server. Raises what `requests` does."""

    def __init__(self, server: Any) -> None:
        import requests

        at = _address(server)
        self._url, self._session = at.url, loopback.session(at)
        try:
            # Which it tells nobody else.
            self.ask("/api/v1/labels")
        except requests.RequestException as error:
            self.close()
            raise user_server.unreachable(server, error) from None

    def ask(self, path: str, set_option: Any = None) -> bytes:
        """By POST, so that what is given may be as long as it is: a form, or bytes as they are."""
        answer = self._session.post(self._url + path, data=set_option)
        answer.raise_for_status()
        return bytes(answer.content)

    def close(self) -> None:
        self._session.close()


class Victoria:
    """The series of one label on the server."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value], server: Any) -> None:
        self.server, self._options, self._tier = server, options, tier
        self.store = namespace.of(home)
        self._api = Api(server)
        if not server.own:
            for name in namespace.abandoned(json.loads(self._api.ask(f"/api/v1/label/{STORE}/values"))["data"]):
                _drop(self._api, name)

    def close(self) -> None:
        self._api.close()

    def version(self) -> str:
        told = re.search(rb'vm_app_version\{.*short_version="v?([^"]+)"', self._api.ask("/metrics"))
        known = (
            told[1].decode() if told else (packaged(program_option.given(self._options)) if self.server.own else None)
        )
        return f"VictoriaMetrics {known or 'of unknown version'} (requests {version('requests')})"

    def settings(self) -> Mapping[str, Value | None]:
        """The flags that it was given, and the defaults of those that only other rows were given."""
        told = dict(SHOWN.findall(self._api.ask("/flags").decode()))
        if unset := [name for name in set_option.to_read(self._options) if name not in told]:
            defaults = dict(DEFAULT.findall(self._api.ask("/metrics").decode()))
            told |= {name: defaults[name] for name in unset if name in defaults}
        ours = {name.lower() for name in OURS} | {"envflag.prefix"}
        shown = {name: value for name, value in told.items() if name.lower() not in ours}
        reached = user_server.transport(self.server, _address(self.server).secure, "loopback")
        return {**TIERS[self._tier], **shown, **reached}

    def files(self) -> Iterable[Path]:
        """Of its samples and its index, once all of them are on disk: a snapshot sees to that, and is thrown away."""
        if not self.server.own:
            return ()
        made = json.loads(self._api.ask("/snapshot/create"))["snapshot"]
        self._api.ask(f"/snapshot/delete?snapshot={made}")
        return filesystem.files(*(self.server.data / name for name in ("data", "indexdb")))

    def caveats(self) -> Iterable[Caveat]:
        if self._options[set_option.SET]:
            yield set_option.CAVEAT
        yield Caveat("in-pieces", "keeps 12 digits and ms: what is left of value and time is in two more series")
        yield Caveat("means-here", "can't reckon with values in pieces: means are worked out by the client")


class Series:
    """See `dyno.suites.series.port.Series`."""

    def __init__(self, engine: Victoria, names: Sequence[str]) -> None:
        import orjson

        self._api, self._store, self._names = Api(engine.server), engine.store, names
        self._numbers = {name: number for number, name in enumerate(names)}
        self._dumps, self._loads = orjson.dumps, orjson.loads

    def insert(self, batch: SampleBatch) -> None:
        self._api.ask("/api/v1/import", b"\n".join(self._lines(batch)))

    def _lines(self, batch: SampleBatch) -> Iterator[bytes]:
        """A line for each series of each variable."""
        import numpy as np

        order = np.argsort(batch.pv, kind="stable")
        pv, ts, val, stat, sevr = (values[order] for values in batch)
        times, ns = np.divmod(ts, MS)
        fields = [values.tolist() for values in (*_pieces(val), ns, stat, sevr)]
        ends = [*(np.flatnonzero(pv[1:] != pv[:-1]) + 1).tolist(), len(pv)]
        every, start = times.tolist(), 0
        for end in ends:
            name = self._names[pv[start]]
            for series, values in zip(SERIES, fields, strict=True):
                metric = {"__name__": series, STORE: self._store, "pv": name}
                yield self._dumps({"metric": metric, "values": values[start:end], "timestamps": every[start:end]})
            start = end

    def settle(self) -> None:
        """By its own call: without it a query finds what was taken in about a second later."""
        self._api.ask("/internal/force_flush")

    def _exported(self, pvs: Iterable[int], start: str = "0", end: str = "") -> dict[int, Samples]:
        """Their samples, by variable. Times are in s."""
        form = [("match[]", f"{{{self._label(pv)}}}") for pv in pvs]
        form += [("start", start), *([("end", end)] if end else [])]
        found: dict[int, dict[str, tuple[list[int], list[float]]]] = defaultdict(dict)
        for line in self._api.ask("/api/v1/export", form).splitlines():
            told = self._loads(line)
            metric = told["metric"]
            found[self._numbers[metric["pv"]]][metric["__name__"]] = told["timestamps"], told["values"]
        return {pv: _joined(series) for pv, series in found.items() if len(series) == len(SERIES)}

    def _label(self, pv: int) -> str:
        return f'{STORE}="{self._store}", pv={json.dumps(self._names[pv])}'

    def seen(self, pv: int, ts: int) -> bool:
        at = _seconds(ts)
        return ts in self._one(pv, at, at).ts

    def _one(self, pv: int, start: str = "0", end: str = "") -> Samples:
        return self._exported((pv,), start, end).get(pv) or samples.samples([()] * 4)

    def one(self, pv: int) -> Samples:
        return self._one(pv)

    def window(self, pv: int, start: int, end: int) -> Samples:
        if start >= end:
            return samples.samples([()] * 4)
        return self._one(pv, _seconds(start), _seconds(end - MS))

    def all(self) -> Iterator[SampleBatch]:
        import numpy as np

        for first in range(0, len(self._names), TOGETHER):
            some = range(first, min(first + TOGETHER, len(self._names)))
            if found := self._exported(some):
                pv = np.repeat(np.array(list(found), "i4"), [len(each.ts) for each in found.values()])
                yield SampleBatch(pv, *(np.concatenate(columns) for columns in zip(*found.values(), strict=True)))

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
        told = self._loads(self._api.ask("/api/v1/query", {"query": query, "time": str(at)}))
        return [(each["metric"], float(each["value"][1])) for each in told["data"]["result"]]

    def downsample(self, pv: int, start: int, end: int, bucket: int) -> Buckets:
        return samples.downsample(self.window(pv, start, end), bucket)

    def close(self) -> None:
        self._api.close()


def _pieces(val: Array) -> tuple[Array, Array]:
    """Of each value its first digits, and what is left: their sum is the value, exactly."""
    import numpy as np

    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        decimals = DIGITS - 1 - np.floor(np.log10(np.abs(val)))
        decimals = np.where(np.isfinite(decimals), np.minimum(decimals, DECIMALS), DECIMALS)
        scale = 10.0 ** np.abs(decimals)
        first = np.where(decimals >= 0, np.rint(val * scale) / scale, np.rint(val / scale) * scale)
    return first, val - first


def _joined(series: Mapping[str, tuple[Sequence[int], Sequence[float]]]) -> Samples:
    """Raises RuntimeError where the series of a variable do not have the same times."""
    import numpy as np

    times = series[SERIES[0]][0]
    if any(series[name][0] != times for name in SERIES):
        raise RuntimeError("the series of a variable have different times")
    val, rest, ns, stat, sevr = (np.array(series[name][1], "f8") for name in SERIES)
    return samples.samples([np.array(times, "i8") * MS + ns.astype("i8"), val + rest, stat, sevr])


def _seconds(ts: int) -> str:
    """Whole ms, in s."""
    return f"{ts // MS / 1_000:.3f}"


def _drop(api: Api, name: str) -> None:
    api.ask("/api/v1/admin/tsdb/delete_series", {"match[]": f'{{{STORE}="{name}"}}'})


def removal(name: str, options: Mapping[str, Value]) -> str:
    path = f"{loopback.of_url(str(options[URL]), PORT).url}/api/v1/admin/tsdb/delete_series"
    return shlex.join(["curl", path, "--data-urlencode", f'match[]={{{STORE}="{name}"}}'])


def remove(home: Path, options: Mapping[str, Value], server: Any) -> None:
    with closing(Api(server)) as api:
        _drop(api, namespace.of(home))


ENGINE = EngineSpec(
    name="victoriametrics",
    title="VictoriaMetrics, a server of metrics (requests)",
    opener=Victoria,
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
    default_tier=Tier.VOLATILE,
    modules=("requests", "orjson"),
    requires=("requests>=2.28", "orjson>=3.9"),
    packages=("victoria-metrics",),
    options=(
        user_server.setting("http", "https"),
        Setting("cache_mib", integer(1), 256, "memory for the caches of a server of Dyno's own, in MiB"),
        set_option.setting("flags", (*OURS, "memory.allowedBytes")),
        KIND.setting,
    ),
    refuse=set_option.refused,
    server=serve,
    remove=remove,
    removal=removal,
    needs=lambda options: None if options[URL] else missing(program_option.given(options)),
    clients="one",
    by_default=False,
)
