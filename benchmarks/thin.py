"""Cost of a client: Dyno's default and thin clients and native load, beside the load tool of the server's own users.

    python benchmarks/thin.py [ENGINE...] [--clients N[,N...]] [--open N] [--only NAME[,NAME...]] [--turns N]
                              [--seconds S] [--records N]

Each contestant does single lookups by key on one server, which is started for this benchmark: Dyno's default
client, its thin client, native load, and pgbench, sysbench or redis-benchmark, in turns and in shuffled order. A
tool has its own data on that server; the table names what it looks up. Figures are medians over the turns:
operations per second, and the client's CPU time per lookup over all of its processes and threads, including the
tool's start and end. Ratios of Dyno's clients to a tool are taken by turn, with a 95 % interval: 2.00 in the last
column means that the client computes twice as long for a lookup.

`--open N` also compares native load and the tools in an open loop, with N connections at half of the tool's maximum.
Its table has the ratio of the rate to the offered one, and p99 of the time from the intended start. redis-benchmark
has no open loop.

Exit status: 0 success; 1 something failed, and is named; 2 usage error; 3 there are no servers or tools to measure.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple
from urllib.parse import quote

from dyno import registry
from dyno.contracts.engine import Server
from dyno.contracts.model import Tier
from dyno.options import RunRequest
from dyno.report.tables import units
from dyno.runner import parent, plan
from dyno.stats.estimate import CONFIDENCE, FEWEST_TRIALS, center, make_interval
from dyno.stats.summary import summarize

PHASE, TIER = "rand-key", Tier.PROCESS
SEEN = 20_000
"""Requests of a short redis-benchmark run that determines how many requests fill the requested time."""
STUB = 150
FEW = 100
"""Connections up to which pgbench measures for a time."""
LOG = "pgbench-log"
SAME_LUA = """
function thread_init()
  connection = sysbench.sql.driver():connect()
  statement = connection:prepare(
    "SELECT name, location, stub FROM same WHERE name = ? AND location = ?")
  name = statement:bind_create(sysbench.sql.type.VARCHAR, 20)
  location = statement:bind_create(sysbench.sql.type.VARCHAR, 20)
  statement:bind_param(name, location)
end

function event()
  local text = tostring(sysbench.rand.uniform(1, RECORDS))
  name:set(text)
  location:set(text)
  statement:execute()
