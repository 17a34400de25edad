"""CPU time of an object store's client: boto3, libcurl and native load on one server in one run; and, for one object,
beside other tools.

    python benchmarks/storing.py [--engine versitygw] [--samples N] [--seconds S] [--inflight N,N...] [--bytes N]
        [--requests N]

Of each phase: requests a second by each client, and the CPU time of the client for each request, in user mode and in
the kernel; medians over trials. The last columns are ratios of CPU times, boto3's by libcurl's and native load's by
libcurl's, block by block: the median, the least and the most. The digests of small bodies are looked at while the
clock stands still by boto3 and libcurl, and are in neither figure; native load computes them as bodies arrive.

Then one object is got again and again, of one server, in turns, by Dyno, by wrk and by oha, those that are here: the
last column is the ratio of CPU times, that of native load by the other's, by turn. wrk signs nothing: its address was
signed before. oha signs each request, as libcurl does. `warp` and `s3-benchmark`, which are made for object stores,
could not be had to be built: the Go module proxy has neither of them.

Exit status: 0; 1 native load needs more than half of libcurl's CPU time in put or get; 2 a usage error; 3 if the
server is missing.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from asking import OHA, Figure, outside

from dyno import registry
from dyno.options import RunRequest
from dyno.runner import parent, plan
from dyno.stats.summary import CellSummary, client_cpu_ns, summarize

PHASES = ["put", "head", "get", "delete"]
CLIENTS = ("boto3", "thin", "native")
PROMISED, PROMISED_PHASES = 0.5, ("put", "get")
"""Most of libcurl's CPU time that native load may need, and the phases for which that is promised."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="versitygw")
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--inflight", default="1,8,64")
    parser.add_argument("--bytes", type=int, default=1_000)
    parser.add_argument("--requests", type=int, default=10_000, metavar="N", help="of a phase; default: 10000")
    args = parser.parse_args()
    if lacking := registry.engine(args.engine).explain_unavailability():
        print(f"{args.engine} {lacking}")
        return 3
    params = {
        "inflight": [int(each) for each in args.inflight.split(",")],
        "size": [args.bytes],
        "requests": [args.requests],
    }
    engines = [f"{args.engine}:client={client}" for client in CLIENTS]
    run_plan = plan.make(
        RunRequest(
            "objectstore",
            engines,
            params=params,
            phases=PHASES,
            samples=args.samples,
            budget=args.seconds,
        )
    )
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="storing-") as place:
        run = parent.execute(run_plan, Path(place) / "r.json", Path(place) / "work")
    rows = [row for row in summarize(run) if not row.cell.floor]
    boto, thin, native = (
        {(row.cell.params["inflight"], row.phase): row for row in rows if row.cell.options["client"] == client}
        for client in CLIENTS
    )
    print(f"{args.engine}, {args.bytes:,} bytes")
    print(f"{'under way':>9}  {'phase':<8}{'boto3':>20}{'libcurl':>20}{'native':>20}  boto3:libcurl, native:libcurl")
    kept = True
    for at in sorted(boto):
        ratios = _ratios(native[at], thin[at])
        if at[1] in PROMISED_PHASES:
            kept &= bool(ratios) and median(ratios) <= PROMISED
        columns = "".join(f"{_told(each[at]):>20}" for each in (boto, thin, native))
        print(f"{at[0]:>9}  {at[1]:<8}{columns}  {_in_words(_ratios(boto[at], thin[at]))}, {_in_words(ratios)}")
    beside(args)
    return 0 if kept else 1


# -- other tools ----------------------------------------------------------------------------------------------------


def beside(args: argparse.Namespace) -> None:
    """Compares tools that get the same object from one server, in turns."""
    import boto3
    from botocore.config import Config

    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="storing-") as place:
        server: Any = registry.engine(args.engine).create_server(Path(place) / "server", None, {}, 1)
        with closing(server):
            server.start()
            keys = {"AWS_ACCESS_KEY_ID": server.address.user, "AWS_SECRET_ACCESS_KEY": server.address.password}
            os.environ.update(keys, NO_PROXY="127.0.0.1", no_proxy="127.0.0.1")
            # The default for presigned addresses is an older signature, which not every server supports.
            signing = Config(signature_version="s3v4")
            client = boto3.client("s3", endpoint_url=server.address.url, region_name=server.region, config=signing)
            client.create_bucket(Bucket="one")
            client.put_object(Bucket="one", Key="object", Body=random.Random(1).randbytes(args.bytes))
            signed = client.generate_presigned_url("get_object", {"Bucket": "one", "Key": "object"})
            tools = _tools(server, signed, args)
            for inflight in map(int, args.inflight.split(",")):
                _compare(tools, inflight, args.samples)


