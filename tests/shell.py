"""Runs Dyno's command line like a shell, and checks what it leaves behind."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pexpect
import pytest

from dyno import registry, results
from dyno.cli import commands, console
from dyno.contracts import passwords
from dyno.report import export

# On a disk by convention, while /tmp may be in memory.
DISK = Path("/var/tmp")
TESTS = Path(__file__).parent
DATA = TESTS / "data"
FAULTY = TESTS / "plugins" / "faulty"
RECORDER = TESTS / "plugins" / "recorder"
COMMAND = (sys.executable, "-m", "dyno")
READING_FLAGS = {"--dry-run", "--help"}
"""Flags with which no command measures."""
MEASURES = {"run", "capacity", "time", "replicate"}
"""Commands whose trials have processes of their own, as for `dyno.run` in a user's process."""
IN_THIS_PROCESS = MEASURES | commands.READS_ONLY | {"doctor", "publish"}
READ_ONCE = ("PATH", "PYTHON", "LC_", "DYNO_", "_DYNO", "XDG_", "PIP_", "DASK_")
"""Prefixes of variables that Python, Dyno or a library reads once in a process."""
MARK = "DYNO_TEST_MARK"
# Seconds; long enough for a busy machine, so a test that reaches it has failed.
PATIENCE = 100.0
# Variables that change the output of a program that inspects its terminal.
_TERMINAL = ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE")


class Ended(NamedTuple):
    """The result of a command."""

    status: int
    out: str
    err: str


