"""A server that is written in Java: jars of Dyno's cache, and the machine's own Java to run them.

Which server it is may not be put here.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from dyno.contracts.model import Refused
from dyno.contracts.programs import Program
from dyno.servers import user_server


class InJava(NamedTuple):
    title: str
    """'QuestDB'."""
    program: Program
    install: str
    """The command that gets all of it."""
    java: str = "Java 17"
    """What can run it."""

    def missing(self) -> str | None:
        """What is not here, with the command that installs it; None where all is."""
        if self.program.path() is None:
            return user_server.lacking(f"{self.title} {self.program.version}", self.install)
        return None if shutil.which("java") else user_server.lacking(self.java, self.install)

    def found(self) -> tuple[Path, str]:
        """Where the jars are, and java. Raises Refused, also for jars that are not what was installed."""
        jars, java = self.program.path(), shutil.which("java")
        if jars is None or java is None:
            raise Refused(f"{self.missing()}")
        from dyno.servers.verify_program import verify

        verify(self.program, jars)
        return jars, java
