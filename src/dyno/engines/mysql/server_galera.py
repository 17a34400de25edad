"""A Galera cluster of MariaDB servers. Each node has all data, and a commit is acknowledged when all nodes have
received and certified it. Each node has its own directory and loopback address.

The data directory is created once and copied, so that no node has to send its whole state to another. A node that was
away receives only the commits that it missed. Sources: MariaDB plc, MariaDB documentation, "Configuring MariaDB
Galera Cluster" and "Galera Cluster Recovery"; Codership, Galera Cluster documentation, "Galera Parameters" and "State
Transfers".
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from uuid import uuid4

from dyno.contracts.model import Refused, Unavailable
from dyno.contracts.safe_read import toml
from dyno.engines.mysql.server_mariadb import MARIADB, SETTINGS, MariaDB
from dyno.servers import loopback, user_server
from dyno.servers.process import OUTPUT, Cluster, Process, as_user, directory

MOST = 9
NODE_SECONDS = 20.0
"""Seconds that a further node may take to start and to catch up."""
PROVIDERS = (Path("/usr/lib/galera/libgalera_smm.so"), Path("/usr/lib64/galera-4/libgalera_smm.so"))
"""Paths of Galera's library in Linux distributions."""
INSTALL = "apt-get install galera-4"
TRANSFER = "dyno"
OURS = ("wsrep-on", "wsrep-provider", "wsrep-provider-options", "wsrep-cluster-name", "wsrep-cluster-address")
"""Settings that users may not change."""
GROUP, STATE = "galera.cnf", "grastate.dat"
SCRIPT = Path(__file__).with_name(f"wsrep_sst_{TRANSFER}.sh")
UNKNOWN = -1
"""The number of the last commit that Galera records for a node that was not stopped."""


def provider() -> Path | None:
    """Returns the path of Galera's library; None if it isn't installed."""
    return next((path for path in PROVIDERS if path.exists()), None)


def explain_missing_library() -> str | None:
    """Returns that Galera's library is missing, with the command that installs it; None if it is installed."""
    if provider():
        return None
    return user_server.missing_program_message("Galera's library", INSTALL)