end
"""
"""Script of sysbench that looks up records in a table like that of the suite."""
NATIVE = "native"


class Turn(NamedTuple):
    """Result of one client or tool in one turn."""

    rate: float
    cpu_ns: float
    """CPU time of the client per lookup."""
    p99_ns: float | None = None
    """Response time from the intended start, in an open loop."""


Contestant = Callable[[int, float | None], Turn]
"""Measures one turn with a number of connections, at an offered rate per second or in a closed loop."""


class Failed(Exception):
    """A tool failed or printed unexpected output."""


class Bench:
    """A running server, and the work for all contestants."""

    def __init__(self, engine: str, server: Any, work: Path, records: int, seconds: float) -> None:
        self.engine, self.server, self.work, self.records, self.seconds = engine, server, work, records, seconds
        self.paced = engine not in ("redis", "valkey")
        """Whether the tool has an open loop."""
        self._runs = 0

    def dyno(self, client: str, url: str) -> Contestant:
        """Runs Dyno with the client on the server, as if a user had started that server."""

        def turn(clients: int, rate: float | None = None) -> Turn:
            args = {"name": self.engine, "client": client, "url": url}
            params: dict[str, Any] = {"records": [self.records], "txn": [1]}
            run_plan = plan.make(
                RunRequest(
                    "records",
                    engines=[args],
                    params=params if rate is None else {**params, "rate": [rate]},
                    phases=[PHASE],
                    clients=[clients],
                    samples=1,
                    duration=self.seconds,
                    tier=TIER.value,
                )
            )
            # Leave out the null engine, which takes as long.
            cells = tuple(cell for cell in run_plan.cells if cell.engine == self.engine)
            self._runs += 1
            file = self.work / f"{self._runs}.json"
            run = parent.execute(replace(run_plan, cells=cells), file, self.work)
            (row,) = summarize(run)
            if row.throughput is None or row.client_cpu_ns is None:
                raise Failed(f"{self.engine}:client={client}: {row.why or 'told no CPU time'}")
            return Turn(row.throughput.median, row.client_cpu_ns, row.response_ns["p99"])

        return turn

    def tool(
        self, command: Callable[[int, float | None], Sequence[str]], done: str, rate: str, p99: Callable[[str], float]
    ) -> Contestant:
        """Runs a tool. The regular expressions find the number of lookups, and lookups per second, in its output.
        `p99` returns the response time in ns, for an open loop."""

        def turn(clients: int, offered: float | None = None) -> Turn:
            text, cpu_ns = ran(command(clients, offered), self.work)
            response = None
            if offered is not None:
                response = p99(text)
            return Turn(output_text(rate, text), cpu_ns / output_text(done, text), response)

        return turn


def ran(command: Sequence[str], place: Path | None = None) -> tuple[str, int]:
    """Runs a command in a directory; returns its output and the CPU time of its process in ns."""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=place
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if process.returncode:
        raise Failed(f"{Path(command[0]).name} ended with {process.returncode}: {text[-300:].strip()}")
    return text, round((usage.ru_utime + usage.ru_stime) * 1e9)


def output_text(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    if found is None:
        raise Failed(f"a tool did not say {pattern!r}: {text[-300:].strip()}")
    return float(found[1])


def postgresql(bench: Bench) -> Iterator[tuple[str, Contestant]]:
    import psycopg

    address = bench.server.address
    url = f"postgresql://{address['user']}@/{address['dbname']}?host={quote(address['host'], safe='')}"
    yield from ((client, bench.dyno(client, url)) for client in ("psycopg", "pq", "native"))
    words = ["-h", address["host"], "-U", address["user"], address["dbname"]]
    ran(["pgbench", "-i", "-q", *words])
    with psycopg.connect(**address) as connection:
        columns = (
            'name text COLLATE "C", location text COLLATE "C", stub text COLLATE "C", PRIMARY KEY (name, location)'
        )
        connection.execute(f"CREATE TABLE thin ({columns})")
        rows = f"SELECT n::text, n::text, repeat('x', {STUB}) FROM generate_series(1, {bench.records}) AS n"
        connection.execute(f"INSERT INTO thin {rows}")
    with psycopg.connect(**address, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    script = bench.work / "same.sql"
    script.write_text(
        f"\\set n random(1, {bench.records})\n"
        "SELECT name, location, stub FROM thin WHERE name = :n AND location = :n;\n"
    )

    def command(*what: str) -> Callable[[int, float | None], Sequence[str]]:
        fixed = ["pgbench", "-n", "-M", "prepared", *what]

        def words_of(clients: int, rate: float | None) -> Sequence[str]:
            if rate is None and clients <= FEW:
                how = ["-T", f"{bench.seconds:.0f}"]
            else:
                # pgbench's time begins before it connects, and may be over before 512 connections are there.
                operations = SEEN if rate is None else bench.seconds * rate
                how = ["-t", str(max(round(operations / clients), 1))]
            paced = []
            if rate is not None:
                paced = ["-R", f"{rate:.0f}", "-l", f"--log-prefix={LOG}"]
            return [*fixed, *how, *paced, "-c", str(clients), *words]

        return words_of

    def p99(text: str) -> float:
        """Reads the third column of pgbench's log: the time from the scheduled start, in µs."""
        times = []
        for log in bench.work.glob(f"{LOG}.*"):
            times += [int(line.split()[2]) for line in log.read_text().splitlines()]
            log.unlink()
        return quantiles(times, n=100)[-1] * 1e3

    done, rate = r"actually processed: (\d+)", r"tps = ([\d.]+)"
    yield "pgbench -S -M prepared: an integer by an integer", bench.tool(command("-S"), done, rate, p99)
    same = command("-f", str(script))
    yield "pgbench -f -M prepared: Dyno's table and statement", bench.tool(same, done, rate, p99)


