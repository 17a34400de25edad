"""Runs installers, and kills them together with the processes that they started. Builds a pinned program with Go, or
fetches one for Java with Maven, into the cache; all other downloads and build results are deleted."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from dyno.contracts.model import Refused
from dyno.contracts.programs import GoModule, Jars, Program
from dyno.servers.verify_program import forget, sha256, verify

Words = Sequence[str | Path]
GRACE_SECONDS = 30.0
MOST_FILES = 1 << 20
"""Maximum number of open files that Linux allows a process by default: fs.nr_open."""


class InstallError(Exception):
    """Something can't be installed. The message says why, in one line; `output` is all output of the tool that
    failed."""

    def __init__(self, why: str, output: str = "") -> None:
        super().__init__(why)
        self.output = output


def run(
    words: Words, cwd: Path | None = None, environment: Mapping[str, str] | None = None, name: str | None = None
) -> str:
    """Runs a tool; returns its output. If the tool fails, raises InstallError with its last line of output, in which
    the tool is called `name`.

    The tool has its own session. If this process is interrupted or gets SIGKILL, the tool and all processes that it
    started are killed.
    """
    with _lifeline() as guard:
        process = subprocess.Popen(
            words,
            cwd=cwd,
            env=None if environment is None else {**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=guard,
        )
        try:
            out, err = process.communicate()
        except BaseException:
            # Send SIGTERM first, so that an installer can clean up. Processes of another user can't be signalled.
            for number, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, None)):
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, number)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(seconds)
            raise
    if process.returncode:
        why = last_error(err) or last_error(out) or "it said nothing"
        raise InstallError(f"{name or Path(words[0]).name} failed: {why}", f"{out}\n{err}")
    return out


@contextmanager
def _lifeline() -> Iterator[Callable[[], None]]:
    """Yields a function that a new process must call before its `exec`. The new process group is killed at the end of
    the block, or when this process dies for any reason.

    The group has a guard: a process that waits for the end of a pipe whose other end only this process has. The
    kernel's PR_SET_PDEATHSIG would kill only the tool, but not the processes that it started.
    """
    ours, theirs = os.pipe()

    def guard() -> None:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            return
        # Fork twice, so that the guard isn't a child of the tool.
        if os.fork():
            os._exit(0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        # The guard must not keep the tool's output or the other end of the pipe open.
        os.closerange(0, ours)
        os.closerange(ours + 1, MOST_FILES)
        os.read(ours, 1)
        os.killpg(0, signal.SIGKILL)

    try:
        yield guard
    finally:
        os.close(theirs)
        os.close(ours)


def last_error(text: str) -> str:
    """Returns the last line that contains 'error'; if there is none, the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or [""])[-1]


@contextmanager
def new_directory(home: Path) -> Iterator[Path]:
    """Yields a new directory, which becomes `home` at the end of the block and is deleted if the block fails."""
    home.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{home.name}-", dir=home.parent))
    try:
        yield new
        new.chmod(0o755)
        shutil.rmtree(home, ignore_errors=True)
        new.rename(home)
    finally:
        shutil.rmtree(new, ignore_errors=True)


COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_PROJECT = """<project><modelVersion>4.0.0</modelVersion>
<groupId>dyno</groupId><artifactId>program</artifactId><version>1</version>
<dependencies>{}</dependencies></project>
"""
PREAMBLE, HELP = "project dyno:program:jar:1: ", " -> [Help"
"""Texts before and after the reason in a message of Maven."""
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
            build(program, source, into, work)
        else:
            fetch(program, source, into, work)
        shutil.rmtree(work)
    path = program.path()
    if path is None:
        raise InstallError(f"{program.name} is not in {program.home}")
    try:
        verify(program, path)
    except Refused as why:
        raise InstallError(str(why)) from None
    return f"{'built' if builds else 'fetched'} {path}"


def build(program: Program, source: GoModule, into: Path, work: Path) -> str:
    """Builds the program into a directory. Returns the hash of its module. Raises InstallError."""
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
    if source.sum not in ("", module["Sum"]):
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
    return str(module["Sum"])


def fetch(program: Program, source: Jars, into: Path, work: Path) -> str:
    """Fetches the archives into a directory. Returns their hash. Raises InstallError."""
    write_project(work, source.artifacts)
    jars = work / "jars"
    run_maven(work, COPY, f"-DoutputDirectory={jars}", "-DincludeScope=runtime")
    digest = sha256(program, sorted(jars.iterdir()))
    if source.sha256 not in ("", digest):
        raise InstallError(
            f"the archives of {program.name} are not what was pinned: {digest}, and not {source.sha256}"
        )
    jars.rename(into / program.file)
    return digest


def write_project(work: Path, artifacts: Sequence[str]) -> None:
    """Writes a project of Maven that depends on the artifacts: see `Jars`."""
    dependencies = []
    for artifact in artifacts:
        group, name, version = artifact.removeprefix("-").split(":")
        identity = f"<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        if artifact.startswith("-"):
            exclusions = _NO_DEPENDENCIES
        else:
            exclusions = ""
        dependencies.append(f"<dependency>{identity}{exclusions}</dependency>")
    (work / "pom.xml").write_text(_PROJECT.format("".join(dependencies)))


def run_maven(work: Path, goal: str, *options: str) -> None:
    """Runs Maven on the project. An archive that differs from its checksum is refused. Raises InstallError."""
    if shutil.which("mvn") is None:
        raise InstallError("fetching it needs Maven, and there is no mvn here: apt-get install -y maven")
    try:
        run(["mvn", "-B", "-q", "-C", "-Dstyle.color=never", goal, *options], work, name="mvn")
    except InstallError as why:
        errors = [line for line in why.output.splitlines() if PREAMBLE in line]
        if not errors:
            raise
        # Its last lines name pages of help.
        reason = errors[0].partition(PREAMBLE)[2].partition(HELP)[0]
        raise InstallError(f"mvn failed: {reason}", why.output) from None
