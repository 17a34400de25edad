"""MinIO on one directory, reached by a port of this machine's own and by keys of its own.

Its settings are variables of its process: what is said beside them is why. The rest is its default. MinIO, Inc.,
MinIO documentation, "Settings and Configurations".
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dyno.contracts.model import Refused
from dyno.contracts.programs import GoModule, Program
from dyno.servers import loopback, program_option
from dyno.servers.process import Process, Served, directory

VERSION = "20260212"
PROGRAM = Program(
    "minio",
    VERSION,
    GoModule(
        path="github.com/minio/minio",
        version="v0.0.0-20260212201848-7aac2a2c5b7c",
        sum="h1:/qdoYujxF5MBLDMVLeiYJ/7fBa1HikX39Dvzb9Ji8pA=",
        least="1.24",
    ),
)
INSTALL = "dyno install minio"
REGION = "us-east-1"
KIND = program_option.Kind("MinIO server", r"minio version (\S+)")
READY = "/minio/health/ready"
SETTINGS: Mapping[str, str] = {
    # It is this machine's alone.
    "MINIO_BROWSER": "off",
    "MINIO_UPDATE": "off",
    # It looks through all objects at intervals: that would be in some phases, and in others not.
    "MINIO_SCANNER_SPEED": "slowest",
}


def missing(path: str = "") -> str | None:
    """What is not here, and what to do; None where all is. `path`: of a program of the user's choice."""
    if path:
        return KIND.wrong(path)
    return None if program_option.found(PROGRAM) else f"needs minio: {INSTALL}"


class Minio(Served):
    """See `dyno.contracts.engine.Server`. Who asks has the keys of its address: they are in the environment of its
    process, where no other user sees them."""

    region = REGION

    def __init__(self, home: Path, path: str = "") -> None:
        found = path or program_option.verified(PROGRAM)
        if found is None or missing(path):
            raise Refused(f"{missing(path)}")
        self._home, self.data = home, home / "data"
        self.address = loopback.own(home)
        keys = {"MINIO_ROOT_USER": self.address.user, "MINIO_ROOT_PASSWORD": self.address.password}
        listen = ["--address", f"{self.address.host}:{self.address.port}", "--certs-dir", "certs"]
        self._process = Process(
            [found, "server", "--quiet", *listen, "data"],
            home,
            lambda: loopback.says(self.address, READY),
            environment={**SETTINGS, **keys, "MINIO_REGION": REGION},
        )

    def start(self) -> None:
        directory(self._home, None)
        self.data.mkdir(exist_ok=True)
        (self._home / "certs").mkdir(exist_ok=True)
        self._process.start()