Tool = Callable[[int], Figure]


def _tools(server: Any, signed: str, args: argparse.Namespace) -> dict[str, Tool]:
    tools: dict[str, Tool] = {
        "native": partial(_by_dyno, server.address.url, "native", args),
        "libcurl": partial(_by_dyno, server.address.url, "thin", args),
        "boto3": partial(_by_dyno, server.address.url, "boto3", args),
    }
    if shutil.which("wrk"):
        tools["wrk"] = partial(_by_wrk, signed, args.seconds)
    if shutil.which("oha"):
        tools["oha"] = partial(_by_oha, server, args.seconds)
    return tools


def _by_dyno(url: str, client: str, args: argparse.Namespace, inflight: int) -> Figure:
    params = {
        "inflight": [inflight],
        "size": [args.bytes],
        "requests": [args.requests],
        "objects": [1],
        "targets": [1],
    }
    engine = f"s3:url={url}+client={client}"
    run_plan = plan.make(
        RunRequest("objectstore", [engine], params=params, phases=["get"], samples=1, duration=args.seconds)
    )
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="storing-") as place:
        run = parent.execute(run_plan, Path(place) / "r.json", Path(place) / "work")
    (row,) = [row for row in summarize(run) if not row.cell.floor]
    assert row.valid and row.throughput is not None and row.client_cpu_ns is not None, row.why
    return Figure(row.throughput.median, row.client_cpu_ns)


def _by_wrk(signed: str, seconds: float, inflight: int) -> Figure:
    words = ["wrk", "-t1", f"-c{inflight}", f"-d{max(1, round(seconds))}s", signed]
    # The pattern doesn't match if requests were refused.
    return outside(words, r"(?P<count>\d+) requests in (?P<seconds>[\d.]+)s(?![\s\S]*Non-2xx)")


def _by_oha(server: Any, seconds: float, inflight: int) -> Figure:
    # Keys on a command line are visible to other users, which is acceptable here: the server ends with this
    # benchmark.
    keys = f"{server.address.user}:{server.address.password}"
    words = ["oha", "--no-tui", "-c", str(inflight), "-z", f"{max(1, round(seconds))}s", "-a", keys]
    words += ["--aws-sigv4", f"aws:amz:{server.region}:s3", f"{server.address.url}/one/object"]
    return outside(words, OHA)


def _compare(tools: dict[str, Tool], inflight: int, turns: int) -> None:
    found: dict[str, list[Figure]] = {name: [] for name in tools}
    refused = set[str]()
    for _ in range(turns):
        for name in random.sample(list(tools), len(tools)):
            try:
                found[name].append(tools[name](inflight))
            except ValueError:
                refused.add(name)
    print(f"one object, {inflight} under way")
    for name in refused:
        del found[name]
        print(f"  {name:<8}its requests were refused")
    for name, figures in found.items():
        rate, cpu = (median(column) for column in zip(*figures, strict=True))
        ratios = [mine[1] / other[1] for mine, other in zip(found["native"], figures, strict=True)]
        output = ""
        if name != "native":
            output = f"{median(ratios):6.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"  {name:<8}{rate:10,.0f}/s{cpu / 1e3:8.1f} µs{output}", flush=True)


# -- output ---------------------------------------------------------------------------------------------------------


def _told(row: CellSummary) -> str:
    if row.throughput is None or row.client_cpu_ns is None:
        return str(row.why)
    return f"{row.throughput.median:,.0f}/s {row.client_cpu_ns / 1e3:,.0f} µs"


def _ratios(one: CellSummary, other: CellSummary) -> list[float]:
    known = dict(zip(other.blocks, map(client_cpu_ns, other.samples), strict=True))
    return [
        mine / theirs
        for block, mine in zip(one.blocks, map(client_cpu_ns, one.samples), strict=True)
        if mine and (theirs := known.get(block))
    ]


def _in_words(ratios: list[float]) -> str:
    if ratios:
        return f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    return "-"


if __name__ == "__main__":
    sys.exit(main())
