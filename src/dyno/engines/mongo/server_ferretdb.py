"""FerretDB 1.24 over its SQLite backend, reached by a socket in its directory, that nobody else may enter.

One database of FerretDB's is one file of SQLite's. How SQLite writes it is said in the address of the directory, as
pragmas of every connection; without them, FerretDB 1.24 has journal_mode=wal and SQLite's own synchronous=full.
FerretDB Inc., FerretDB 1.24 documentation, "Configuration flags", and its `internal/backends/sqlite`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from socket import AF_UNIX
from socket import socket as Socket

from dyno.contracts.model import Refused
from dyno.contracts.programs import GoModule, Program
from dyno.engines.mongo.server_mongo import socket_address
from dyno.servers import program_option, user_server
from dyno.servers.process import Process, Served, directory, socket

PROGRAM = Program(
    "ferretdb",
    "1.24.0",
    GoModule(
        path="github.com/FerretDB/FerretDB",
        version="v1.24.0",
        sum="h1:7WJmezL48Bj9bYWnhT/bEJgX5gjT5s7LFdHTqkN25rA=",
        package="./cmd/ferretdb",
        least="1.22",
        # A checkout has these written by its build; without a version in them the program does not start.
        files={
            "build/version/version.txt": "v1.24.0",
            **{f"build/version/{name}.txt": "unknown" for name in ("commit", "branch", "package")},
        },
    ),
)
INSTALL = "dyno install ferretdb"
# Version 2 has no SQLite beneath it.
KIND = program_option.Kind("FerretDB server", r"version: v(\d[\d.]*)", least="1.24", below="2")
BUSY_MS = 10_000
"""How long a connection waits for another's write lock: FerretDB's own default."""


def missing(path: str = "") -> str | None:
    """What is not here, and what to do; None where all is. `path`: of a program of the user's choice."""
    if path:
        return KIND.wrong(path)
    return None if program_option.found(PROGRAM) else user_server.lacking(f"FerretDB {PROGRAM.version}", INSTALL)


class FerretDB(Served):
    """See `dyno.contracts.engine.Server`. `pragmas` are SQLite's, of every connection; `path` is that of another
    program."""

    def __init__(self, home: Path, pragmas: Mapping[str, str], path: str = "") -> None:
        found = path or program_option.verified(PROGRAM)
        if found is None or missing(path):
            raise Refused(f"{missing(path)}")
        self._home, self.data = home, home / "data"
        self.path = socket(home / "ferretdb.sock")
        # The wait for a lock comes first: changing the journal mode takes one.
        every = {"busy_timeout": str(BUSY_MS), **pragmas}
        query = "&".join(f"_pragma={name}({value})" for name, value in every.items())
        self._process = Process(
            [
                found,
                "--handler=sqlite",
                # Paths are relative to its directory: an address has characters that a path may not have.
                f"--sqlite-url=file:data/?{query}",
                "--listen-addr=",
                f"--listen-unix={self.path}",
                "--state-dir=.",
                "--telemetry=disable",
                "--debug-addr=-",
                "--log-level=WARN",
            ],
            home,
            self._answers,
        )

    @property
    def address(self) -> str:
        """How its client library reaches it."""
        return socket_address(self.path)

    def start(self) -> None:
        directory(self._home, None)
        self.data.mkdir(exist_ok=True)
        # That of a server which was killed is still there, and can't be listened on again.
        self.path.unlink(missing_ok=True)
        self._process.start()

    def _answers(self) -> bool:
        with suppress(OSError), closing(Socket(AF_UNIX)) as probe:
            probe.connect(str(self.path))
            return True
        return False