def run_in_this_process(
    words: list[str], home: Path, environment: Mapping[str, str], stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Runs a command of Dyno in this process as a new process would: with files as its standard streams, this
    environment and this working directory. Restores all of them and the signal handlers."""
    with contextlib.ExitStack() as stack:
        given = stack.enter_context(tempfile.TemporaryFile())
        given.write(stdin)
        given.seek(0)
        out = stack.enter_context(tempfile.TemporaryFile())
        err = stack.enter_context(tempfile.TemporaryFile())
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name in os.environ.keys() - environment.keys():
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.chdir(home)
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            stream.flush()
            # `prepare` replaces it.
            patch.setattr(sys, name, stream)
        patch.setattr(sys, "stdin", io.TextIOWrapper(given))
        for descriptor, file in enumerate((given, out, err)):
            before = os.dup(descriptor)
            stack.callback(os.close, before)
            stack.callback(os.dup2, before, descriptor)
            os.dup2(file.fileno(), descriptor)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            stack.callback(signal.signal, number, signal.getsignal(number))
        # A process reads the variable of an address once, and removes it.
        passwords._of_variable.cache_clear()
        console.prepare()
        status = commands.run_command(words)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(words, status, out.read(), err.read())


@contextlib.contextmanager
def plugins_on_path(plugins: Sequence[Path]) -> Iterator[None]:
    """Lets this process find the plug-ins, and forget them at the end."""
    if not plugins:
        yield
        return
    known = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        for path in reversed(plugins):
            patch.syspath_prepend(path)
        forget_declarations()
        try:
            yield
        finally:
            for name in sys.modules.keys() - known:
                file = getattr(sys.modules[name], "__file__", None)
                if file and Path(file).parent in plugins:
                    del sys.modules[name]
    forget_declarations()


def forget_declarations() -> None:
    for each in vars(registry).values():
        if hasattr(each, "cache_clear") and each.__module__ == registry.__name__:
            each.cache_clear()


@dataclass
class Shell:
    """A directory to run commands in, and a work directory beside it."""

    home: Path
    work: Path
    plugins: Sequence[Path] = ()
    """Directories of plug-ins, put on PYTHONPATH."""
    given: dict[str, str] = field(default_factory=dict)
    """Additional environment variables."""
    mark: str = field(default_factory=lambda: uuid4().hex)
    """A value in the environment of every process of this shell, to find them again."""

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
        """Runs a command to its end, without a terminal: in this process if it reads, measures or sends
        requests."""
        only_requests = arguments[:1] == ("http",) and "--while" not in arguments
        if IN_THIS_PROCESS.isdisjoint(arguments[:1]) and READING_FLAGS.isdisjoint(arguments) and not only_requests:
            return self.sh(*COMMAND, *arguments)
        return self.run_here(*arguments)

    def run_here(self, *arguments: object) -> Ended:
        """Runs a command in this process, which saves a second of processor time to start Python and import modules,
        unless it must read its environment anew."""
        reads_anew = any(name.startswith(READ_ONCE) for name in self.given)
        # A directory without metadata may have a sitecustomize.py, which only a new process imports.
        if reads_anew or not all(any(path.glob("*-info")) for path in self.plugins):
            return self.sh(*COMMAND, *arguments)
        with plugins_on_path(self.plugins):
            ended = run_in_this_process(list(map(str, arguments)), self.home, self.environment())
        out, err = (io.TextIOWrapper(io.BytesIO(each)).read() for each in (ended.stdout, ended.stderr))
        return Ended(ended.returncode, out, err)

    def sh(self, *words: object, patience: float | None = None) -> Ended:
        ended = subprocess.run(
            [str(word) for word in words],
            cwd=self.home,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=patience or PATIENCE,
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def on_terminal(self, *words: str, columns: int = 160, **variables: str) -> tuple[int, str]:
        """Runs a command under a pseudo-terminal. Returns its exit status and everything sent to the terminal,
        control sequences included."""
        child = pexpect.spawn(
            words[0],
            list(words[1:]),
            cwd=str(self.home),
            env={**self.environment(), "TERM": "xterm-256color", "LANG": "C.UTF-8", **variables},
            dimensions=(40, columns),
            use_poll=True,
            encoding="utf-8",
            timeout=PATIENCE,
        )
        child.expect(pexpect.EOF)
        child.close()
        return child.exitstatus, child.before

    @contextlib.contextmanager
    def started(self, *arguments: object) -> Iterator[subprocess.Popen[str]]:
        """Runs a command in the background, in its own session; kills whatever is left of it at the end."""
        process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            cwd=self.home,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # A non-interactive shell starts background processes with SIGINT ignored; undo that.
            preexec_fn=_heed_interrupts,
        )
        try:
            yield process
        finally:
            self.kill_strays()
            process.communicate()

    # -- the engine `waiter` of the plug-in FAULTY ------------------------------------------------------------

    @property
    def gate(self) -> Path:
        return self.home / "gate"

    def close_gate(self, passing: int) -> None:
        """Makes trials of `waiter` wait for `open_gate`, except the first `passing` ones."""
        self.gate.mkdir()
        self.plugins = [FAULTY]
        self.given = {"FAULTY_GATE": str(self.gate), "FAULTY_FREE": str(passing)}

    def at_gate(self) -> list[int]:
        """Processes of the trials that have come to the gate."""
        return [int(path.name.rpartition("-")[2]) for path in self.gate.glob("arrived-*")]

    def open_gate(self) -> None:
        (self.gate / "open").touch()

    # -- state afterwards -----------------------------------------------------------------------------------

    def shown(self, *arguments: object) -> Any:
        """Output of `dyno show --json` for the run file. Without further arguments this process makes it, because a
        start of Python takes longer."""
        if arguments:
            status, out, err = self.dyno("show", self.file, "--json", *arguments)
            assert status == 0, err
        else:
            out = export.as_json(results.load(self.file))
        return json.loads(out, parse_constant=_not_json)

    def cells(self) -> dict[tuple[str, str], dict[str, Any]]:
        """The cells of the run file by engine and phase, for a plan with one value of each parameter."""
        cells = self.shown()["cells"]
        found = {(cell["engine"], cell["phase"]): cell for cell in cells}
        assert len(found) == len(cells), "more than one cell for an engine and a phase"
        return found

    def attempts(self, engine: str | None = None) -> list[dict[str, Any]]:
        """The trial lines of the run file, read without Dyno; optionally of one engine."""
        header, *lines = [json.loads(line) for line in self.file.read_text().splitlines()]
        of = [at for at, cell in enumerate(header["cells"]) if engine in (None, cell["engine"])]
        return [line for line in lines if line.get("cell") in of]

    def samples(self) -> dict[str, dict[str, dict[str, Any]]]:
        """The samples of each row's last trial by phase, by the row's label."""
        cells = results.load(self.file).cells
        return {
            cells[line["cell"]].label: {sample["phase"]: sample for sample in line["samples"]}
            for line in self.attempts()
        }

    def invalid(self) -> list[tuple[str, str, str]]:
        """Engine, phase and reason of each invalid cell of the run file."""
        cells = self.shown()["cells"]
        return [(cell["engine"], cell["phase"], cell["why"]) for cell in cells if not cell["valid"]]

    def planned(self) -> int:
        """The number of trials in the run file's plan, including null engines.

        A null engine has at most three trials.
        """
        header = json.loads(self.file.read_text().splitlines()[0])
        blocks = int(header["plan"]["samples"])
        return sum(min(blocks, 3) if cell["floor"] else blocks for cell in header["cells"])

    def trial_lines(self) -> int:
        """The number of complete trial lines in the run file now; 0 if it doesn't exist yet."""
        return max(self.file.read_bytes().count(b"\n") - 1, 0) if self.file.exists() else 0

    def left(self) -> list[str]:
        """Names of the files and directories in the work directory."""
        return sorted(path.name for path in self.work.iterdir()) if self.work.exists() else []

    def alive(self) -> list[int]:
        """Processes with this shell's mark in their environment, or with their working directory below its work
        directory: a server may overwrite its environment with its title."""
        wanted, work = f"{MARK}={self.mark}".encode(), f"{self.work.resolve()}/"
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                # The process may have ended or be another user's. A zombie has no environment.
                with contextlib.suppress(OSError):
                    ours = wanted in (entry / "environ").read_bytes().split(b"\0")
                    if ours or str((entry / "cwd").readlink()).startswith(work):
                        found.append(int(entry.name))
        return found

    def workers(self) -> list[int]:
        """Processes that run a trial: each leads a session, in its trial's directory."""
        found = []
        for pid in self.alive():
            with contextlib.suppress(OSError):
                if os.getsid(pid) == pid and Path(f"/proc/{pid}/cwd").readlink().name.startswith("trial-"):
                    found.append(pid)
        return found

    def strays(self) -> list[int]:
        """Processes that are still alive after a short wait for the kernel to remove killed ones."""
        wait_for(lambda: not self.alive(), seconds=5)
        return self.alive()

    def kill_strays(self) -> None:
        for pid in self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def wait_for(condition: Callable[[], object], seconds: float = PATIENCE) -> bool:
    """Polls `condition` until it is true; returns False after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def is_one_line(text: str) -> bool:
    return text.count("\n") == 1 and text.endswith("\n") and bool(text.strip())


def run_line(data: dict[str, Any]) -> bytes:
    """A line of a run file with these values, and the checksum of its content."""
    values = {name: value for name, value in data.items() if name != "crc32"}
    content = json.dumps(values, separators=(",", ":")).encode()[:-1]
    return content + f',"crc32":"{zlib.crc32(content):08x}"}}\n'.encode()


def small(**values: object) -> list[str]:
    """Flags of a very short run. A keyword `param_x` sets the parameter x."""
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


def kill_at_moments(churn: Callable[[], object], count: int) -> None:
    """Runs `churn` again and again in `count` processes, one after the other, and kills each by SIGKILL, at a moment
    that moves through the second run from its beginning to its end."""
    for number in range(count):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            # Nothing of pytest may run in this process.
            try:
                while True:
                    os.write(writing, b"x")
                    churn()
            finally:
                traceback.print_exc()
                os._exit(1)
        os.close(writing)
        os.read(reading, 1)
        began = time.monotonic()
        os.read(reading, 1)
        time.sleep((time.monotonic() - began) * number / count)
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        os.close(reading)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
