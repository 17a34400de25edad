"""QuestDB: a server of its own in Java, whose data are in its directory, reached by ports of this machine's own.

One port is for HTTP, by which samples come in, and one for PostgreSQL's protocol, by which they are asked for. Its
settings are a file: what is said beside them is why. The rest is its default. QuestDB, QuestDB documentation,
"Configuration" and "Durability and commit modes".
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dyno.contracts.programs import Jar, Program
from dyno.servers import loopback
from dyno.servers.java import InJava
from dyno.servers.process import Process, Served, directory

PROGRAM = Program(
    "questdb",
    "9.3.4",
    Jar(
        group="org.questdb",
        artifact="questdb",
        version="9.3.4",
        sha256="939bc53ab22f93dbaa6545143a6e7c536d4904c07b7f2d381e8eef10436be062",
    ),
)
INSTALL = "dyno install questdb"
PACKAGES = ("default-jre-headless", "maven")
MODULE = "io.questdb/io.questdb.ServerMain"
# As the script that comes with it starts it, but for its log of garbage collections.
JAVA = ("-XX:+UseParallelGC", "-Dnoebug", "-ea")
READY = "/ping"
SETTINGS: Mapping[str, str] = {
    # Nobody asks for these: a second way to its health, its own figures, and InfluxDB's protocol over TCP, which
    # acknowledges nothing.
    "http.min.enabled": "false",
    "line.tcp.enabled": "false",
    "metrics.enabled": "false",
    # It would tell its vendor of itself, and keep a table of what it does.
    "telemetry.enabled": "false",
    "telemetry.disable.completely": "true",
    # Its settings are as they were when it started.
    "config.reload.enabled": "false",
}
OURS = (
    *("http.bind.to", "http.net.bind.to", "http.user", "http.password", "http.enabled"),
    *("pg.net.bind.to", "pg.user", "pg.password", "pg.enabled", "cairo.root", "cairo.commit.mode"),
)
"""What is not for others to change: see `QuestDB`."""
SERVER = InJava("QuestDB", PROGRAM, INSTALL, "Java 17 or later")
missing = SERVER.missing


class QuestDB(Served):
    """See `dyno.contracts.engine.Server`. `settings` are those of server.conf."""

    def __init__(self, home: Path, settings: Mapping[str, str]) -> None:
        jar, java = SERVER.found()
        self._home, self.root = home, home / "questdb"
        self.data = self.root / "db"
        self.address = loopback.own(home)
        self.postgresql = replace(loopback.own(home), password=self.address.password)
        """Where it speaks PostgreSQL's protocol."""
        self.settings = {**SETTINGS, **settings, **self._given()}
        # What of it is not Java is unpacked where temporary files go, and would be left in /tmp.
        words = [
            *JAVA,
            f"-Djava.io.tmpdir={home.absolute() / 'tmp'}",
            "-p",
            str(jar),
            "-m",
            MODULE,
            "-d",
            self.root.name,
        ]
        self._process = Process([java, *words], home, lambda: loopback.says(self.address, READY))

    def _given(self) -> Mapping[str, str]:
        http, pg = self.address, self.postgresql
        return {
            "http.bind.to": f"{http.host}:{http.port}",
            "http.user": http.user,
            "http.password": http.password,
            "pg.net.bind.to": f"{pg.host}:{pg.port}",
            "pg.user": pg.user,
            "pg.password": pg.password,
        }

    def start(self) -> None:
        directory(self._home, None)
        # What one that was killed unpacked.
        shutil.rmtree(self._home / "tmp", ignore_errors=True)
        for part in ("tmp", f"{self.root.name}/conf"):
            (self._home / part).mkdir(parents=True, exist_ok=True)
        lines = [f"{name}={value}\n" for name, value in self.settings.items()]
        (self.root / "conf" / "server.conf").write_text("".join(lines))
        self._process.start()
