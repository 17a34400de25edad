"""An InfluxDB 1.x server that Dyno starts. It has its data in its directory and listens on a port of this machine
alone.

The server reads its settings from a file in its directory. Settings that this module doesn't set have their defaults.
Source: InfluxData, InfluxDB 1.6 documentation, "Configuration settings" and "Authentication and authorization".
"""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from urllib.parse import urlencode

from dyno.contracts.cleanup import undo_on_error
from dyno.contracts.model import Refused
from dyno.servers import loopback, program_option
from dyno.servers.process import Process, directory

CONFIGURATION, READY = "influxdb.conf", "/ping"
SETTINGS: Mapping[str, str] = {
    # By default the server reports each start to its vendor.
    "reporting-disabled": "true",
    # The port for backups can't be switched off, so use a random one.
    "bind-address": '"127.0.0.1:0"',
    "meta.dir": '"meta"',
    "data.dir": '"data"',
    "data.wal-dir": '"wal"',
    # Otherwise the log would have a line for every query and every request.
    "data.query-log-enabled": "false",
    "http.log-enabled": "false",
    # Write the log to the data files after 2 s without a write, instead of 10 minutes. Until then, a server that
    # starts reads the whole log into memory, so that no phase is cold.
    "data.cache-snapshot-write-cold-duration": '"2s"',
    # Don't limit the size of a batch.
    "http.max-body-size": "0",
    "http.auth-enabled": "true",
    # By default the server writes its own metrics into another database every 10 s.
    "monitor.store-enabled": "false",
}
PROGRAM = program_option.ServerProgram(
    "InfluxDB server",
    r"InfluxDB v?(\d[\d.]*)",
    ("version",),
    least="1",
    below="2",
    names=("influxd",),
    install="dyno install influxdb",
)
OURS = (
    *("bind-address", "meta.dir", "data.dir", "data.wal-dir", "data.wal-fsync-delay"),
    *("http.bind-address", "http.enabled", "http.auth-enabled", "http.https-enabled"),
)
"""Settings that users may not change."""


class InfluxDB(Process):
    """See `dyno.contracts.engine.Server`. `settings` go into influxdb.conf: names are 'section.name', values are
    TOML. `path` is the user's program."""

    def __init__(self, home: Path, settings: Mapping[str, str], path: str = "") -> None:
        self.data, self.wal = home / "data", home / "wal"
        self.address = loopback.own(home)
        self.settings = {**SETTINGS, **settings, "http.bind-address": f'"{self.address.host}:{self.address.port}"'}
        words = [PROGRAM.executable(path), "run", "-config", CONFIGURATION]
        super().__init__(words, home, lambda: loopback.says(self.address, READY))

    def start(self) -> None:
        directory(self.home)
        new = not (self.home / CONFIGURATION).exists()
        # Settings without a section are the first.
        sections: dict[str, str] = {"": ""}
        for name, value in sorted(self.settings.items()):
            section, _, key = name.rpartition(".")
            sections[section] = sections.get(section, f"[{section}]\n") + f"{key} = {value}\n"
        (self.home / CONFIGURATION).write_text("".join(sections.values()))
        super().start()
        if new:
            with undo_on_error(self.kill):
                self._create_user()

    def _create_user(self) -> None:
        """Creates the only user. Until then, the server refuses all other requests."""
        from http.client import HTTPConnection

        query = f"CREATE USER {self.address.user} WITH PASSWORD '{self.address.password}' WITH ALL PRIVILEGES"
        with closing(HTTPConnection(self.address.host, self.address.port, timeout=60)) as client:
            client.request("POST", f"/query?{urlencode({'q': query})}")
            response = client.getresponse()
            text = response.read().decode(errors="replace")
        if response.status != 200 or "error" in text:
            raise Refused(f"influxd made no user: {text.strip()}")
