"""Starts a program again and again, and measures each run from `posix_spawn` to `waitid`.

It is a process of its own, executed as a script: the kernel counts the memory of the process that starts a program as
memory of that program. So this process is small, and imports only what is built into the interpreter.

The job is read from standard input and the outcome written to standard output, both by `marshal`: see `engines.py`.
"""

from __future__ import annotations

import gc
import marshal
import posix
import sys
import time

# Importing `typing` would make this process larger.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RESET = (13, 25)
"""SIGPIPE and SIGXFSZ, which Python ignores, and a program must not."""
PIECE = 1 << 16
BRIEF_NS = 100_000_000
"""First runs that together are shorter are left out if the job `settles`: they find the processor's caches cold."""
APPEND = posix.O_RDWR | posix.O_CREAT | posix.O_TRUNC


def main() -> None:
    job = marshal.loads(sys.stdin.buffer.read())
    posix.chdir(job["directory"])
    gc.disable()
    sys.stdout.buffer.write(marshal.dumps(measure_job(job)))


def measure_job(job: dict[str, Any]) -> tuple[list[tuple[int | None, ...]], int, tuple[str, int] | None]:
    """Returns the runs, each with the fields of `suites.commands.port.Run`; how often the output differed from that
    of the first run; and the shell command that failed, with its status."""
    words = job["words"]
    environment = job["environment"]
    allowed = job["allowed"]
    source = posix.open(job["input"], posix.O_RDONLY)
    errors = posix.open(job["errors"], APPEND, 0o600)
    kept = [posix.open(path, APPEND, 0o600) for path in job["outputs"]]
    nothing = posix.open("/dev/null", posix.O_WRONLY)
    # The others close themselves when the program is executed.
    runs = list["tuple[int | None, ...]"]()
    differing = 0
    spent = 0
    number, settled = -job["warmups"], 0
    if job["settles"]:
        # The first start of a program by this process takes longer, whatever the program. Not before a cold run: this
        # would read the shell, and the libraries that it shares with the program, into the page cache.
        shell(":", environment)
    while number < job["most"] and (number <= 0 or spent < job["limit_ns"]):
        if job["prepare"] and (status := shell(job["prepare"], environment)):
            return runs, differing, ("prepare", status)
        for descriptor in (errors, *kept[bool(runs) :]):
            posix.ftruncate(descriptor, 0)
            posix.lseek(descriptor, 0, 0)
        if job["seekable"]:
            posix.lseek(source, 0, 0)
        output = nothing
        if kept:
            output = kept[1] if runs else kept[0]
        actions = [(posix.POSIX_SPAWN_DUP2, at, to) for at, to in ((source, 0), (output, 1), (errors, 2))]
        before = core_wait_ns("self")
        start = time.monotonic_ns()
        process = posix.posix_spawn(words[0], words[1:], environment, file_actions=actions, setsigdef=RESET)
        posix.waitid(posix.P_PID, process, posix.WEXITED | posix.WNOWAIT)
        elapsed = time.monotonic_ns() - start
        # The kernel has a program's files in /proc until its end is acknowledged. This process waits for a core when
        # the program has ended.
        waited, after = core_wait_ns(process), core_wait_ns("self")
        if waited is not None and before is not None and after is not None:
            waited += after - before
        _, status, used = posix.wait4(process, 0)
        if job["conclude"] and (failed := shell(job["conclude"], environment)):
            return runs, differing, ("conclude", failed)
        code = posix.waitstatus_to_exitcode(status)
        bad = code != 0 and allowed is not None and code not in allowed
        if job["settles"] and not number and max(elapsed, settled) < BRIEF_NS and not bad:
            settled += elapsed
            continue
        if number >= 0 or bad:
            times = elapsed, round(used.ru_utime * 1e6) * 1_000, round(used.ru_stime * 1e6) * 1_000
            if kept and runs:
                differing += not equal(*kept)
            counts = used.ru_minflt, used.ru_majflt, used.ru_nvcsw, used.ru_nivcsw
            runs.append((*times, used.ru_maxrss << 10, code, waited, *counts))
            spent += elapsed
        if bad:
            break
        number += 1
    return runs, differing, None


def core_wait_ns(process: int | str) -> int | None:
    """Returns how long a process, which may have ended, was ready to run and waited for a core, without the processes
    that it started. None if the kernel does not count it."""
    try:
        file = posix.open(f"/proc/{process}/schedstat", posix.O_RDONLY)
    except OSError:
        return None
    words = posix.read(file, 100).split()
    posix.close(file)
    return int(words[1]) if len(words) > 1 else None


def equal(one: int, other: int) -> bool:
    """Returns whether two files have the same content."""
    if posix.fstat(one).st_size != posix.fstat(other).st_size:
        return False
    at = 0
    while piece := posix.pread(one, PIECE, at):
        if piece != posix.pread(other, PIECE, at):
            return False
        at += len(piece)
    return True


def shell(command: str, environment: dict[str, str]) -> int:
    """Runs a shell command with this process's errors and no output. Returns its exit status."""
    actions = [
        (posix.POSIX_SPAWN_OPEN, 0, "/dev/null", posix.O_RDONLY, 0),
        (posix.POSIX_SPAWN_OPEN, 1, "/dev/null", posix.O_WRONLY, 0),
    ]
    words = ["sh", "-c", command]
    process = posix.posix_spawn("/bin/sh", words, environment, file_actions=actions, setsigdef=RESET)
    return posix.waitstatus_to_exitcode(posix.waitpid(process, 0)[1])


if __name__ == "__main__":
    main()
