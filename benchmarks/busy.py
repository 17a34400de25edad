"""Are the clients of a closed loop always at work? By Little's law, throughput times mean latency is their number.

    python benchmarks/busy.py [--engines NAME[,NAME...]] [--clients N[,N...]] [--load LOAD[,LOAD...]] [--seconds S]
                              [--records N] [--mean MS]

Redis answers through a proxy of this benchmark, a process that keeps each answer back for an exponential time, and
one in a hundred for 100 ms more where the table says so. The engine `website` asks such a process itself, which is a
small web server, with as many requests in flight as there are clients. It notes when each request came and when it
was answered: the column `possible` is the number of clients divided by the mean of these times.

Afterwards `website` is asked in an open loop, at half of what is possible: the rate by the offered one, and the 99th
percentile of the time from the intended start by that of the server's own times.

Exit status: 0 success; 1 a promise is not kept; 2 usage error; 3 Redis is not installed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path

from thin import PHASE, serving

from dyno import registry
from dyno.contracts.histogram import count_values
from dyno.contracts.rank import rank
from dyno.engines.redis.engines import Redis
from dyno.fields import Sample
from dyno.options import RunRequest
from dyno.runner import parent, plan

ENGINE, WEBSITE = "redis", "website"
BODY = bytes(100)
OPEN_RATE, OPEN_P99 = 0.01, 0.05
"""Largest difference of the rate from the offered one, and of the percentile from the server's own."""
STALLS, STALL_S = 0.01, 0.1
PROMISED = {"native": 0.99, "library": 0.97}
"""Least share of the clients that are at work."""

# -- the proxy ------------------------------------------------------------------------------------------------------


class Behind(asyncio.Protocol):
    """The proxy's connection to Redis, for one client."""

    def __init__(self, client: Front) -> None:
        self.client = client

    def data_received(self, data: bytes) -> None:
        self.client.answer += data
        if not self.client.is_kept_back:
            self.client.is_kept_back = True
            asyncio.get_running_loop().call_later(self.client.proxy.draw_s(), self.client.reply)


class Front(asyncio.Protocol):
    """The proxy's connection to a client, which sends one request at a time."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.requests: asyncio.Queue[bytes] = asyncio.Queue()
        self.answer = b""
        self.is_kept_back = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.task = asyncio.ensure_future(self.forward())

    def data_received(self, data: bytes) -> None:
        self.arrived_ns = time.monotonic_ns()
        self.requests.put_nowait(data)

    async def forward(self) -> None:
        loop = asyncio.get_running_loop()
        behind, _ = await loop.create_unix_connection(lambda: Behind(self), self.proxy.redis)
        try:
            while True:
                behind.write(await self.requests.get())
        finally:
            behind.close()

    def reply(self) -> None:
        self.proxy.times_ns.append(time.monotonic_ns() - self.arrived_ns)
        self.transport.write(self.answer)
        self.answer = b""
        self.is_kept_back = False

    def connection_lost(self, error: Exception | None) -> None:
        self.task.cancel()


class Proxy:
    def __init__(self, redis: str, mean_s: float, stalls: float) -> None:
        self.redis = redis
        self.times_ns: list[int] = []
        """The time of each request, from its arrival to its answer."""
        self._mean_s = mean_s
        self._stalls = stalls
        self._draws = random.Random(1)

    def draw_s(self) -> float:
        stall_s = 0.0
        if self._draws.random() < self._stalls:
            stall_s = STALL_S
        return self._draws.expovariate(1 / self._mean_s) + stall_s

    async def serve(self, path: str, log: Path) -> None:
        """Serves until SIGTERM, then writes the times to `log`. A path without Redis gets the web server's port."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, ended.set)
        if self.redis:
            await loop.create_unix_server(lambda: Front(self), path)
        else:
            server = await loop.create_server(lambda: Web(self), "127.0.0.1", 0, backlog=1_000)
            # The file is there only once it has its text.
            port = Path(f"{path}.port")
            port.write_text(str(server.sockets[0].getsockname()[1]))
            port.rename(path)
        await ended.wait()
        log.write_text(json.dumps(self.times_ns))


class Web(asyncio.Protocol):
    """A connection to the web server, which has one request at a time."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.head += data
        if self.head.endswith(b"\r\n\r\n"):
            self.head = b""
            asyncio.get_running_loop().call_later(self.proxy.draw_s(), self.reply, time.monotonic_ns())

    def reply(self, arrived_ns: int) -> None:
        self.proxy.times_ns.append(time.monotonic_ns() - arrived_ns)
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY))


@contextmanager
def proxied(redis: str, work: Path, mean_s: float, stalls: float) -> Iterator[str]:
    """Yields the path of the proxy's socket. Afterwards, `work` has its log."""
    path = work / "proxy.sock"
    words = [redis, str(path), str(work / "log.json"), str(mean_s), str(stalls)]
    with subprocess.Popen([sys.executable, __file__, "--proxy", *words]) as process:
        try:
            while not path.exists():
                time.sleep(0.01)
            yield str(path)
        finally:
            process.terminate()


# -- a run ----------------------------------------------------------------------------------------------------------


def ask(port: int, work: Path, inflight: int, load: str, seconds: float, rate: float | str = "max") -> Sample:
    client = {"native": "native", "library": "libcurl"}[load]
    request = RunRequest(
        "http",
        engines=[{"name": WEBSITE, "url": f"http://127.0.0.1:{port}/", "client": client}],
        params={"inflight": [inflight], "requests": [1_000_000]},
        phases=["kept"],
        samples=1,
        duration=seconds,
        rate=rate,
        load=load,
    )
    return run_one(request, WEBSITE, work)


