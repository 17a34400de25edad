"""Runs many commands in forked processes and checks each one: no traceback, a valid status, limited CPU time, and no
impossible figure."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from gzip import decompress
from itertools import pairwise
from pathlib import Path
from typing import Any

from dyno.cli import main
from dyno.host.process import die_with_parent
from dyno.report.page import build, parts

CPU_SECONDS = 20
MEMORY_BYTES = 4 << 30
STATUSES = (0, 1, 2, 3)


@dataclass(frozen=True)
class Case:
    """Commands to run one after the other, in a separate directory with these files."""

    name: str
    files: Mapping[str, bytes]
    commands: Sequence[Sequence[str]]
    rest: Sequence[Sequence[str]] = ()
    """Commands to skip if the first one is refused."""


@dataclass(frozen=True)
class Ended:
    """The result of a command; `wrong` describes what is wrong with it, if anything."""

    case: str
    words: Sequence[str]
    status: int | None
    wrong: str | None


class TooLong(BaseException):
    """The command took more than CPU_SECONDS."""


def run_cases(make: Callable[[int], Case], seeds: Sequence[int], processes: int) -> list[Ended]:
    """Runs all cases. The process that runs a case also makes it from its seed."""
    with tempfile.TemporaryDirectory() as place:
        reports = [Path(place, str(number)) for number in range(processes)]
        shares = [list(seeds[number::processes]) for number in range(processes)]
        alive = {_forked(make, share, path): (share, path) for share, path in zip(shares, reports, strict=True)}
        results: list[Ended] = []
        while alive:
            # Wait only for these processes: the tests may have other children.
            pid, status = os.waitpid(next(iter(alive)), 0)
            share, path = alive.pop(pid)
            if status:
                results.append(_died(path, status))
                done = sum('"case"' in line for line in path.read_text().splitlines())
                # The case that killed the process is not run again.
                rest = share[done:]
                more = path.with_name(f"{path.name}-{done}")
                alive[_forked(make, rest, more)] = (rest, more)
                reports.append(more)
        return results + [ended for path in reports for ended in _read(path)]


def _forked(make: Callable[[int], Case], seeds: Sequence[int], told: Path) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        die_with_parent(parent)
        _limit()
        with tempfile.TemporaryDirectory() as home, told.open("w") as file:
            for seed in seeds:
                case = make(seed)
                file.write(json.dumps({"case": case.name}) + "\n")
                file.flush()
                for ended in _case(case, Path(home)):
                    file.write(json.dumps([ended.case, list(ended.words), ended.status, ended.wrong]) + "\n")
                    file.flush()
        status = 0
    except BaseException:
        traceback.print_exc()
    os._exit(status)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    # Cache the charting library: it is the same on every page, and takes longer to compress than everything else.
    parts.library = cache(parts.library)
    page_builder: Any = build
    page_builder.pack = cache(parts.pack)
    signal.signal(signal.SIGPROF, _too_long)
    # Prevents commands from opening a browser.
    os.environ["BROWSER"] = "/bin/true"


def _too_long(number: int, frame: Any) -> None:
    raise TooLong


def _died(path: Path, status: int) -> Ended:
    *_, last = path.read_text().splitlines() or ["{}"]
    return Ended(str(last), (), None, f"the process died: {status}")


def _read(path: Path) -> Iterator[Ended]:
    for line in path.read_text().splitlines():
        if line.startswith("["):
            yield Ended(*json.loads(line))


def _case(case: Case, home: Path) -> Iterator[Ended]:
    place = Path(tempfile.mkdtemp(dir=home))
    os.chdir(place)
    os.environ["DYNO_WORK"] = str(place / "work")
    for name, content in case.files.items():
        Path(name).write_bytes(content)
    refused = False
    for number, words in enumerate((*case.commands, *case.rest)):
        if number < len(case.commands) or not refused:
            ended = run(case.name, words)
            refused = refused or (number == 0 and ended.status == 2)
            yield ended
    for name, content in case.files.items():
        if not Path(name).exists() or Path(name).read_bytes() != content:
            yield Ended(case.name, (), None, f"{name} is not what it was")
    os.chdir(home)
    shutil.rmtree(place, ignore_errors=True)


def run(case: str, words: Sequence[str]) -> Ended:
    """Runs one command in this process."""
    status: Any = None
    wrong: str | None = None
    with _caught() as (out, err):
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        try:
            main(list(words))
        except SystemExit as ended:
            status = ended.code
        except TooLong:
            wrong = f"took over {CPU_SECONDS} s of CPU time"
        except BaseException as error:
            wrong = _where(error)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.flush()
        sys.stderr.flush()
        outputs = [os.pread(file, os.fstat(file).st_size, 0).decode("utf-8", "replace") for file in (out, err)]
    wrong = wrong or nonsense(words, status, *outputs)
    return Ended(case, words, status if isinstance(status, int) else None, wrong)


@contextlib.contextmanager
def _caught() -> Iterator[tuple[int, int]]:
    """Redirects standard output and error to files by descriptor, because commands create their own streams."""
    streams, before = (sys.stdout, sys.stderr), (os.dup(1), os.dup(2))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            yield out.fileno(), err.fileno()
        finally:
            sys.stdout, sys.stderr = streams
            for descriptor, old in enumerate(before, 1):
                os.dup2(old, descriptor)
                os.close(old)


def _where(error: BaseException) -> str:
    frames = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)]
    return f"{type(error).__name__} at {' < '.join(reversed(frames[-3:]))}: {str(error)[:200]}"


# -- checks of output -----------------------------------------------------------------------------------------

NO_NUMBER = re.compile(r"(?<![\w.\\])[-+]?(nan|inf|NaN|Infinity)(?![\w])")
# Figures that are percentages of a whole. Other percentages may exceed 100, such as the CPU time of several threads.
SHARES = re.compile(
    r"(?:harness|steal|stood) ([\d,.]+) %|([\d,.]+) % (?:of \d+ cores|of its files|was stolen|of a trial's CPU time)"
    r"|(?:under load was|stood still for|waited for memory for|harness took up to) ([\d,.]+) %"
    r"|([\d,.]+) % of (?:the CPU time to others|rate)"
)
HARMFUL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# Keys of a cell whose values may be negative.
SIGNED = {"written_bytes", "facts", "trial_facts", "params", "settings", "plan", "options"}


def nonsense(words: Sequence[str], status: Any, out: str, err: str) -> str | None:
    """Describes what is wrong with a command's result; returns None if nothing is."""
    if status not in STATUSES:
        return f"status {status!r}"
    if "Traceback" in err:
        return "a traceback"
    if status == 2:
        *before, last = err.splitlines() or [""]
        if not last.startswith("dyno: ") or any(not line.startswith("skipped: ") for line in before):
            return f"not one line: {err[:300]!r}"
    if harmful := HARMFUL.search(out.replace("\r\n", "\n") + err):
        return f"harmful: {harmful.group()!r}"
    if status != 2:
        return _figures(words, out) or _files(words)
    return None


