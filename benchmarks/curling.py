"""Times of `dyno http` beside those of `curl -w` for the same requests, in turns.

    python benchmarks/curling.py [--turns N]

Of a server here: nginx with TLS and HTTP/2; a redirect and what it leads to; and, through nginx, one that answers
after 20 ms. Each time is in ms: dyno's median and curl's, and the median of the differences of each turn. The last
figure is what is in no stage of a request. Each request has a process and a connection of its own.

Exit status: 0; 1 where a median difference is over 2 ms, or stages do not add up; 3 if curl or nginx is missing.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median

from dyno.engines.s3 import engine_nginx

NAMES = {
    "namelookup_time": "time_namelookup",
    "connect_time": "time_connect",
    "appconnect_time": "time_appconnect",
    "starttransfer_time": "time_starttransfer",
    "total_time": "time_total",
}
FORMAT = json.dumps({name: f"%{{{name}}}" for name in NAMES.values()})
MOST_MS, SLOW_SECONDS = 2.0, 0.02
REDIRECT = "location /redirected {{ return 302 /0; }} location /slow {{ proxy_pass http://127.0.0.1:{port}; }}"


class Slow(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        time.sleep(SLOW_SECONDS)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *arguments: object) -> None:
        pass


class Leading(engine_nginx.Nginx):
    """nginx with a redirect and a proxy to the slow server."""

    port = 0

    def _site(self) -> str:
        head, rest = super()._site().rsplit("root ", 1)
        return f"{head}{REDIRECT.format(port=self.port)}\n        root {rest}"


@contextmanager
def served() -> Iterator[engine_nginx.Nginx]:
    slow = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=slow.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="curling-") as place:
        Path(place).chmod(0o755)
        server = Leading(Path(place) / "server", True, 1)
        server.port = slow.server_address[1]
        with closing(server):
            server.start()
            (server.root / "0").write_bytes(bytes(1_000))
            yield server
    slow.shutdown()


def dyno(words: list[str]) -> dict[str, object]:
    output = subprocess.run(
        [sys.executable, "-m", "dyno", "http", *words], capture_output=True, text=True, check=True
    )
    return json.loads(output.stdout)


def curl(words: list[str]) -> dict[str, float]:
    options = ["curl", "-s", "-o", "/dev/null", "-w", FORMAT, *words]
    output = json.loads(subprocess.run(options, capture_output=True, text=True, check=True).stdout)
    return {name: float(value) for name, value in output.items()}


def pair(words: list[str]) -> tuple[dict[str, object], dict[str, float]]:
    """Runs both tools in random order."""
    if random.random() < 0.5:
        return dyno(words), curl(words)
    other = curl(words)
    return dyno(words), other


def left_over(record: dict[str, object]) -> float:
    """Seconds of a request that are in none of its stages."""
    stages = record["stages"]
    assert isinstance(stages, dict)
    return abs(sum(value or 0.0 for value in stages.values()) - float(str(record["total_time"])))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=50)
    turns = parser.parse_args().turns
    if shutil.which("curl") is None or engine_nginx.explain_unavailability(tls=True):
        print("curl or nginx is not here")
        return 3
    bad = False
    with served() as server:
        own = ["--cacert", str(server.certificate), "--http2", "-L"]
        for path in ("0", "redirected", "slow"):
            words = [*own, f"{server.address.url}/{path}"]
            pairs = [pair(words) for _ in range(turns)]
            print(f"{path}, {turns} turns")
            for ours, theirs in NAMES.items():
                both = [(1e3 * float(str(a[ours])), 1e3 * b[theirs]) for a, b in pairs]
                apart = median(mine - other for mine, other in both)
                bad |= abs(apart) > MOST_MS
                mine, other = (median(column) for column in zip(*both, strict=True))
                print(f"  {ours:<20}{mine:9.3f}{other:9.3f}{apart:+9.3f}")
            left = max(left_over(record) for record, _ in pairs)
            bad |= left > 1e-6
            print(f"  in no stage, at most {left * 1e6:.1f} µs")
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
