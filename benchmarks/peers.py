"""CPU time that the peers of Dyno's measuring loop take to run and time an operation that does nothing.

CPU time is user and system time of all threads and of all children that the process waited for. A peer runs a small
and a large number of operations, one after the other, in several rounds. The figure is the median difference, divided
by the difference in operations. This removes a peer's costs before and after its operations.

    python benchmarks/peers.py [--operations N] [--go-ycsb]

This module neither measures nor imports Dyno.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time_ns
from typing import Any

ROUNDS = 5
SMALL = 10
"""The large number of operations is this many times the small one."""
LEAST = 1000
OPERATIONS = 5_000_000

GO_YCSB = "github.com/pingcap/go-ycsb"
GO_YCSB_VERSION = "v1.0.1"


@dataclass(frozen=True)
class Peer:
    name: str
    what: str
    times_each: bool
    """Whether every operation gets its own time, rather than a share of its batch's time."""
    measure: Callable[[int, int], float | None]
    """Takes the number of operations and of rounds; returns CPU ns per operation. Returns None if the peer is
    missing, or if start-up dominated the operations.

    Raises RuntimeError when the peer fails or does another number of operations than requested.
    """
    missing: Callable[[], str | None]
    """Returns how to install the peer, or None if it is installed."""
    version: Callable[[], str]
    """Returns the version of an installed peer."""


def slope(operations: int, spend: Callable[[int], int], rounds: int) -> float | None:
    """Returns ns per operation. `spend` does a number of operations and returns its CPU time in ns."""
    few = operations // SMALL
    pairs = [(spend(few), spend(operations)) for _ in range(rounds)]
    smalls = [small for small, _ in pairs]
    gap = statistics.median(large - small for small, large in pairs)
    # Small runs are mostly start-up: their differences are not due to operations.
    if gap > 2 * (max(smalls) - min(smalls)):
        return gap / (operations - few)
    return None


def cpu_ns(command: Sequence[str], proof: str) -> int:
    """Runs the command; returns the CPU time of its process and of the children that it waited for.

    `proof`: a regular expression that the output of a successful run matches.
    """
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        # Don't use RUSAGE_CHILDREN: other children of this process may end meanwhile.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if process.returncode or not re.search(proof, text):
        raise RuntimeError(f"{Path(command[0]).name}: exit status {process.returncode}: {text[-500:].strip()}")
    return round((usage.ru_utime + usage.ru_stime) * 1e9)


def loop(call: Callable[[Any], Any], arguments: Sequence[Any]) -> None:
    for argument in arguments:
        call(argument)


def measure_for(operations: int, rounds: int = ROUNDS) -> float | None:
    """The no-op is `callable`: a C function of one argument that checks its type and allocates nothing."""

    def spend(count: int) -> int:
        arguments = [None] * count
        begin = process_time_ns()
        loop(callable, arguments)
        return process_time_ns() - begin

    return slope(operations, spend, rounds)


PYPERF_SCRIPT = 'import pyperf\npyperf.Runner().bench_func("no-op", callable, None)\n'


def missing_pyperf() -> str | None:
    if importlib.util.find_spec("pyperf"):
        return None
    return "pip install pyperf"


def measure_pyperf(operations: int, rounds: int = ROUNDS) -> float | None:
    """One worker, one value, no calibration and no warm-up: the number of loops is the number of operations."""
    if missing_pyperf():
        return None
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "noop.py")
        script.write_text(PYPERF_SCRIPT)
        command = [sys.executable, str(script), "--quiet", "--dump", "--processes=1", "--values=1", "--warmups=0"]
        return slope(operations, lambda count: cpu_ns([*command, f"--loops={count}"], r"1 value, \S+ loops"), rounds)


def missing_sysbench() -> str | None:
    if shutil.which("sysbench"):
        return None
    return "apt-get install sysbench"


def measure_sysbench(operations: int, rounds: int = ROUNDS) -> float | None:
    if missing_sysbench():
        return None

    def spend(count: int) -> int:
        command = ["sysbench", str(script), "--threads=1", f"--events={count}", "--time=0", "run"]
        return cpu_ns(command, rf"total number of events: +{count}\n")

    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "noop.lua")
        script.write_text("function event() end\n")
        return slope(operations, spend, rounds)


def version_sysbench() -> str:
    answer = subprocess.run(["sysbench", "--version"], check=True, capture_output=True, text=True)
    return answer.stdout.split()[-1]


def go_ycsb_binary() -> Path:
    return Path(tempfile.gettempdir(), f"dyno-peers-{os.getuid()}", f"go-ycsb-{GO_YCSB_VERSION}")


