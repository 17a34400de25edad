"""A FerretDB 1.24 server with its SQLite backend that Dyno starts. It listens on a socket in its directory, which no
other user may enter.

Each database is one SQLite file. The URL of the directory has pragmas for every connection; without them, FerretDB
1.24 has journal_mode=wal and SQLite's default synchronous=full. Source: FerretDB Inc., FerretDB 1.24 documentation,
"Configuration flags", and its `internal/backends/sqlite`.
"""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from dyno.contracts.programs import GoModule, Program
from dyno.servers import program_option
from dyno.servers.process import Process, accepts, directory, socket

PINNED = Program(
    "ferretdb",
    "1.24.0",
    GoModule(
        path="github.com/FerretDB/FerretDB",
        version="v1.24.0",
        sum="h1:7WJmezL48Bj9bYWnhT/bEJgX5gjT5s7LFdHTqkN25rA=",
        package="./cmd/ferretdb",
        least="1.22",
        # FerretDB's own build writes these files. Without a version, the program does not start.
        files={
            "build/version/version.txt": "v1.24.0",
            **{f"build/version/{name}.txt": "unknown" for name in ("commit", "branch", "package")},
        },
    ),
)
BUSY_MS = 10_000
"""Milliseconds that a connection waits for another connection's write lock: FerretDB's default."""
PROGRAM = program_option.ServerProgram(
    "FerretDB server",
    r"version: v(\d[\d.]*)",
    least="1.24",
    # Version 2 has no SQLite backend.
    below="2",
    names=("ferretdb",),
    install="dyno install ferretdb",
    needed=f"FerretDB {PINNED.version}",
    pinned=PINNED,
)


class FerretDB(Process):
    """See `dyno.contracts.engine.Server`. `pragmas` are SQLite pragmas for every connection; `path` is the user's
    program."""

    def __init__(self, home: Path, pragmas: Mapping[str, str], path: str = "") -> None:
        self.data = home / "data"
        self.path = socket(home / "ferretdb.sock")
        self.address = f"mongodb://{quote(str(self.path), safe='')}/?directConnection=true"
        # The busy timeout comes first, because changing the journal mode takes a lock.
        every = {"busy_timeout": str(BUSY_MS), **pragmas}
        query = "&".join(f"_pragma={name}({value})" for name, value in every.items())
        words = [
            "--handler=sqlite",
            # Use a relative path, because an absolute one may have characters that a URL can't contain.
            f"--sqlite-url=file:data/?{query}",
            "--listen-addr=",
            f"--listen-unix={self.path}",
            "--state-dir=.",
            "--telemetry=disable",
            "--debug-addr=-",
            "--log-level=WARN",
        ]
        super().__init__([PROGRAM.executable(path), *words], home, lambda: accepts(self.path))

    def start(self) -> None:
        directory(self.home)
        self.data.mkdir(exist_ok=True)
        # A killed server leaves its socket, on which a new one can't listen.
        self.path.unlink(missing_ok=True)
        super().start()
