"""InfluxDB 1.x: an influxd of its own, whose data are in its directory, reached by a port of this machine's own.

Its settings are a file there: what is said beside them is why. The rest is its default. InfluxData, InfluxDB 1.6
documentation, "Configuration settings" and "Authentication and authorization".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from urllib.parse import urlencode

from dyno.contracts.model import Refused
from dyno.servers import loopback, program_option, user_server
from dyno.servers.process import Process, Served, directory, program

INSTALL = "dyno install influxdb"
CONFIGURATION, READY = "influxdb.conf", "/ping"
SETTINGS: Mapping[str, str] = {
    # It would tell its vendor of each start.
    "reporting-disabled": "true",
    # Of backups: any port, which nobody is told. There is none without.
    "bind-address": '"127.0.0.1:0"',
    "meta.dir": '"meta"',
    "data.dir": '"data"',
    "data.wal-dir": '"wal"',
    # Every query would be a line of its log, and every request.
    "data.query-log-enabled": "false",
    "http.log-enabled": "false",
    # After so long without a write what is in its log goes to its files. The default is 10 minutes, which nobody
    # waits here; until then a start reads it all into memory, and no phase is cold.
    "data.cache-snapshot-write-cold-duration": '"2s"',
    # A batch may be as large as it is asked for.
    "http.max-body-size": "0",
    "http.auth-enabled": "true",
    # It would write its own figures into a database beside the measured one, every 10 s.
    "monitor.store-enabled": "false",
}
KIND = program_option.Kind("InfluxDB server", r"InfluxDB v?(\d[\d.]*)", ("version",), least="1", below="2")
OURS = (
    *("bind-address", "meta.dir", "data.dir", "data.wal-dir", "data.wal-fsync-delay"),
    *("http.bind-address", "http.enabled", "http.auth-enabled", "http.https-enabled"),
)
"""What is not for others to change: see `InfluxDB`."""


def missing(path: str = "") -> str | None:
    """What is not here, with the command that installs it; None where all is. `path`: of a program of the user's
    choice."""
    if path:
        return KIND.wrong(path)
    return None if program("influxd") else user_server.lacking("influxd", INSTALL)


class InfluxDB(Served):
    """See `dyno.contracts.engine.Server`. `settings` are those of influxdb.conf, as 'section.name', with values of
    TOML; `path` is that of another program."""

    def __init__(self, home: Path, settings: Mapping[str, str], path: str = "") -> None:
        found = path or program("influxd")
        if found is None or missing(path):
            raise Refused(f"{missing(path)}")
        self._home, self.data, self.wal = home, home / "data", home / "wal"
        self.address = loopback.own(home)
        self.settings = {**SETTINGS, **settings, "http.bind-address": f'"{self.address.host}:{self.address.port}"'}
        self._process = Process(
            [found, "run", "-config", CONFIGURATION], home, lambda: loopback.says(self.address, READY)
        )

    def start(self) -> None:
        directory(self._home, None)
        new = not (self._home / CONFIGURATION).exists()
        (self._home / CONFIGURATION).write_text("".join(_lines(self.settings)))
        self._process.start()
        if new:
            try:
                self._admit()
            except BaseException:
                self.kill()
                raise

    def _admit(self) -> None:
        """Makes the only user. Until then it does nothing else for anybody."""
        from http.client import HTTPConnection

        made = f"CREATE USER {self.address.user} WITH PASSWORD '{self.address.password}' WITH ALL PRIVILEGES"
        with closing(HTTPConnection(self.address.host, self.address.port, timeout=60)) as client:
            client.request("POST", f"/query?{urlencode({'q': made})}")
            answer = client.getresponse()
            said = answer.read().decode(errors="replace")
        if answer.status != 200 or "error" in said:
            raise Refused(f"influxd made no user: {said.strip()}")


def _lines(settings: Mapping[str, str]) -> Iterator[str]:
    """The file: what is in no section comes first."""
    sections: dict[str, list[str]] = defaultdict(list)
    for name, value in settings.items():
        section, _, key = name.rpartition(".")
        sections[section].append(f"{key} = {value}\n")
    for section in sorted(sections):
        yield f"[{section}]\n" if section else ""
        yield from sections[section]