def missing_go_ycsb() -> str | None:
    binary = go_ycsb_binary()
    # Never run another user's program: the folder's name is predictable and its parent is writable by all users.
    if binary.is_file() and binary.stat().st_uid == binary.parent.stat().st_uid == os.getuid():
        return None
    build = "python benchmarks/peers.py --go-ycsb (builds it, for a minute or two)"
    if shutil.which("go"):
        return build
    return f"Go 1.18 or later on PATH, then {build}"


def build_go_ycsb() -> Path:
    """Builds go-ycsb where `missing_go_ycsb` looks for it. Raises RuntimeError with the output of go.

    `go install` can't build it: it refuses a module whose go.mod replaces another, like go-ycsb's.
    """
    binary = go_ycsb_binary()
    if missing_go_ycsb() is None:
        return binary
    binary.parent.mkdir(mode=0o700, exist_ok=True)
    if binary.parent.stat().st_uid != os.getuid() or not shutil.which("go"):
        raise RuntimeError(f"it needs go on PATH, and {binary.parent} for itself")
    # CGO_ENABLED=0 avoids the need for a C compiler; the databases in C are off by default anyway.
    environment = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false", "GOWORK": "off"}

    def go(folder: Path, *arguments: str) -> str:
        command = ["go", *arguments]
        done = subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"go {arguments[0]}: {(done.stderr or done.stdout)[-500:].strip()}")
        return done.stdout

    module = json.loads(go(binary.parent, "mod", "download", "-json", f"{GO_YCSB}@{GO_YCSB_VERSION}"))
    unfinished = binary.with_name("unfinished")
    go(Path(module["Dir"]), "build", "-o", str(unfinished), "./cmd/go-ycsb")
    return unfinished.replace(binary)


def measure_go_ycsb(operations: int, rounds: int = ROUNDS) -> float | None:
    """Reads with uniform keys, the cheapest operation of go-ycsb. By default its `basic` database neither prints nor
    waits.
    """
    if missing_go_ycsb():
        return None
    binary = go_ycsb_binary()
    # By default go-ycsb serves its profile on a port; "off" is no valid address and prevents that.
    properties = ["debug.pprof=off", "verbose=false", "basicdb.simulatedelay=0", "recordcount=1000"]
    properties += ["requestdistribution=uniform", "readproportion=1", "updateproportion=0"]

    def spend(count: int) -> int:
        given = [f"--prop={entry}" for entry in (*properties, f"operationcount={count}")]
        return cpu_ns([str(binary), "run", "basic", "--threads=1", *given], rf"READ .*\bCount: {count},")

    return slope(operations, spend, rounds)


BATCH = "Runner.bench_func, which times a batch"
READ = "read of its basic database, choice of the key included"

PEERS: tuple[Peer, ...] = (
    Peer("for", "bare for over a list", False, measure_for, lambda: None, platform.python_version),
    Peer("pyperf", BATCH, False, measure_pyperf, missing_pyperf, lambda: importlib.metadata.version("pyperf")),
    Peer("sysbench", "empty event() in Lua", True, measure_sysbench, missing_sysbench, version_sysbench),
    Peer("go-ycsb", READ, True, measure_go_ycsb, missing_go_ycsb, lambda: GO_YCSB_VERSION),
)


def main() -> int:
    parser = argparse.ArgumentParser(description="What Dyno's peers cost for an operation that does nothing.")
    parser.add_argument("--operations", type=int, default=OPERATIONS, metavar="N", help=f"default: {OPERATIONS}")
    parser.add_argument("--go-ycsb", action="store_true", help=f"build {GO_YCSB} {GO_YCSB_VERSION} if it isn't built")
    options = parser.parse_args()
    if options.operations < LEAST:
        parser.error(f"--operations must be at least {LEAST}")
    failed = False
    if options.go_ycsb:
        try:
            build_go_ycsb()
        except RuntimeError as error:
            failed = True
            print(f"go-ycsb was not built: {error}", file=sys.stderr)
    print(f"{'peer':<10}{'version':<10}{'CPU ns/op':>10}  {'times each':<12}what")
    for peer in PEERS:
        version, figure, note = "", "-", peer.missing()
        if note:
            note = f"missing: {note}"
        else:
            version, note = peer.version(), peer.what
            try:
                each = peer.measure(options.operations, ROUNDS)
                figure = "unknown"
                if each is not None:
                    figure = f"{each:.1f}"
            except RuntimeError as error:
                failed, note = True, f"failed: {error}"
        print(f"{peer.name:<10}{version:<10}{figure:>10}  {'yes' if peer.times_each else 'no':<12}{note}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
