"""Samples the stacks of running processes by `perf record`, 999 times a second of CPU time, and reads them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

from dyno.host.procfs import read_text, stat_words

PROGRAM = "perf"
HERTZ = 999
"""Not 1,000, so that the samples don't keep step with what an engine does every millisecond."""
START_SECONDS, STOP_SECONDS = 20.0, 60.0
REPORT_SECONDS = 120.0
POLL_SECONDS = 0.005
ASLEEP = 3
"""Number of looks in a row at which perf must sleep."""
PRINTED = ".printed"
"""Suffix of the file with what a profiler prints."""
MISSING = "perf not found: on Debian, install the package linux-perf"
PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
KERNEL = "[kernel]"
SEARCHED = ("site-packages", "dist-packages", "lib-dynload")
"""Directories of Python modules that belong to no package."""
MOST_NAME = 200
"""Maximum length of a function's name. Names of C++ templates reach thousands of characters."""
MOST_DEPTH = 127
_FRAME = re.compile(r"\s*[0-9a-f]+ (.*) \(([^()]*(?: \(deleted\))?)\)$")
_KERNEL = re.compile(r"\[(kernel\.|guest\.kernel|\w+\]$)")
_PLATFORM = re.compile(r"\.(cpython-\w+-[\w-]+|abi3)(?=\.so)")
_RUST_HASH = re.compile(r"::h[0-9a-f]{16}$")


class CannotProfile(Exception):
    """A profiler is missing or fails. The message is one line."""


def find_trouble() -> str | None:
    """Returns why processes can't be profiled here, and what to do; None if they can."""
    if shutil.which(PROGRAM) is None:
        return MISSING
    with tempfile.TemporaryDirectory(prefix="dyno-perf-") as directory:
        try:
            tried = subprocess.run(
                [*_record(Path(directory, "tried")), "--", "true"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                stdin=subprocess.DEVNULL,
                timeout=START_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"perf does not work: {error}"
    if tried.returncode == 0:
        return None
    return explain_failure(tried.stderr.decode(errors="replace"))


def explain_failure(printed: str) -> str:
    """Returns why `perf record` failed, by what it has printed, and what to do."""
    with suppress(OSError, ValueError):
        level = int(PARANOID.read_text())
        if level > 2 and os.geteuid() != 0:
            return f"perf may not look: kernel.perf_event_paranoid is {level}: sysctl kernel.perf_event_paranoid=1"
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    said = next((line for line in lines if line.lower().rstrip(":") != "error"), "it printed nothing")
    return f"perf does not work: {said[:MOST_NAME]}"


def hides_kernel() -> bool:
    """Returns whether the kernel's part of the CPU time is hidden from this user."""
    with suppress(OSError, ValueError):
        return os.geteuid() != 0 and int(PARANOID.read_text()) > 1
    return False


def _record(path: Path) -> list[str]:
    # A software event: virtual machines often have no hardware counters. Without build IDs, because perf would copy
    # each library to the user's ~/.debug.
    return [
        *(PROGRAM, "record", "-e", "cpu-clock", "-F", str(HERTZ), "-g"),
        *("--no-buildid", "--no-buildid-cache", "-o", str(path)),
    ]


class Recording:
    """Records running processes, their threads, and those that they start, until `stop`."""

    def __init__(self, pids: Sequence[int], path: Path) -> None:
        """Begins to record before this returns. Raises CannotProfile."""
        self._path = path
        printed = path.with_suffix(path.suffix + PRINTED)
        try:
            with printed.open("wb") as output:
                self._process = subprocess.Popen(
                    [*_record(path), "-p", ",".join(map(str, pids))],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    # It ends by itself when the processes that it records have ended.
                    start_new_session=True,
                )
            self._wait_until_attached()
            if self._process.poll() is not None:
                raise CannotProfile(explain_failure(printed.read_text(errors="replace")))
        except OSError as error:
            raise CannotProfile(f"perf does not work: {error}") from None

    def _wait_until_attached(self) -> None:
        """Waits until perf has mapped the buffers of its events, and then sleeps: it does so for the first time when
        it has enabled them. Its own way to tell, `--control`, makes perf 6.1 stop with an error."""
        place = Path(f"/proc/{self._process.pid}")
        deadline = monotonic() + START_SECONDS
        asleep = 0
        while self._process.poll() is None and monotonic() < deadline:
            if "[perf_event]" in (read_text(place / "maps") or ""):
                asleep = asleep + 1 if stat_words(place)[:1] == ["S"] else 0
            if asleep == ASLEEP:
                return
            sleep(POLL_SECONDS)

    def stop(self) -> None:
        """Ends the recording. May be called twice."""
        interrupt(self._process)

    def read(self) -> Counter[tuple[tuple[str, str], ...]]:
        """Returns the number of samples of each stack: of its functions with their libraries, the outermost first.
        Removes the recording. Raises CannotProfile."""
        # Without inlined functions, whose lookup takes minutes, and without a search for symbols in the network.
        command = [PROGRAM, "script", "-i", str(self._path), "--no-inline", "-F", "ip,sym,dso"]
        stacks = Counter[tuple[tuple[str, str], ...]]()
        deadline = monotonic() + REPORT_SECONDS
        try:
            with subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "DEBUGINFOD_URLS": ""},
                text=True,
                errors="replace",
            ) as process:
                assert process.stdout is not None
                for stack in parse_stacks(process.stdout):
                    stacks[stack] += 1
                    if monotonic() > deadline:
                        process.kill()
                        break
        except OSError as error:
            raise CannotProfile(f"perf does not work: {error}") from None
        finally:
            for path in (self._path, self._path.with_suffix(self._path.suffix + PRINTED)):
                path.unlink(missing_ok=True)
        return stacks


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Interrupts a profiler, which then writes what it has, and waits until it has ended. May be called twice."""
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def parse_stacks(lines: Iterator[str]) -> Iterator[tuple[tuple[str, str], ...]]:
    """Yields the stack of each sample that `perf script -F ip,sym,dso` prints, the outermost function first."""
    stack: list[tuple[str, str]] = []
    for line in lines:
        match = _FRAME.match(line.rstrip("\n"))
        if match is None:
            # A blank line follows each sample.
            if stack and not line.strip():
                yield tuple(reversed(stack[:MOST_DEPTH]))
                stack = []
            continue
        function, library = name_function(match[1]), name_library(match[2])
        # Code without frame pointers leaves addresses in the chain that are no code. The innermost is always right.
        if library != "[unknown]" or not stack:
            stack.append((library, function))
    if stack:
        yield tuple(reversed(stack[:MOST_DEPTH]))


def name_library(path: str) -> str:
    """Returns the short name of a mapped file: without directory, platform, and the mark of a removed file."""
    path = path.removesuffix(" (deleted)")
    if _KERNEL.match(path) and path not in ("[unknown]", "[vdso]", "[vsyscall]", "[heap]", "[stack]"):
        return KERNEL
    if path.startswith("/tmp/perf-") and path.endswith(".map"):
        return "[jit]"
    if path.startswith("//anon"):
        return "[anonymous]"
    folder, _, file = path.rpartition("/")
    name, extensions = _PLATFORM.subn("", file)
    package = folder.rpartition("/")[2]
    if extensions and package not in SEARCHED:
        # A module of Python: many packages have a `_core.so`.
        return f"{package}/{name}"
    return name or "[unknown]"


def name_function(symbol: str) -> str:
    return _RUST_HASH.sub("", symbol)[:MOST_NAME]
