"""A QuestDB server, in Java, that Dyno starts. It has its data in its directory and listens on ports of this machine
alone.

One port is for HTTP, through which samples are written, and one for PostgreSQL's protocol, through which they are
queried. The server reads its settings from a file. Settings that this module doesn't set have their defaults. Source:
QuestDB, QuestDB documentation, "Configuration" and "Durability and commit modes".
"""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dyno.contracts.programs import Jar, Program
from dyno.servers import loopback
from dyno.servers.process import Process, directory
from dyno.servers.program_option import JavaProgram

PROGRAM = JavaProgram(
    "QuestDB",
    Program(
        "questdb",
        "9.3.4",
        Jar(
            group="org.questdb",
            artifact="questdb",
            version="9.3.4",
            sha256="939bc53ab22f93dbaa6545143a6e7c536d4904c07b7f2d381e8eef10436be062",
        ),
    ),
    "dyno install questdb",
    "Java 17 or later",
)
MODULE = "io.questdb/io.questdb.ServerMain"
# The flags of QuestDB's own start script, except the log of garbage collections.
JAVA = ("-XX:+UseParallelGC", "-Dnoebug", "-ea")
SETTINGS: Mapping[str, str] = {
    # Switch off what is not used: a second port for health checks, QuestDB's own metrics, and InfluxDB's protocol
    # over TCP, which has no acknowledgements.
    "http.min.enabled": "false",
    "line.tcp.enabled": "false",
    "metrics.enabled": "false",
    # By default the server reports to its vendor, and keeps a table of what it does.
    "telemetry.enabled": "false",
    "telemetry.disable.completely": "true",
    # Settings don't change while the server runs.
    "config.reload.enabled": "false",
}
OURS = (
    *("http.bind.to", "http.net.bind.to", "http.user", "http.password", "http.enabled"),
    *("pg.net.bind.to", "pg.user", "pg.password", "pg.enabled", "cairo.root", "cairo.commit.mode"),
)
"""Settings that users may not change."""


class QuestDB(Process):
    """See `dyno.contracts.engine.Server`. `settings` go into server.conf."""

    def __init__(self, home: Path, settings: Mapping[str, str]) -> None:
        jar, java = PROGRAM.paths()
        self.root = home / "questdb"
        self.data = self.root / "db"
        self.address = loopback.own(home)
        self.postgresql = replace(loopback.own(home), password=self.address.password)
        """The address of PostgreSQL's protocol."""
        http, pg = self.address, self.postgresql
        self.settings = {
            **SETTINGS,
            **settings,
            "http.bind.to": f"{http.host}:{http.port}",
            "http.user": http.user,
            "http.password": http.password,
            "pg.net.bind.to": f"{pg.host}:{pg.port}",
            "pg.user": pg.user,
            "pg.password": pg.password,
        }
        # QuestDB unpacks native libraries into the temporary directory. It would leave them in /tmp.
        words = [*JAVA, f"-Djava.io.tmpdir={home.absolute() / 'tmp'}", "-p", str(jar), "-m", MODULE]
        super().__init__([java, *words, "-d", self.root.name], home, lambda: loopback.says(self.address, "/ping"))

    def start(self) -> None:
        directory(self.home)
        # Remove libraries that a killed server unpacked.
        shutil.rmtree(self.home / "tmp", ignore_errors=True)
        for part in ("tmp", f"{self.root.name}/conf"):
            (self.home / part).mkdir(parents=True, exist_ok=True)
        lines = [f"{name}={value}\n" for name, value in self.settings.items()]
        (self.root / "conf" / "server.conf").write_text("".join(lines))
        super().start()