class Member(MariaDB):
    """A node of the cluster. It joins the others, or bootstraps the group if none of them runs."""

    def __init__(
        self, cluster: Galera, number: int, home: Path, settings: Mapping[str, str], clients: int, path: str
    ) -> None:
        address, (missed,) = cluster.addresses[number], cluster.ports
        listens = {
            "gmcast.listen_addr": f"tcp://{address.host}:{address.port}",
            "ist.recv_addr": f"{address.host}:{missed}",
        }
        ours = toml(SETTINGS)
        options = {**ours["galera-provider"], **listens}
        wsrep = {
            **ours["galera"],
            "wsrep-sst-method": TRANSFER,
            "wsrep-provider": str(provider()),
            "wsrep-provider-options": ";".join(f"{name}={value}" for name, value in options.items()),
            "wsrep-cluster-address": "gcomm://" + ",".join(f"{each.host}:{each.port}" for each in cluster.addresses),
            "wsrep-node-address": f"{address.host}:{address.port}",
            "wsrep-node-name": home.name,
        }
        environment = {"PATH": f"{cluster.programs}{os.pathsep}{os.environ['PATH']}"}
        super().__init__(MARIADB, home, {**settings, **wsrep}, clients, path, environment)
        self._cluster, self._name = cluster, address.password
        # This replaces --no-defaults.
        self.command[1] = f"--defaults-file={home / GROUP}"
        self._base_command = list(self.command)

    # -- its files ------------------------------------------------------------------------------------------

    def initialize(self, group: str) -> None:
        """Creates the data directory with system tables only, and records that the node belongs to the group."""
        directory(self.home, self.user)
        self._create()
        self._write(
            self.data / STATE, f"# GALERA saved state\nversion: 2.1\nuuid: {group}\nseqno: 0\nsafe_to_bootstrap: 0\n"
        )
        self._write_group()
        # Start the server once, because its tables record the group only then. The log is small, so that it is
        # quickly copied; later starts enlarge it.
        self.start("--innodb-log-file-size=10M")
        self.stop()

    def copy(self, first: Member) -> None:
        """Copies the data directory of `first`, which must not run."""
        directory(self.home, self.user)
        words = ["cp", "-a", str(first.data), str(self.data)]
        process = subprocess.run(words, capture_output=True, text=True, **as_user(self.user))
        if process.returncode != 0:
            raise Unavailable(f"can't copy the data directory of a node: {process.stderr.strip()}")
        self._write_group()

    def _write_group(self) -> None:
        # Anybody who knows the name of the group may join it, so it must not be on the command line.
        self._write(self.home / GROUP, f"[mysqld]\nwsrep_cluster_name={self._name}\n")

    def _write(self, path: Path, text: str) -> None:
        path.touch(0o600)
        path.write_text(text)
        if self.user is not None:
            shutil.chown(path, self.user.pw_uid, self.user.pw_gid)

    # -- its place in the group -----------------------------------------------------------------------------

    def position(self) -> tuple[str, int]:
        """Returns the group and the number of this node's last commit."""
        group, number = self._state("uuid"), int(self._state("seqno"))
        if number != UNKNOWN:
            return group, number
        # The node was killed. Read the number from its tables, and record it. Kill the server when it has printed the
        # number: while it ends, MariaDB 10.11 may wait for ever for its own task (1 of 27 recoveries under load).
        log = self.home / OUTPUT
        before = log.stat().st_size

        def match() -> re.Match[bytes] | None:
            with log.open("rb") as file:
                file.seek(before)
                return re.search(rb"Recovered position:? *(\S+):(-?\d+)\s", file.read())

        recovery = Process(
            [*self._base_command, "--wsrep-recover"], self.home, lambda: match() is not None, self.user
        )
        with closing(recovery):
            recovery.start()
        position = match()
        # If the server reports no group, nothing was committed before it was killed.
        number = 0
        if position and position[1].decode() == group:
            number = int(position[2])
        self._state("seqno", str(number))
        return group, number

    def _state(self, name: str, value: str = "") -> str:
        path = self.data / STATE
        text = path.read_text()
        match = re.search(rf"^{name}: *(\S+)$", text, re.MULTILINE)
        if match is None:
            raise Refused(f"Galera's {path} has no {name}")
        if value:
            self._write(path, text[: match.start(1)] + value + text[match.end(1) :])
        return match[1]

    def start(self, *more: str) -> None:
        if not list(self._cluster.pids()):
            # The node with the most commits is started first, so it may bootstrap the group.
            self._state("safe_to_bootstrap", "1")
            self._start("--wsrep-new-cluster", *more)
            return
        try:
            self._start(*more)
        except Refused:
            # A node that fails to join or to receive what it missed ends, and Galera asks for another start.
            self._start(*more)

    def _start(self, *more: str) -> None:
        group, number = self.position()
        self.command[:] = [*self._base_command, f"--wsrep-start-position={group}:{number}", *more]
        super().start()

    def _answers(self) -> bool:
        """Returns whether the node answers and has caught up with the others."""
        return super()._answers() and self.status("wsrep_local_state_comment") == "Synced"

    def status(self, name: str) -> str:
        """Returns the value of a status variable; '' if the server does not answer."""
        import pymysql

        try:
            with closing(pymysql.connect(**self.address)) as client, client.cursor() as cursor:
                cursor.execute(f"SHOW STATUS LIKE '{name}'")
                return str((cursor.fetchone() or ("", ""))[1])
        except pymysql.Error:
            return ""


class Galera(Cluster[Member]):
    """A cluster whose clients connect to the first node."""

    def __init__(self, home: Path, settings: Mapping[str, str], clients: int, path: str, nodes: int) -> None:
        self.addresses, self.ports = loopback.cluster(home, nodes, 1)
        self.programs = home / "bin"
        names = [f"node_{number + 1}" for number in range(nodes)]
        super().__init__(
            [Member(self, number, home / name, settings, clients, path) for number, name in enumerate(names)]
        )
        self.address, self.data = self.nodes[0].address, self.nodes[0].data
        self.copies, self.survives = nodes, True
        if nodes == 2:
            self.halts = "with one of two nodes gone the other is no majority, and answers nobody: say nodes=3"

    def start(self) -> None:
        first, *others = self.nodes
        if not first.data.exists():
            self.programs.mkdir(parents=True, exist_ok=True)
            script = self.programs / f"wsrep_sst_{TRANSFER}"
            shutil.copyfile(SCRIPT, script)
            script.chmod(0o755)
            first.initialize(str(uuid4()))
            for node in others:
                node.copy(first)
        super().start()

    def starting_order(self) -> Sequence[Member]:
        """Returns the node with the most commits first, which bootstraps the group."""
        if list(self.pids()):
            return self.nodes
        return sorted(self.nodes, key=lambda node: node.position(), reverse=True)