def measure(path: str, work: Path, clients: int, load: str, seconds: float, records: int) -> Sample:
    request = RunRequest(
        "records",
        engines=[{"name": ENGINE, "url": f"unix://{path}"}],
        params={"records": [records], "txn": [1]},
        phases=[PHASE],
        clients=[clients],
        samples=1,
        duration=seconds,
        load=load,
    )
    return run_one(request, ENGINE, work)


def run_one(request: RunRequest, engine: str, work: Path) -> Sample:
    run_plan = plan.make(request)
    cells = tuple(cell for cell in run_plan.cells if cell.engine == engine)
    run = parent.execute(replace(run_plan, cells=cells), work / "run.json", work)
    (attempt,) = run.attempts
    if not attempt.samples or attempt.samples[0].void:
        raise SystemExit(f"{engine}: {attempt.why or attempt.samples[0].void}")
    return attempt.samples[0]


def busy_share(sample: Sample, clients: int) -> float:
    times = count_values([sample.histogram])
    return sum(value * count for value, count in times) / sample.elapsed_ns / clients


def percentile_ns(times_ns: Sequence[int], percent: float) -> int:
    return sorted(times_ns)[rank(percent, len(times_ns)) - 1]


def ask_in_open_loop(args: argparse.Namespace, load: str, clients: int) -> bool:
    """Prints the line of an open loop. Returns whether the promises are kept."""
    rate = clients / args.mean * 1e3 / 2
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="busy-") as place:
        work = Path(place)
        with proxied("", work, args.mean / 1e3, 0) as path:
            sample = ask(int(Path(path).read_text()), work, clients, load, args.seconds, rate)
        times_ns = json.loads((work / "log.json").read_text())[-sample.operations :]
    responses = [value for value, count in count_values([sample.response]) for _ in range(count)]
    ratio = percentile_ns(responses, 99) / percentile_ns(times_ns, 99)
    # The last requests began in this time, and ended after it.
    held = sample.operations / args.seconds / rate
    print(f"{WEBSITE}, load {load}, {clients} in flight, {rate:,.0f}/s offered: {held:.3f} of it, p99 {ratio:.3f}")
    return load != "native" or (abs(held - 1) <= OPEN_RATE and abs(ratio - 1) <= OPEN_P99)


def main() -> int:
    parser = argparse.ArgumentParser(description="Are the clients of a closed loop always at work?")
    parser.add_argument("--engines", default=f"{ENGINE},{WEBSITE}", metavar="NAME[,NAME...]")
    parser.add_argument("--clients", default="8,32,64", metavar="N[,N...]", help="default: 8,32,64")
    parser.add_argument("--load", default="native,library", metavar="LOAD[,LOAD...]", help="default: native,library")
    parser.add_argument("--seconds", type=float, default=6, metavar="S", help="of each run; default: 6")
    parser.add_argument("--records", type=int, default=300, metavar="N", help="default: 300")
    parser.add_argument("--mean", type=float, default=12, metavar="MS", help="mean time of an answer; default: 12")
    args = parser.parse_args()
    engines = args.engines.split(",")
    if ENGINE in engines and (lacking := registry.engine(ENGINE).explain_unavailability()):
        print(f"{ENGINE}: {lacking}", file=sys.stderr)
        return 3
    is_kept = True
    counts = list(map(int, args.clients.split(",")))
    print("engine   clients  load     stalls    op/s  possible  at work  promised")
    cases = product(engines, args.load.split(","), counts, (0.0, STALLS))
    for engine, load, clients, stalls in cases:
        with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="busy-") as place:
            work = Path(place)
            work.chmod(0o755)
            if engine == WEBSITE:
                with proxied("", work, args.mean / 1e3, stalls) as path:
                    sample = ask(int(Path(path).read_text()), work, clients, load, args.seconds)
            else:
                with serving(ENGINE, work, clients) as server:
                    assert isinstance(server, Redis)
                    redis = server.address["unix_socket_path"]
                    with proxied(redis, work, args.mean / 1e3, stalls) as path:
                        sample = measure(path, work, clients, load, args.seconds, args.records)
            times_ns = json.loads((work / "log.json").read_text())[-sample.operations :]
        possible = clients / (sum(times_ns) / len(times_ns)) * 1e9
        share = busy_share(sample, clients)
        is_kept &= share >= PROMISED[load]
        rate = sample.operations / sample.elapsed_ns * 1e9
        often = "1 %" if stalls else "none"
        line = f"{engine:<7}  {clients:>7}  {load:<7}  {often:<6}  {rate:>6,.0f}  {possible:>8,.0f}"
        print(f"{line}  {share:>7.1%}  {PROMISED[load]:>8.0%}", flush=True)
    if WEBSITE in engines:
        for load in args.load.split(","):
            is_kept &= ask_in_open_loop(args, load, max(counts))
    return 0 if is_kept else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--proxy"]:
        redis_path, proxy_path, log_path, mean, share_of_stalls = sys.argv[2:]
        asyncio.run(Proxy(redis_path, float(mean), float(share_of_stalls)).serve(proxy_path, Path(log_path)))
    else:
        sys.exit(main())
