"""What machines reach together, as a share of the sum of what each reaches alone.

    python benchmarks/machines.py [--machines N] [--clients N] [--seconds S] [--turns N]

Starts a scheduler of Dask and a worker at each of several addresses of this machine, and loads PostgreSQL from them
by `dyno run sql`: first from each alone, then from all. The query sleeps for 5 ms in the server, so that the clients
and not the processors are the limit: machines that share processors can't add up otherwise.

Exit status 1: all together reach less than 95 % of the sum, in the median of the turns.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from dyno import results
from dyno.registry import engine

LEAST = 0.95
HERE = "127.0.0.1"
QUERY = "SELECT 1 FROM pg_sleep(0.005)"
PATIENCE = 60.0
NOTHING_HERE = 3


def main() -> int:
    parser = argparse.ArgumentParser(description="What machines reach together and alone.")
    parser.add_argument("--machines", type=int, default=4, metavar="N")
    parser.add_argument("--clients", type=int, default=4, metavar="N", help="clients of each machine")
    parser.add_argument("--seconds", type=float, default=5.0, metavar="S")
    parser.add_argument("--turns", type=int, default=3, metavar="N")
    options = parser.parse_args()
    if lacking := engine("postgresql").explain_unavailability() or engine("dask").explain_unavailability():
        print(f"postgresql or dask {lacking}")
        return NOTHING_HERE
    hosts = [f"127.0.0.{2 + at}" for at in range(options.machines)]
    shares = []
    with tempfile.TemporaryDirectory(dir="/var/tmp") as home:
        for turn in range(options.turns):
            alone = 0.0
            for host in hosts:
                with cluster([host], Path(home)) as address:
                    alone += rate(address, options.clients, options.seconds, Path(home))
            with cluster(hosts, Path(home)) as address:
                together = rate(address, options.clients * len(hosts), options.seconds, Path(home))
            shares.append(together / alone)
            print(f"turn {turn + 1}: {alone:,.0f}/s in sum, {together:,.0f}/s together: {shares[-1]:.3f}", flush=True)
    print(f"{options.machines} machines together reach {median(shares):.1%} of the sum")
    return 0 if median(shares) >= LEAST else 1


@contextmanager
def cluster(hosts: Sequence[str], home: Path) -> Iterator[str]:
    """A scheduler with a worker at each of these addresses; yields its address."""
    with socket.socket() as free:
        free.bind((HERE, 0))
        port = free.getsockname()[1]
    address = f"tcp://{HERE}:{port}"
    started = [start(["scheduler", "--host", HERE, "--port", str(port), "--no-show"], home)]
    try:
        wait_for(home / "scheduler.log", "Scheduler at", started)
        for host in hosts:
            words = ["worker", address, "--host", host, "--name", host, "--no-nanny", "--nthreads", "2"]
            started.append(start(words, home))
            wait_for(home / f"{host}.log", "Registered to", started)
        yield address
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()


def start(words: Sequence[str], home: Path) -> subprocess.Popen[bytes]:
    name = words[words.index("--name") + 1] if "--name" in words else words[0]
    module, *rest = words
    with (home / f"{name}.log").open("wb") as log:
        command = [sys.executable, "-m", f"distributed.cli.dask_{module}", *rest, "--no-dashboard"]
        return subprocess.Popen(command, cwd=home, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def wait_for(log: Path, text: str, started: Sequence[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + PATIENCE
    while text not in log.read_text(errors="replace"):
        if time.monotonic() > deadline or any(process.poll() is not None for process in started):
            sys.exit(f"Dask did not start: {log.read_text(errors='replace')[-500:]}")
        time.sleep(0.05)


def rate(address: str, clients: int, seconds: float, home: Path) -> float:
    """Returns the queries per second that these clients reach on the machines of the scheduler."""
    path = home / "r.json"
    words = ["run", "sql", "-e", f"postgresql:listen={HERE}", "-q", QUERY, "--clients", str(clients)]
    words += ["--duration", str(seconds), "--samples", "1", "--load-from", address, "--plain-tcp"]
    ended = subprocess.run(
        [sys.executable, "-m", "dyno", *words, "-o", str(path), "--overwrite"], capture_output=True, text=True
    )
    samples = (
        [sample for attempt in results.load(path).attempts for sample in attempt.samples] if path.exists() else []
    )
    if not samples or ended.returncode:
        sys.exit(f"dyno run failed: {ended.stdout}{ended.stderr}")
    (sample,) = samples
    return sample.operations / sample.elapsed_ns * 1e9


if __name__ == "__main__":
    sys.exit(main())
