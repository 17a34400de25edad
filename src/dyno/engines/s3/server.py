"""MinIO and versitygw, S3 servers that Dyno starts on a directory.

Dyno's server listens on a local port. Only Dyno has the access keys, which are in the environment of the server's
process, where other users can't see them. Comments say why a setting differs from the default. Sources: MinIO, Inc.,
MinIO documentation, "Settings and Configurations"; Versity Software, Inc., versitygw documentation, "POSIX backend"
and "Global options".
"""

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from dyno.contracts.programs import GoModule, Program
from dyno.engines.s3 import buckets
from dyno.engines.s3.engine_nginx import Throttle
from dyno.servers import loopback
from dyno.servers.process import Process
from dyno.servers.program_option import ServerProgram

MINIO_PROGRAM = Program(
    "minio",
    "20260212",
    GoModule(
        path="github.com/minio/minio",
        version="v0.0.0-20260212201848-7aac2a2c5b7c",
        sum="h1:/qdoYujxF5MBLDMVLeiYJ/7fBa1HikX39Dvzb9Ji8pA=",
        least="1.24",
    ),
)
VERSITYGW_PROGRAM = Program(
    "versitygw",
    "1.8.0",
    GoModule(
        path="github.com/versity/versitygw",
        version="v1.8.0",
        sum="h1:au+wI+aybno/STsQiSm35Uu6Q6iK5MWReQxgO6SEMFc=",
        package="./cmd/versitygw",
        least="1.25",
    ),
)


def _program(title: str, pattern: str, pinned: Program) -> ServerProgram:
    return ServerProgram(
        title, pattern, names=(pinned.name,), install=f"dyno install {pinned.name}", pinned=pinned, only_own=True
    )


class S3Server(Process):
    """An S3 server on the directory `data`. Its access keys are the user and password of `address`."""

    server: ServerProgram
    flushes: str
    """What the server flushes before it acknowledges a write."""
    ready: str
    """Path of the health check in the server's URL."""
    region = buckets.REGION

    def __init__(self, home: Path, path: str = "", throttle: int = 0) -> None:
        self.data, self.address = home / "data", loopback.own(home)
        self._listens = self.address
        self._front = Throttle(home.with_name("throttle"), throttle, self._listens) if throttle else None
        if self._front is not None:
            self.address = replace(self.address, port=self._front.address.port)
        super().__init__(
            [self.server.executable(path)],
            home,
            lambda: loopback.says(self._listens, self.ready),
            environment=self.environment(),
        )

    def environment(self) -> dict[str, str]:
        raise NotImplementedError

    def arguments(self) -> list[str]:
        """Returns the program's arguments. The data directory must exist."""
        raise NotImplementedError

    def prepare(self) -> None:
        self.data.mkdir(exist_ok=True)
        self.command[1:] = self.arguments()

    def start(self) -> None:
        super().start()
        if self._front is not None:
            self._front.start()

    def kill(self) -> None:
        if self._front is not None:
            self._front.kill()
        super().kill()

    def pids(self) -> Iterable[int]:
        return (*super().pids(), *(self._front.pids() if self._front is not None else ()))


class Minio(S3Server):
    """MinIO. It flushes the content of an object, but not its name, so it does not provide tier `power`."""

    flushes = "contents"
    ready = "/minio/health/ready"
    server = _program("MinIO server", r"minio version (\S+)", MINIO_PROGRAM)

    def environment(self) -> dict[str, str]:
        return {
            "MINIO_ROOT_USER": self.address.user,
            "MINIO_ROOT_PASSWORD": self.address.password,
            "MINIO_REGION": self.region,
            # Nobody uses the web interface.
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
            # By default MinIO scans all objects at intervals, which would affect some phases and not others.
            "MINIO_SCANNER_SPEED": "slowest",
        }

    def arguments(self) -> list[str]:
        (self.home / "certs").mkdir(exist_ok=True)
        listen = ["--address", f"{self._listens.host}:{self._listens.port}", "--certs-dir", "certs"]
        return ["server", "--quiet", *listen, "data"]


class Versitygw(S3Server):
    """versitygw. It never flushes; an acknowledged object is in a file with its final name. The object's metadata is
    in extended attributes of the file, or in a separate directory if the file system has no extended attributes."""

    flushes = "none"
    ready = "/health"
    server = _program("versitygw server", r"Version\s*: (\S+)", VERSITYGW_PROGRAM)

    def environment(self) -> dict[str, str]:
        return {"ROOT_ACCESS_KEY": self.address.user, "ROOT_SECRET_KEY": self.address.password}

    def arguments(self) -> list[str]:
        # By default, versitygw closes the connection after each request.
        arguments = ["--quiet", "--keep-alive", "--health", self.ready, "--region", self.region]
        arguments += ["--port", f"{self._listens.host}:{self._listens.port}", "posix"]
        try:
            os.setxattr(self.data, "user.dyno", b"1")
            os.removexattr(self.data, "user.dyno")
        except OSError:
            (self.home / "beside").mkdir(exist_ok=True)
            arguments += ["--sidecar", "beside"]
        return [*arguments, "data"]
