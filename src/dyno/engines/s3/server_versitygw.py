"""Versity S3 Gateway over a directory of files, reached by a port of this machine's own and by keys of its own.

An object is a file, and what S3 says of it is in the file's extended attributes, or beside it where the file system
has none. Versity Software, Inc., versitygw documentation, "POSIX backend" and "Global options".
"""

from __future__ import annotations

import os
from pathlib import Path

from dyno.contracts.model import Refused
from dyno.contracts.programs import GoModule, Program
from dyno.servers import loopback, program_option
from dyno.servers.process import Process, Served, directory

VERSION = "1.8.0"
PROGRAM = Program(
    "versitygw",
    VERSION,
    GoModule(
        path="github.com/versity/versitygw",
        version=f"v{VERSION}",
        sum="h1:au+wI+aybno/STsQiSm35Uu6Q6iK5MWReQxgO6SEMFc=",
        package="./cmd/versitygw",
        least="1.25",
    ),
)
INSTALL = "dyno install versitygw"
REGION = "us-east-1"
KIND = program_option.Kind("versitygw server", r"Version\s*: (\S+)")
READY = "/health"
ATTRIBUTE = "user.dyno"


def missing(path: str = "") -> str | None:
    """What is not here, and what to do; None where all is. `path`: of a program of the user's choice."""
    if path:
        return KIND.wrong(path)
    return None if program_option.found(PROGRAM) else f"needs versitygw {VERSION}: {INSTALL}"


class Versity(Served):
    """See `dyno.contracts.engine.Server`. Who asks has the keys of its address: they are in the environment of its
    process, where no other user sees them."""

    region = REGION

    def __init__(self, home: Path, path: str = "") -> None:
        found = path or program_option.verified(PROGRAM)
        if found is None or missing(path):
            raise Refused(f"{missing(path)}")
        self._home, self.data, self._beside = home, home / "data", home / "beside"
        self.address = loopback.own(home)
        self._words = [found, "--port", f"{self.address.host}:{self.address.port}", "--region", REGION, "--quiet"]
        # Its default is a connection for each request.
        self._words += ["--keep-alive", "--health", READY, "posix"]
        self._process = self._made()

    def _made(self, *words: str) -> Process:
        return Process(
            [*self._words, *words, "data"],
            self._home,
            lambda: loopback.says(self.address, READY),
            environment={
                "ROOT_ACCESS_KEY": self.address.user,
                "ROOT_SECRET_KEY": self.address.password,
            },
        )

    def start(self) -> None:
        directory(self._home, None)
        self.data.mkdir(exist_ok=True)
        if not _keeps_attributes(self.data):
            self._beside.mkdir(exist_ok=True)
            self._process = self._made("--sidecar", "beside")
        self._process.start()


def _keeps_attributes(data: Path) -> bool:
    """Whether files in it may have attributes of a user's."""
    try:
        os.setxattr(data, ATTRIBUTE, b"1")
        os.removexattr(data, ATTRIBUTE)
    except OSError:
        return False
    return True
