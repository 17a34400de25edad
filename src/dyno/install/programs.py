"""Builds a pinned program with Go, or fetches one for Java with Maven, into the cache. All other downloads and build
results are deleted."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from dyno.contracts.model import Refused
from dyno.contracts.programs import GoModule, Jar, Jars, Program
from dyno.install.tools import InstallError, new_directory, run
from dyno.servers.verify_program import forget, sha256, verify

COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
_PROJECT = """<project><modelVersion>4.0.0</modelVersion>
<groupId>dyno</groupId><artifactId>program</artifactId><version>1</version>
<dependencies>{}</dependencies></project>
"""
_NO_DEPENDENCIES = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


def install(program: Program, say: Callable[[str], None]) -> str:
    """Installs the program, unless the cache has it intact. Returns a text that says what was done; empty if nothing
    was. Raises InstallError."""
    if (path := program.path()) is not None:
        try:
            verify(program, path)
            return ""
        except Refused as why:
            say(str(why))
    forget(program)
    source = program.source
    builds = isinstance(source, GoModule)
    say(f"{'building' if builds else 'fetching'} {program.name} {program.version}")
    with new_directory(program.home) as into:
        # Don't work in /tmp, which may be memory.
        work = into / "work"
        work.mkdir()
        if isinstance(source, GoModule):
            _build(program, source, into, work)
        elif shutil.which("mvn") is None:
            raise InstallError("fetching it needs Maven, and there is no mvn here")
        elif isinstance(source, Jars):
            _fetch_all(program, source, into, work)
        else:
            _fetch_one(program, source, into, work)
        shutil.rmtree(work)
    path = program.path()
    if path is None:
        raise InstallError(f"{program.name} is not in {program.home}")
    try:
        verify(program, path)
    except Refused as why:
        raise InstallError(str(why)) from None
    return f"{'built' if builds else 'fetched'} {path}"


def _build(program: Program, source: GoModule, into: Path, work: Path) -> None:
    if shutil.which("go") is None:
        raise InstallError(
            f"building it needs Go{source.least and f' {source.least} or later'}, and there is no go here"
        )
    environment = {
        "GOPATH": str(work / "go"),
        "GOMODCACHE": str(work / "go" / "pkg" / "mod"),
        "GOCACHE": str(work / "cache"),
        "GOTMPDIR": str(work),
        "GOWORK": "off",
        # Use only the installed version of Go, and no C compiler.
        "GOTOOLCHAIN": "local",
        "CGO_ENABLED": "0",
        # By default, Go's module cache is read-only and could not be deleted.
        "GOFLAGS": f"{os.environ.get('GOFLAGS', '')} -modcacherw -trimpath -buildvcs=false".strip(),
    }
    # Name an exact version. Otherwise Go requests the list of versions, which not every module proxy has.
    words = ["go", "mod", "download", "-json", f"{source.path}@{source.version}"]
    try:
        module = json.loads(run(words, work, environment))
    except ValueError:
        raise InstallError("go mod download did not say what it fetched") from None
    if module["Sum"] != source.sum:
        raise InstallError(
            f"{source.path}@{source.version} is not what was pinned: {module['Sum']}, and not {source.sum}"
        )
    checkout = work / "source"
    shutil.copytree(module["Dir"], checkout)
    for name, text in source.files.items():
        path = checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    run(["go", "build", "-o", into / program.file, source.package], checkout, environment)


def _fetch_one(program: Program, source: Jar, into: Path, work: Path) -> None:
    artifact = ":".join(filter(None, (source.group, source.artifact, source.version, "jar", source.classifier)))
    # Run Maven in a directory without a Maven project, whose settings it would use.
    run(["mvn", "-B", "-q", COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={work}"], work)
    jar = next(work.glob("*.jar"), None)
    if jar is None:
        raise InstallError(f"Maven did not bring {artifact}")
    if (digest := sha256(program, [jar])) != source.sha256:
        raise InstallError(f"{jar.name} is not what was pinned: SHA-256 {digest}, and not {source.sha256}")
    shutil.copyfile(jar, into / program.file)


def _fetch_all(program: Program, source: Jars, into: Path, work: Path) -> None:
    dependencies = []
    for artifact in source.artifacts:
        group, name, version = artifact.removeprefix("-").split(":")
        identity = f"<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        exclusions = _NO_DEPENDENCIES if artifact.startswith("-") else ""
        dependencies.append(f"<dependency>{identity}{exclusions}</dependency>")
    (work / "pom.xml").write_text(_PROJECT.format("".join(dependencies)))
    jars = work / "jars"
    run(["mvn", "-B", "-q", f"{COPY}-dependencies", f"-DoutputDirectory={jars}", "-DincludeScope=runtime"], work)
    if (digest := sha256(program, sorted(jars.iterdir()))) != source.sha256:
        raise InstallError(
            f"the archives of {program.name} are not what was pinned: {digest}, and not {source.sha256}"
        )
    jars.rename(into / program.file)
