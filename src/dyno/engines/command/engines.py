"""`command_line` starts a program of the user's; `null_command` one that does nothing: what starting a program costs.

`spawner.py` starts and measures them, without a shell unless the user wants one.
"""

from __future__ import annotations

import marshal
import os
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from dyno.contracts.engine import Engine, EngineSpec, Listing, PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Refused, Tier, Unavailable, Value
from dyno.contracts.settings import Setting
from dyno.host.process import die_with_parent, users_environment
from dyno.suites.commands.port import Conditions, Ended, Run

SPAWNER = Path(__file__).with_name("spawner.py")
NOTHING = "true"
"""Name of the program that does nothing."""
ANY = "all"
BRACE = "{"
SHOWN = 200
"""Most characters of a program's errors in a message."""


def text(value: str) -> Value:
    return value


def parse_command(value: str) -> Value:
    if not value.strip():
        raise ValueError("expected a command, such as 'sleep 0.1'")
    try:
        shlex.split(value)
    except ValueError as error:
        raise ValueError(f"{error}: write it as for a shell") from None
    return value


def codes(value: str) -> Value:
    if value not in ("", ANY) and not all(part.strip().isdecimal() and int(part) < 256 for part in value.split(" ")):
        raise ValueError(f"expected {ANY}, or exit statuses separated by blanks")
    return value


class Programs(Engine):
    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value]) -> None:
        self.home, self.options = home, {name: str(value) for name, value in options.items()}

    def version(self) -> str:
        return "as installed"

    def caveats(self) -> Iterable[Caveat]:
        if self.options["shell"]:
            yield Caveat("shell", f"started by {self.options['shell']}, whose start is in the figure")


class Spawn(Programs):
    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value]) -> None:
        super().__init__(home, tier, {setting.name: setting.default for setting in OPTIONS})

    def version(self) -> str:
        return "does nothing"

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("floor", "is a program that does nothing: starting it is a part of every other figure")


class Command:
    """The port `command`: the engine's program in a directory, with `values` for the names in braces."""

    def __init__(self, engine: Programs, directory: Path, values: Mapping[str, object]) -> None:
        self._home = engine.home
        self._directory = directory
        self._environment = users_environment()
        self._options = dict(engine.options)
        for name, value in values.items():
            place = BRACE + name + "}"
            self._options = {key: option.replace(place, str(value)) for key, option in self._options.items()}
        self._shell("setup")

    def program(self) -> Path:
        """Returns the path of the program. Raises Refused if there is none."""
        words = self._words()
        if "/" in words[0]:
            path = Path(self._directory, words[0])
        else:
            path = Path(shutil.which(words[0]) or "")
        if path == Path() or not os.access(path, os.X_OK) or path.is_dir():
            raise Refused(f"program {words[0]} was not found, or may not be executed")
        return path

    def run(self, conditions: Conditions) -> Ended:
        source = Path(self._directory, self._options["input"] or os.devnull)
        if conditions.same:
            outputs = [str(self._home / name) for name in ("first-output", "output")]
        else:
            outputs = []
        errors = self._home / "errors"
        try:
            kind = source.stat().st_mode
        except OSError as error:
            raise Refused(f"input {self._options['input']}: {error.strerror}") from None
        allowed = self._options["ignore"]
        job = {
            "words": [str(self.program()), *self._words()],
            "directory": str(self._directory),
            "environment": self._environment,
            "input": str(source),
            "seekable": stat.S_ISREG(kind),
            "errors": str(errors),
            "outputs": outputs,
            "allowed": None if allowed == ANY else [int(code) for code in allowed.split()],
            "prepare": self._options["prepare"],
            "conclude": self._options["conclude"],
            **conditions._asdict(),
        }
        parent = os.getpid()
        ended = subprocess.run(
            # Isolated, and without the module `site`: nothing but the interpreter itself.
            [sys.executable, "-I", "-S", str(SPAWNER)],
            input=marshal.dumps(job),
            stdout=subprocess.PIPE,
            preexec_fn=lambda: die_with_parent(parent),
            check=False,
        )
        if ended.returncode < 0:
            how = f"{status(ended.returncode)}, perhaps by the program itself"
            raise Unavailable(f"the process that started the program was {how}: {self._options['run']}")
        if ended.returncode:
            raise Refused(f"the program could not be started: {self._options['run']}")
        runs, differing, failed = marshal.loads(ended.stdout)
        if failed is not None:
            raise Refused(f"{failed[0]} failed, {status(failed[1])}: {self._options[failed[0]]}")
        if errors.exists():
            said = errors.read_bytes()[-SHOWN:].decode(errors="replace").strip().splitlines()
        else:
            said = []
        return Ended(
            runs=[Run(*run) for run in runs],
            differing=differing,
            output=Path(outputs[0]) if outputs else None,
            said=said[-1] if said else "",
            allowed=job["allowed"],
        )

    def close(self) -> None:
        self._shell("cleanup")

    def _words(self) -> list[str]:
        shell = shlex.split(self._options["shell"])
        if shell:
            return [*shell, "-c", self._options["run"]]
        return shlex.split(self._options["run"])

    def _shell(self, name: str) -> None:
        if script := self._options[name]:
            ended = subprocess.run(
                ["sh", "-c", script],
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                check=False,
            )
            if ended.returncode:
                raise Refused(f"{name} failed, {status(ended.returncode)}: {script}")


def status(code: int) -> str:
    """Returns an exit status, or the signal that ended a program, in words."""
    if code >= 0:
        return f"exit status {code}"
    return f"killed by signal {-code}"


def needs(options: Mapping[str, Value]) -> str | None:
    """Returns the program that is not installed. A name with a variable, or with a directory, is looked for later."""
    words = shlex.split(str(options["shell"])) or shlex.split(str(options["run"]))
    if BRACE in words[0] or "/" in words[0] or shutil.which(words[0]):
        return None
    return f"needs the program {words[0]}, which is not installed here"


OPTIONS = (
    Setting("run", parse_command, NOTHING, "the command line; {NAME} stands for the value of -p NAME=VALUE"),
    Setting("shell", text, "", "shell that runs the command line, such as sh; empty: none"),
    Setting("input", text, "", "file for standard input; empty: none"),
    Setting("ignore", codes, "", "exit statuses besides 0 that are no failure: all, or numbers separated by blanks"),
    Setting("setup", text, "", "shell command before the runs of a trial"),
    Setting("prepare", text, "", "shell command before each run"),
    Setting("conclude", text, "", "shell command after each run"),
    Setting("cleanup", text, "", "shell command after the runs of a trial"),
)
PORTS = {"command": PortSpec(Command)}

COMMAND_LINE = EngineSpec(
    name="command_line",
    title="A program of yours, as a command line",
    opener=Programs,
    ports=PORTS,
    tiers={},
    options=OPTIONS,
    installation=Installation(needs=needs),
    listing=Listing(labelled="run", by_default=False),
)
NULL_COMMAND = EngineSpec(
    name="null_command",
    title="A program that does nothing: the floor, what starting one costs",
    opener=Spawn,
    ports=PORTS,
    tiers={},
    floor=True,
)