def mariadb(bench: Bench) -> Iterator[tuple[str, Contestant]]:
    import pymysql

    address = bench.server.address
    url = f"mariadb://{address['user']}@localhost/?unix_socket={quote(address['unix_socket'], safe='')}"
    yield from ((client, bench.dyno(client, url)) for client in ("pymysql", "c", "native"))
    script = bench.work / "same.lua"
    script.write_text(SAME_LUA.replace("RECORDS", str(bench.records)))
    words = ["--db-driver=mysql", "--mysql-db=thin", f"--mysql-socket={address['unix_socket']}"]
    words += [f"--mysql-user={address['user']}", "--percentile=99"]
    point = ["sysbench", "oltp_point_select", *words, "--tables=1", f"--table-size={bench.records}"]
    with closing(pymysql.connect(user=address["user"], unix_socket=address["unix_socket"])) as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE DATABASE thin CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin")
        cursor.execute("USE thin")
        columns = "name VARCHAR(255), location VARCHAR(255), stub LONGTEXT NOT NULL, PRIMARY KEY (name, location)"
        cursor.execute(f"CREATE TABLE same ({columns}) ENGINE=InnoDB")
        rows = f"SELECT seq, seq, REPEAT('x', {STUB}) FROM seq_1_to_{bench.records}"
        cursor.execute(f"INSERT INTO same {rows}")
        connection.commit()
    ran([*point, "prepare"])

    def tool(command: Sequence[str]) -> Contestant:
        def words_of(clients: int, rate: float | None) -> Sequence[str]:
            paced = []
            if rate is not None:
                paced = [f"--rate={rate:.0f}"]
            return [*command, f"--threads={clients}", f"--time={bench.seconds:.0f}", *paced, "run"]

        rate = r"transactions: +\d+ +\(([\d.]+) per sec"
        p99 = r"99th percentile: +([\d.]+)"
        return bench.tool(words_of, r"transactions: +(\d+)", rate, lambda text: output_text(p99, text) * 1e6)

    yield "sysbench oltp_point_select: 120 characters by an integer", tool(point)
    yield "sysbench same.lua: Dyno's table and statement", tool(["sysbench", str(script), *words])


def redis(bench: Bench) -> Iterator[tuple[str, Contestant]]:
    from redis import Redis

    path = bench.server.address["unix_socket_path"]
    yield from ((client, bench.dyno(client, f"unix://{path}")) for client in ("redis-py", "hiredis", "native"))
    with Redis(unix_socket_path=path) as client:
        for number in range(bench.records):
            client.set(f"key:{number:012}", "x" * STUB)
    words = ["redis-benchmark", "-s", path, "--csv", "-r", str(bench.records), "-d", str(STUB), "-t", "get"]

    def turn(clients: int, offered: float | None = None) -> Turn:
        def args(requests: int) -> tuple[float, int]:
            text, cpu_ns = ran([*words, "-c", str(clients), "-n", str(requests)])
            return output_text(r'"GET","([\d.]+)"', text), cpu_ns

        requests = round(args(SEEN)[0] * bench.seconds)
        rate, cpu_ns = args(requests)
        return Turn(rate, cpu_ns / requests)

    yield f"redis-benchmark -t get: {STUB} bytes by 16", turn


CONTESTS = {
    "postgresql": (postgresql, "pgbench"),
    "mariadb": (mariadb, "sysbench"),
    "redis": (redis, "redis-benchmark"),
    "valkey": (redis, "redis-benchmark"),
}


@contextmanager
def serving(engine: str, home: Path, clients: int) -> Iterator[Server]:
    spec = registry.engine(engine)
    assert spec.server is not None
    server = spec.create_server(home, TIER, spec.resolve({}), clients)
    assert server is not None
    server.start()
    try:
        yield server
    finally:
        server.close()


def contest(
    bench: Bench,
    clients: Sequence[int],
    opened: int,
    turns: int,
    shuffle: random.Random,
    only: Sequence[str],
) -> None:
    every = dict(CONTESTS[bench.engine][0](bench))
    contestants = {name: turn for name, turn in every.items() if not only or name.split()[0] in only}
    tools = [name for name in contestants if " " in name]
    loops: list[tuple[int, float | None]] = [(number, None) for number in clients]
    if opened and tools:
        most = [contestants[tools[0]](opened, None).rate for _ in range(turns)]
        loops.append((opened, round(median(most) / 2)))
    seen: dict[tuple[int, float | None], dict[str, list[Turn]]] = {}
    for number, rate in loops:
        # An open loop is for native load, and for the tools that have one.
        able = [name for name in contestants if rate is None or (" " in name and bench.paced) or name == NATIVE]
        seen[number, rate] = {name: [] for name in able}
    for _ in range(turns):
        order = [(loop, name) for loop, names in seen.items() for name in names]
        shuffle.shuffle(order)
        for loop, name in order:
            seen[loop][name].append(contestants[name](*loop))
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    for (number, rate), of_names in seen.items():
        show(bench.engine, number, rate, of_names)


