"""VictoriaMetrics, a single node: its data are in its directory, reached by a port of this machine's own.

Its settings are flags: what is said beside them is why. The rest is its default. VictoriaMetrics, Inc.,
VictoriaMetrics documentation, "Single-node version": "List of command-line flags", "Deduplication" and "Retention".
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from dyno.contracts.model import Refused
from dyno.servers import loopback, program_option, user_server
from dyno.servers.process import Process, Served, directory, program

INSTALL = "dyno install victoriametrics"
PROGRAMS = ("victoria-metrics", "victoria-metrics-prod")
READY = "/health"
PREFIX = "DYNO_"
"""Of variables that are flags: one that stood on the command line would be seen by every user of the machine."""
SETTINGS: Mapping[str, str] = {
    # What is older is dropped, without a word: the default is a month.
    "retentionPeriod": "100y",
    # Of samples with one time, one is left: the finest that it tells apart is 1 ms.
    "dedup.minScrapeInterval": "1ms",
    # What reads from this machine gains nothing by compressing.
    "http.disableResponseCompression": "true",
    # Answers of before would be given again.
    "search.disableCache": "true",
    # Its defaults are such that a question about very much is an error: 30 s, and a milliard of samples.
    "search.maxQueryDuration": "10h",
    "search.maxSamplesPerQuery": "1000000000000",
    "search.maxSamplesPerSeries": "1000000000000",
    "loggerLevel": "WARN",
}
# Asked for its version, a program of Debian's says nothing.
KIND = program_option.Kind("VictoriaMetrics server", "is a time series database and monitoring solution", ("-help",))
OURS = ("storageDataPath", "httpListenAddr", "httpAuth.username", "httpAuth.password", "envflag.enable")
"""What is not for others to change: see `VictoriaMetrics`."""


def missing(path: str = "") -> str | None:
    """What is not here, with the command that installs it; None where all is. `path`: of a program of the user's
    choice."""
    if path:
        return KIND.wrong(path)
    return None if program(*PROGRAMS) else user_server.lacking("victoria-metrics", INSTALL)


def packaged(path: str = "") -> str | None:
    """The version of Debian's package: the program that is in it does not tell its own."""
    found = path or program(*PROGRAMS)
    if found is None or shutil.which("dpkg-query") is None:
        return None
    named = subprocess.run(["dpkg-query", "-S", found], capture_output=True, text=True).stdout.partition(":")[0]
    words = ["dpkg-query", "-W", "-f", "${Version}", named]
    return subprocess.run(words, capture_output=True, text=True).stdout.strip() or None if named else None


class VictoriaMetrics(Served):
    """See `dyno.contracts.engine.Server`. `settings` are flags; `path` is that of another program."""

    def __init__(self, home: Path, settings: Mapping[str, str], path: str = "") -> None:
        found = path or program(*PROGRAMS)
        if found is None or missing(path):
            raise Refused(f"{missing(path)}")
        self._home, self.data = home, home / "data"
        self.address = loopback.own(home)
        given = {
            **SETTINGS,
            **settings,
            # Relative to its directory.
            "storageDataPath": "data",
            "httpListenAddr": f"{self.address.host}:{self.address.port}",
            "httpAuth.username": self.address.user,
            "envflag.enable": "true",
            "envflag.prefix": PREFIX,
        }
        self._process = Process(
            [found, *(f"-{name}={value}" for name, value in given.items())],
            home,
            lambda: loopback.says(self.address, READY),
            environment={f"{PREFIX}httpAuth_password": self.address.password},
        )

    def start(self) -> None:
        directory(self._home, None)
        self._process.start()
