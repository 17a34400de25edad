"""Native load of HTTP beside wrk and oha: requests a second and the client's CPU time, from the same server in turns.

    python benchmarks/asking.py [--turns N] [--seconds S] [--inflight N,N...] [--bytes N,N...] [--only KIND,KIND...]

One nginx serves files of each size, plain and by TLS. Kinds: `plain` and `tls`, on kept connections; `plain-new` and
`tls-new`, with a connection for each request. Of each kind, in each turn, Dyno has one run of all numbers in flight,
and the tools one each, in shuffled order. For each tool: requests a second, and its CPU time for each request, in
user mode and in the kernel; medians over the turns. Then the ratios of rates and of CPU times, Dyno's by the tool's,
by turn, with the least and the most.

wrk and oha ignore bodies; Dyno compares the digest of each. wrk would resume the TLS session of a connection before;
nginx keeps no sessions here, so that all have whole handshakes. A tool that lost requests is left out.

Exit status: 0; 1 a promise is not kept; 2 a usage error; 3 if nginx, or both wrk and oha, are missing.
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
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from dyno.engines.s3 import engine_nginx
from dyno.options import RunRequest
from dyno.runner import parent, plan
from dyno.stats.summary import summarize
from dyno.suites.http import FRESH, KEPT

DYNO = "dyno"
PROMISED = {"plain": (0.95, 1.3), "tls": (0.9, 1.5)}
"""Least ratio of the rates to wrk's, and most of the CPU times, without TLS and with it."""
OHA = r"Requests/sec:\s+(?P<rate>[\d.]+)[\s\S]*\[200\] (?P<count>\d+) responses"
"""Figures in oha's output."""
NO_SESSIONS = " ssl_session_tickets off; ssl_session_cache off;"


class Figure(NamedTuple):
    rate: float
    """Requests per second."""
    cpu_ns: float
    """CPU time of a request."""


Case = tuple[str, int, int]
"""Kind, bytes of a body, and requests in flight."""


def by_dyno(url: str, kind: str, counts: list[int], seconds: float, certificate: Path) -> dict[int, Figure]:
    """Returns the figures by the number of requests in flight."""
    params = {"inflight": counts, "requests": [100_000]}
    phase = FRESH if kind.endswith("-new") else KEPT
    options = {"name": "website", "url": url, "client": "native", "cacert": str(certificate)}
    if kind.startswith("plain"):
        del options["cacert"]
    run_plan = plan.make(
        RunRequest("http", [options], params=params, phases=[phase], samples=1, duration=seconds, warmup=0.2)
    )
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="asking-") as place:
        run = parent.execute(run_plan, Path(place) / "r.json", Path(place) / "work")
    figures = {}
    for row in summarize(run):
        if not row.cell.floor:
            assert row.valid and row.throughput is not None and row.client_cpu_ns is not None, row.why
            figures[int(row.cell.params["inflight"])] = Figure(row.throughput.median, row.client_cpu_ns)
    return figures


def outside(words: list[str], pattern: str) -> Figure:
    """Runs a tool that prints its number of requests; its CPU time comes from the kernel."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    match = re.search(pattern, output)
    if match is None:
        raise ValueError(output)
    count, figures = float(match["count"]), match.groupdict()
    rate = float(figures["rate"]) if "rate" in figures else count / float(figures["seconds"])
    return Figure(rate, (used.ru_utime + used.ru_stime) / count * 1e9)


def by_wrk(url: str, kind: str, inflight: int, seconds: float) -> Figure:
    closing_header = ["-H", "Connection: close"] if kind.endswith("-new") else []
    words = ["wrk", "-t1", f"-c{inflight}", f"-d{max(1, round(seconds))}s", *closing_header, url]
    return outside(words, r"(?P<count>\d+) requests in (?P<seconds>[\d.]+)s(?![\s\S]*Socket errors: connect [1-9])")


def by_oha(url: str, kind: str, inflight: int, seconds: float) -> Figure:
    how = ["--disable-keepalive"] if kind.endswith("-new") else []
    words = ["oha", "--no-tui", "--insecure", *how, "-c", str(inflight), "-z", f"{max(1, round(seconds))}s", url]
    return outside(words, OHA)


TOOLS: Mapping[str, Callable[[str, str, int, float], Figure]] = {"wrk": by_wrk, "oha": by_oha}


@contextmanager
def serving(place: Path, kind: str, sizes: list[int]) -> Iterator[engine_nginx.Nginx]:
    """Serves a file of each size, which has its size as its name."""
    secure = kind.startswith("tls")
    with closing(engine_nginx.Nginx(place / kind, secure, 1)) as server:
        server.start()
        for size in sizes:
            (server.root / str(size)).write_bytes(random.Random(size).randbytes(size))
        yield server


def measure(kind: str, tools: list[str], args: argparse.Namespace, counts: list[int], sizes: list[int]) -> bool:
    """Measures a kind of connection, and prints its table. Returns whether the promises are kept."""
    figures: dict[Case, dict[str, list[Figure]]] = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="asked-") as place:
        Path(place).chmod(0o755)
        with serving(Path(place), kind, sizes) as server:
            for _ in range(args.turns):
                for size in sizes:
                    url = f"{server.address.url}/{size}"
                    for name in random.sample([DYNO, *tools], 1 + len(tools)):
                        if name == DYNO:
                            own = by_dyno(url, kind, counts, args.seconds, server.certificate)
                        else:
                            own = {count: TOOLS[name](url, kind, count, args.seconds) for count in counts}
                        for count, figure in own.items():
                            figures[kind, size, count][name].append(figure)
    kept = [_print_case(case, by_tool) for case, by_tool in figures.items()]
    return all(kept)


def _print_case(case: Case, figures: Mapping[str, list[Figure]]) -> bool:
    kind, size, count = case
    least, most = PROMISED[kind.partition("-")[0]]
    kept = True
    for name, each in figures.items():
        rate, cpu_ns = (median(column) for column in zip(*each, strict=True))
        line = f"{kind:<10}{size:>9,}{count:>5}  {name:<5}{rate:>9,.0f}/s{cpu_ns / 1e3:>8.1f} µs"
        if name != DYNO:
            pairs = list(zip(figures[DYNO], each, strict=True))
            rates = [mine.rate / other.rate for mine, other in pairs]
            times = [mine.cpu_ns / other.cpu_ns for mine, other in pairs]
            line += f"  {_ratio(rates)}  {_ratio(times)}"
            if name == "wrk" and (median(rates) < least or median(times) > most):
                line += f"  promised: at least {least}, at most {most}"
                kept = False
        print(line, flush=True)
    return kept


def _ratio(ratios: list[float]) -> str:
    return f"{median(ratios):5.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--inflight", default="1,8,64,256")
    parser.add_argument("--bytes", default="100,10000,1000000")
    parser.add_argument("--only", default="plain,tls,plain-new,tls-new")
    args = parser.parse_args()
    tools = [name for name in TOOLS if shutil.which(name)]
    if engine_nginx.explain_unavailability() or not tools:
        print("nginx is not here, or neither wrk nor oha")
        return 3
    engine_nginx.SECURE += NO_SESSIONS
    counts, sizes = (list(map(int, text.split(","))) for text in (args.inflight, args.bytes))
    print("kind, bytes, in flight, tool, requests a second, CPU time of a request, ratios of both")
    kept = [measure(kind, tools, args, counts, sizes) for kind in args.only.split(",")]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