def show(engine: str, clients: int, offered: float | None, seen: dict[str, list[Turn]]) -> None:
    noun = "connections"
    if clients == 1:
        noun = "connection"
    title = f"{engine}, {clients} {noun}" + ("" if offered is None else f", {offered:,.0f} op/s offered")
    print(f"\n{title:<58}{'op/s':>10}{'client':>10}{'' if offered is None else 'p99':>10}")
    for name, turns in seen.items():
        speed, cpu_ns = median(turn.rate for turn in turns), median(turn.cpu_ns for turn in turns)
        p99 = [turn.p99_ns for turn in turns if turn.p99_ns is not None]
        last = units.duration(median(p99)) if p99 else ""
        print(f"{name:<58}{speed:>10,.0f}{units.cpu_time(cpu_ns):>10}{last:>10}")
        if offered is not None:
            print(f"{'  to the offered rate':<58}{speed / offered:>10.3f}")
    ours = [name for name in seen if " " not in name]
    for tool in [name for name in seen if " " in name]:
        print(f"{'  to ' + tool.partition(':')[0]:<40}{'op/s':>24}{'CPU of the client':>26}")
        for name in ours:
            pairs = list(zip(seen[name], seen[tool], strict=True))
            rate = compared([one.rate / its.rate for one, its in pairs])
            cost = compared([one.cpu_ns / its.cpu_ns for one, its in pairs])
            print(f"{'    ' + name:<40}{rate:>25}{cost:>25}")


def compared(ratios: Sequence[float]) -> str:
    if len(ratios) < FEWEST_TRIALS:
        return f"{median(ratios):.2f}"
    found = make_interval(median(ratios), center(ratios), CONFIDENCE)
    return f"{found.median:.2f} ({found.low:.2f} – {found.high:.2f})"


def lacking(engine: str) -> str | None:
    tool = CONTESTS[engine][1]
    return registry.engine(engine).explain_unavailability() or (None if shutil.which(tool) else f"needs {tool}")


def numbers(text: str) -> list[int]:
    found = [int(part) for part in text.split(",")]
    if min(found) < 1:
        raise ValueError
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="What a client costs, beside the tools of a server's own users.")
    parser.add_argument("engine", nargs="*", help=f"{', '.join(CONTESTS)}; default: all")
    parser.add_argument("--clients", type=numbers, default=[1, 32], metavar="N[,N...]", help="default: 1,32")
    parser.add_argument("--open", type=int, default=0, metavar="N", help="connections of an open loop; default: none")
    only = "contestants, each by its first word; default: all"
    parser.add_argument("--only", type=lambda text: text.split(","), default=[], metavar="NAME[,NAME...]", help=only)
    parser.add_argument("--turns", type=int, default=5, metavar="N", help="default: 5")
    parser.add_argument("--seconds", type=float, default=3, metavar="S", help="of each turn; default: 3")
    parser.add_argument("--records", type=int, default=20_000, metavar="N", help="default: 20000")
    args = parser.parse_args()
    if unknown := [name for name in args.engine if name not in CONTESTS]:
        parser.error(f"{unknown[0]} is not known; there are: {', '.join(CONTESTS)}")
    there, failed = [], False
    for name in args.engine or CONTESTS:
        why = lacking(name)
        print(f"{name}: {why}") if why else there.append(name)
    for name in there:
        with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="thin-") as place:
            work = Path(place)
            work.chmod(0o755)
            with serving(name, work / "server", max(*args.clients, args.open)) as server:
                try:
                    bench = Bench(name, server, work, args.records, args.seconds)
                    contest(bench, args.clients, args.open, args.turns, random.Random(name), args.only)
                except Failed as error:
                    failed = True
                    print(f"{name}: {error}")
    return 3 if not there else int(failed)


if __name__ == "__main__":
    sys.exit(main())