def _figures(words: Sequence[str], out: str) -> str | None:
    # With -o, the command prints only a message; after another flag, --json may be that flag's value.
    as_json = any(word == "--json" and not before.startswith("-") for before, word in pairwise(words))
    if as_json and not any(word.startswith(("-o", "--output", "--help")) for word in words):
        return _json(out)
    if found := NO_NUMBER.search(out):
        return f"no number: {out[max(found.start() - 60, 0) : found.end() + 20]!r}"
    for found in SHARES.finditer(out):
        if any(float(share.replace(",", "").rstrip(".")) > 100 for share in found.groups() if share):
            return f"over 100 %: {found.group()!r}"
    return None


def _json(text: str) -> str | None:
    def refuse(constant: str) -> Any:
        raise ValueError(constant)

    try:
        data = json.loads(text, parse_constant=refuse)
    except ValueError as error:
        return f"no JSON: {error}"
    return next(_wrong(data, ""), None)


def _wrong(found: Any, at: str) -> Iterator[str]:
    if isinstance(found, dict):
        for name, value in found.items():
            if name not in SIGNED:
                yield from _wrong(value, f"{at}.{name}")
    elif isinstance(found, list):
        for value in found:
            yield from _wrong(value, f"{at}[]")
    elif isinstance(found, (int, float)) and ("cells" in at or "samples" in at):
        if found < 0 and ".param_" not in at and ".fact_" not in at and "written_bytes" not in at:
            yield f"negative: {at} = {found}"
        if "percent" in at and found > 100:
            yield f"over 100 %: {at} = {found}"


def _files(words: Sequence[str]) -> str | None:
    """Checks the files that a command wrote; describes what is wrong, if anything."""
    for path in [*Path.cwd().rglob("*.html"), *Path.cwd().rglob("*.svg")]:
        text = path.read_text(encoding="utf-8")
        for packed in re.findall(r"H4sI[\w+/]+=*", text):
            text += decompress(b64decode(packed)).decode() if len(packed) < 200_000 else ""
        if path.suffix == ".svg" and (found := re.search(r"NaN|Infinity|undefined", text)):
            return f"{path.name}: {text[max(found.start() - 60, 0) : found.end() + 20]!r}"
        path.unlink()
    return None


if __name__ == "__main__":
    print(run("by hand", sys.argv[1:]), time.process_time())
