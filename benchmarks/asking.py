"""CPU time of a request for the client: the suite http beside wrk and oha, on the same server, in turns.

    python benchmarks/asking.py [--turns N] [--seconds S] [--inflight N,N...] [--bytes N]

Files of one nginx, requested on persistent connections. For each tool: requests a second, and its CPU time for each
request, in user mode and in the kernel; medians over the turns. The last column is the ratio of CPU times, Dyno's by
the other's, by turn, with its least and its most. wrk and oha ignore bodies; Dyno checks the digest of each while
the clock stands still, outside of both figures.

Exit status: 0; 2 a usage error; 3 if nginx, or both wrk and oha, are missing.
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
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median

from dyno.engines.s3 import engine_nginx
from dyno.options import RunRequest
from dyno.runner import parent, plan
from dyno.stats.summary import summarize

Figure = tuple[float, float]
Tool = Callable[[str, int, float], Figure]
"""Requests per second, and CPU ns per request."""


def by_dyno(url: str, inflight: int, seconds: float) -> Figure:
    params = {"inflight": [inflight], "requests": [100_000]}
    run_plan = plan.make(
        RunRequest("http", [f"website:url={url}"], params=params, phases=["kept"], samples=1, duration=seconds)
    )
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="asking-") as place:
        run = parent.execute(run_plan, Path(place) / "r.json", Path(place) / "work")
    (row,) = [row for row in summarize(run) if not row.cell.floor]
    assert row.valid and row.throughput is not None and row.client_cpu_ns is not None, row.why
    return row.throughput.median, row.client_cpu_ns


def outside(words: list[str], pattern: str) -> Figure:
    """Runs a tool that prints its number of requests; its CPU time comes from the kernel."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    found = re.search(pattern, output)
    assert found is not None, output
    count, seconds = float(found["count"]), float(found["seconds"])
    return count / seconds, (used.ru_utime + used.ru_stime) / count * 1e9


def by_wrk(url: str, inflight: int, seconds: float) -> Figure:
    words = ["wrk", "-t1", f"-c{inflight}", f"-d{max(1, round(seconds))}s", url]
    return outside(words, r"(?P<count>\d+) requests in (?P<seconds>[\d.]+)s")


def by_oha(url: str, inflight: int, seconds: float) -> Figure:
    words = ["oha", "--no-tui", "-c", str(inflight), "-z", f"{max(1, round(seconds))}s", url]
    return outside(words, r"Total:\s+(?P<seconds>[\d.]+) sec[\s\S]*\[200\] (?P<count>\d+) responses")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--inflight", default="1,8,64")
    parser.add_argument("--bytes", type=int, default=1_000)
    args = parser.parse_args()
    tools: dict[str, Tool] = {name: by for name, by in (("wrk", by_wrk), ("oha", by_oha)) if shutil.which(name)}
    if engine_nginx.explain_unavailability() or not tools:
        print("nginx is not here, or neither wrk nor oha")
        return 3
    tools = {"dyno": by_dyno, **tools}
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="asked-") as place:
        Path(place).chmod(0o755)
        with closing(engine_nginx.Nginx(Path(place) / "server", False, 1)) as server:
            server.start()
            (server.root / "0").write_bytes(random.Random(1).randbytes(args.bytes))
            for inflight in map(int, args.inflight.split(",")):
                compare(tools, f"{server.address.url}/0", inflight, args.turns, args.seconds)
    return 0


def compare(tools: dict[str, Tool], url: str, inflight: int, turns: int, seconds: float) -> None:
    found: dict[str, list[Figure]] = {name: [] for name in tools}
    for _ in range(turns):
        for name in random.sample(list(tools), len(tools)):
            found[name].append(tools[name](url, inflight, seconds))
    print(f"{inflight} in flight")
    for name, figures in found.items():
        rate, cpu = (median(column) for column in zip(*figures, strict=True))
        ratios = [mine[1] / other[1] for mine, other in zip(found["dyno"], figures, strict=True)]
        output = ""
        if name != "dyno":
            output = f"{median(ratios):6.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"  {name:<6}{rate:10,.0f}/s{cpu / 1e3:8.1f} µs{output}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
