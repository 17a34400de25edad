"""The programs of servers: where they are found, and the option `program`, which names a different program to start.
So two versions of a server can run side by side."""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from dyno.contracts.model import PROGRAM as PROGRAM
from dyno.contracts.model import Refused, Value
from dyno.contracts.programs import Program
from dyno.contracts.sanitize import sanitize
from dyno.contracts.settings import Setting
from dyno.servers.process import first_closed, program, unprivileged
from dyno.servers.user_server import missing_program_message

SHOWN, TIMEOUT_SECONDS = 80, 20


class ServerProgram(NamedTuple):
    """A server's program: how to find it, how to recognize it, and which versions Dyno can run."""

    title: str
    """Title for messages: 'PostgreSQL server'."""
    pattern: str
    """Regular expression for what the program prints about itself. The first group, if any, is the version."""
    arguments: tuple[str, ...] = ("--version",)
    """Arguments with which the program prints its version."""
    least: str = ""
    """Lowest version that Dyno can run; empty for any."""
    below: str = ""
    """First later version that Dyno can't run; empty if there is none."""
    helpers: tuple[str, ...] = ()
    """Names of other programs from the same directory that are needed with it."""
    users: tuple[str, ...] = ()
    """Users that the program runs as under root: the first that exists, or nobody. Empty for Dyno's user."""
    names: tuple[str, ...] = ()
    """Names of the program, the preferred one first."""
    places: Callable[[], Iterable[Path]] = tuple
    """Function that returns directories to search besides the PATH."""
    install: str = ""
    """Command that installs the program."""
    needed: str = ""
    """Name in the message if the program is missing; by default the first of `names`."""
    pinned: Program | None = None
    """The program as `dyno install` builds it, which is preferred to one on the PATH."""
    only_own: bool = False
    """True if the engine has no option `url`."""

    @property
    def setting(self) -> Setting:
        # A trial runs in another directory, so the path has to be absolute.
        def parse(text: str) -> Value:
            if text:
                return str(Path(text).expanduser().absolute())
            return text

        return Setting(PROGRAM, parse, "", f"path of the {self.title}'s program that is to be started")

    def find(self) -> str | None:
        """Returns the path of the installed program; None if it or a helper is missing."""
        if self.pinned is not None and (path := self.pinned.path()):
            return str(path)
        paths = [program(name, places=self.places()) for name in self.helpers]
        if all(paths):
            return program(*self.names, places=self.places())
        return None

    def explain_missing(self, path: str = "") -> str | None:
        """Returns why the program, or the user's at `path`, can't be started, with the remedy; None if it can."""
        if path:
            return self.explain_bad_program(path)
        if self.find():
            return None
        needed = self.needed or self.names[0]
        if self.only_own:
            return f"needs {needed}: {self.install}"
        return missing_program_message(needed, self.install)

    def executable(self, path: str = "") -> str:
        """Returns the path of the program to start. Raises Refused if it is missing, or if it is in the cache and may
        differ from the program that was installed."""
        if why := self.explain_missing(path):
            raise Refused(why)
        if not path and self.pinned is not None and (cached := self.pinned.path()):
            from dyno.servers.verify_program import verify

            verify(self.pinned, cached)
        return path or str(self.find())

    def explain_bad_program(self, path: str) -> str | None:
        """Returns why the program at `path` can't be started, in one line; None if it can."""
        why = _find_fault(self, path)
        return why and f"can't start {sanitize(path, SHOWN, '')}: {why}"

    def version_of(self, path: str) -> str:
        """Returns the version of the program that `executable` returns."""
        if not path and self.pinned is not None and self.pinned.path():
            return self.pinned.version
        return self.version(path or self.find() or self.names[0]) or "of unknown version"

    def version(self, path: str) -> str | None:
        """Returns the version that the program prints; None if it prints none."""
        match = re.search(self.pattern, _output(path, self.arguments))
        if match is not None and match.lastindex:
            return match[1]
        return None


class JavaProgram(NamedTuple):
    """A server in Java: pinned archives in Dyno's cache, and the machine's own Java."""

    title: str
    """Title for messages: 'QuestDB'."""
    pinned: Program
    java: str = "Java 17"
    """Version of Java that the server needs."""
    packages: tuple[str, ...] = ("default-jre-headless", "maven")

    def explain_missing(self, path: str = "") -> str | None:
        """Returns what is missing, with the command that installs it; None if nothing is. `path`: the archives of
        another version."""
        install = f"dyno install {self.pinned.name}"
        if not path and self.pinned.path() is None:
            return missing_program_message(f"{self.title} {self.pinned.version}", install)
        if shutil.which("java"):
            return None
        return missing_program_message(self.java, install)

    def paths(self, path: str = "") -> tuple[Path, str]:
        """Returns the paths of the archives and of java. Raises Refused if one of them is missing, or if the archives
        differ from those that were installed. `path`: the archives of another version."""
        jars, java = Path(path) if path else self.pinned.path(), shutil.which("java")
        if jars is None or java is None:
            raise Refused(f"{self.explain_missing(path)}")
        if path:
            return jars, java
        from dyno.servers.verify_program import verify

        verify(self.pinned, jars)
        return jars, java


def get_path(options: Mapping[str, Value]) -> str:
    """Returns the value of the option; empty if the user named no program, or if the engine has no such option."""
    return str(options.get(PROGRAM, ""))


def sibling(path: str, name: str) -> str | None:
    """Returns the path of `name` beside another program, or beside what that links to; None if there is none."""
    places = (Path(path).parent, Path(path).resolve().parent)
    return next(filter(None, (shutil.which(place / name) for place in places)), None)


def _find_fault(kind: ServerProgram, path: str) -> str | None:
    if not Path(path).exists():
        return "there is no such file"
    if Path(path).is_dir():
        return f"it is a directory, and the path of the {kind.title}'s program in it is wanted"
    if not shutil.which(path):
        return "it is not executable"
    output = _output(path, kind.arguments)
    if re.search(kind.pattern, output) is None:
        first = next(filter(None, map(str.strip, output.splitlines())), "nothing")
        return f"it is no {kind.title}; asked {' '.join(kind.arguments)}, it says: {sanitize(first, SHOWN, '')}"
    version = kind.version(path)
    if version is not None and not _numbers(kind.least) <= _numbers(version) < (_numbers(kind.below) or (1 << 31,)):
        able = f"{kind.least} and later"
        if kind.below:
            able += f", before {kind.below}"
        return f"it is version {sanitize(version, SHOWN, '')}, and Dyno can run {able}"
    absent = next((name for name in kind.helpers if sibling(path, name) is None), None)
    if absent is not None:
        return f"{absent} is not beside it, in {sanitize(str(Path(path).parent), SHOWN, '')}"
    user = unprivileged(*kind.users) if kind.users else None
    closed = user and first_closed(Path(path), user)
    if user and closed:
        return f"it runs as user {user.pw_name}, who may not enter {closed}"
    return None


def _numbers(version: str) -> tuple[int, ...]:
    """Returns the leading numbers of a version: (10, 11, 19) for '10.11.19-MariaDB'."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    if match:
        return tuple(map(int, match[0].split(".")))
    return ()


@cache
def _output(path: str, arguments: tuple[str, ...]) -> str:
    try:
        process = subprocess.run(
            [path, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return f"{process.stdout}\n{process.stderr}"
