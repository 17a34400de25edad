"""A VictoriaMetrics server, a single node, that Dyno starts. It has its data in its directory and listens on a port
of this machine alone.

Its settings are flags. Flags that this module doesn't set have their defaults. Source: VictoriaMetrics, Inc.,
VictoriaMetrics documentation, "Single-node version": "List of command-line flags", "Deduplication" and "Retention".
"""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from dyno.servers import loopback, program_option
from dyno.servers.process import Process, directory

PREFIX = "DYNO_"
"""Prefix of environment variables that the server reads as flags. The password is one, because every user of the
machine can read the command line."""
SETTINGS: Mapping[str, str] = {
    # The server silently drops older samples. The default is a month.
    "retentionPeriod": "100y",
    # Keep one of several samples with the same time. 1 ms is the finest resolution.
    "dedup.minScrapeInterval": "1ms",
    # Clients on this machine gain nothing from compression.
    "http.disableResponseCompression": "true",
    # A cache would repeat earlier answers.
    "search.disableCache": "true",
    # With the defaults, 30 s and 10^9 samples, a query for all samples may fail.
    "search.maxQueryDuration": "10h",
    "search.maxSamplesPerQuery": "1000000000000",
    "search.maxSamplesPerSeries": "1000000000000",
    "loggerLevel": "WARN",
}
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
    return subprocess.run(words, capture_output=True, text=True).stdout.strip() or None if owner else None


class VictoriaMetrics(Process):
    """See `dyno.contracts.engine.Server`. `settings` are flags; `path` is the user's program."""

    def __init__(self, home: Path, settings: Mapping[str, str], path: str = "") -> None:
        self.data = home / "data"
        self.address = loopback.own(home)
        flags = {
            **SETTINGS,
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

    def start(self) -> None:
        directory(self.home)
        super().start()
