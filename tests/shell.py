"""Dyno's command line as a shell runs it, for the tests, and a look at what it leaves behind.

Not a test itself, and nothing of Dyno is imported here: what is tested is what a user would see.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

# A disk by convention, where /tmp may be memory.
DISK = Path("/var/tmp")
TESTS = Path(__file__).parent
FAULTY = TESTS / "plugins" / "faulty"
RECORDER = TESTS / "plugins" / "recorder"
COMMAND = (sys.executable, "-m", "dyno")
MARK = "DYNO_TEST_MARK"
# Long enough for a machine that is busy with other things; a test that waits for it has failed.
PATIENCE = 100.0
# What would change the output of a program that looks at its terminal.
_TERMINAL = ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE")


class Ended(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str


@dataclass
class Shell:
    """A directory to run commands in, and a work directory beside it."""

    home: Path
    work: Path
    plugins: Sequence[Path] = ()
    """Directories of plug-ins, put on PYTHONPATH."""
    given: dict[str, str] = field(default_factory=dict)
    """Further environment variables."""
    mark: str = field(default_factory=lambda: uuid4().hex)
    """A value in the environment of every process of this shell's, by which they are found again."""

    @property
    def file(self) -> Path:
        """The run file that the tests use."""
        return self.home / "r.json"

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in _TERMINAL}
        paths = [*map(str, self.plugins), *filter(None, [os.environ.get("PYTHONPATH")])]
        ours = {"DYNO_WORK": str(self.work), MARK: self.mark, "PYTHONPATH": os.pathsep.join(paths)}
        return {**kept, **ours, **self.given}

    def dyno(self, *arguments: object) -> Ended:
        """Runs a command to its end, without a terminal."""
        return self.sh(*COMMAND, *arguments)

    def sh(self, *words: object) -> Ended:
        ended = subprocess.run(
            [str(word) for word in words],
            cwd=self.home,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    @contextlib.contextmanager
    def started(self, *arguments: object) -> Iterator[subprocess.Popen[str]]:
        """A command that runs meanwhile, in a session of its own; whatever is left of it is killed at the end."""
        process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            cwd=self.home,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # Not ignored, as it is in what a shell started in the background.
            preexec_fn=_heed_interrupts,
        )
        try:
            yield process
        finally:
            self.kill_strays()
            process.communicate()

    # -- what there is afterwards ---------------------------------------------------------------------------

    def shown(self, *arguments: object) -> Any:
        """`dyno show --json` of the run file, as data."""
        status, out, err = self.dyno("show", self.file, "--json", *arguments)
        assert status == 0, err
        return json.loads(out, parse_constant=_not_json)

    def cells(self) -> dict[tuple[str, str], dict[str, Any]]:
        """The cells of the run file by engine and phase, for a plan with one value of each parameter."""
        cells = self.shown()["cells"]
        found = {(cell["engine"], cell["phase"]): cell for cell in cells}
        assert len(found) == len(cells), "more than one cell for an engine and a phase"
        return found

    def attempts(self, engine: str | None = None) -> list[dict[str, Any]]:
        """The trials' lines of the run file, read without Dyno; those of one engine, if it is named."""
        header, *lines = [json.loads(line) for line in self.file.read_text().splitlines()]
        of = [at for at, cell in enumerate(header["cells"]) if engine in (None, cell["engine"])]
        return [line for line in lines if line["cell"] in of]

    def planned(self) -> int:
        """How many trials the run file's plan has; which null engines stand in it is not for the tests to say.

        Of each of these it has three, or as many as there are blocks.
        """
        header = json.loads(self.file.read_text().splitlines()[0])
        blocks = int(header["plan"]["samples"])
        return sum(min(blocks, 3) if cell["floor"] else blocks for cell in header["cells"])

    def trial_lines(self) -> int:
        """How many whole trial lines the run file has now; 0 where there is no file yet."""
        return max(self.file.read_bytes().count(b"\n") - 1, 0) if self.file.exists() else 0

    def left(self) -> list[str]:
        """What is left in the work directory."""
        return sorted(path.name for path in self.work.iterdir()) if self.work.exists() else []

    def alive(self) -> list[int]:
        """Processes with this shell's mark in their environment, the command's and all that come of it, or at home
        in its work directory: a server may write its title over its environment.
        """
        wanted, work = f"{MARK}={self.mark}".encode(), f"{self.work.resolve()}/"
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                # It may have ended, or not be ours to read; a zombie has no environment left.
                with contextlib.suppress(OSError):
                    ours = wanted in (entry / "environ").read_bytes().split(b"\0")
                    if ours or str((entry / "cwd").readlink()).startswith(work):
                        found.append(int(entry.name))
        return found

    def workers(self) -> list[int]:
        """Processes that carry out a trial: each is the first of a session, in its trial's directory."""
        found = []
        for pid in self.alive():
            with contextlib.suppress(OSError):
                if os.getsid(pid) == pid and Path(f"/proc/{pid}/cwd").readlink().name.startswith("trial-"):
                    found.append(pid)
        return found

    def strays(self) -> list[int]:
        """Processes that are there and stay: the kernel is given some time to take away what was killed."""
        wait_for(lambda: not self.alive(), seconds=5)
        return self.alive()

    def kill_strays(self) -> None:
        for pid in self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def wait_for(condition: Callable[[], object], seconds: float = PATIENCE) -> bool:
    """Looks at `condition` until it holds; False if that takes longer than `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def is_one_line(text: str) -> bool:
    return text.count("\n") == 1 and text.endswith("\n") and bool(text.strip())


def small(**values: object) -> list[str]:
    """The flags of a run that takes next to no time; a value given as `param_x` is a parameter's."""
    chosen = {"param_records": 300, "samples": 2, "budget": 30, "phases": "rand-key", **values}
    return [
        word
        for name, value in chosen.items()
        for word in (
            ("-p", f"{name.removeprefix('param_')}={value}")
            if name.startswith("param_")
            else (f"--{name}", str(value))
        )
    ]


def _heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _not_json(constant: str) -> Any:
    raise AssertionError(f"{constant} is not JSON")
