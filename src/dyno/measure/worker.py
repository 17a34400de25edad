"""One trial, in a process of its own: suite + engine + measuring loop, told by a pipe and telling by a pipe.

Forked by `dyno.measure.forker`, or started by the process PARENT as `python -m dyno.measure.worker FD PARENT`. It
reads two lines from standard input, the key of this trial and its job as JSON, and writes a line for each event to
file descriptor FD (`dyno.contracts.pipe`). Standard output belongs to the engine.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from dyno import registry
from dyno.contracts import declarations
from dyno.contracts.declarations import InvalidValue, exception_text
from dyno.contracts.model import Absent, Refused, Tier, Wrong
from dyno.contracts.pace import Pace
from dyno.contracts.sample import plain
from dyno.contracts.suite import Job, Suite, Workload
from dyno.host.process import die_with_parent
from dyno.host.usage import of_tree, own, peak_resident_bytes
from dyno.measure.clients import ENDED
from dyno.measure.loops import about, clocks, pick
from dyno.measure.phase import sampled, serving
from dyno.measure.reporter import Reporter
from dyno.measure.stopwatch import Stopwatch
from dyno.servers import namespace, set_option
from dyno.servers.user_server import URL
from dyno.text.passwords import mask_password

SERVER = "server"
"""Its directory in the trial's, and the name of the time that it takes to start."""


def work(descriptor: int, parent: int) -> NoReturn:
    """Carries out the job for the process `parent`, and ends this one, with status 0 where it could tell how it went.

    It ends at once: an interpreter that takes itself down, with all that an engine loaded, is a tenth of a short
    trial, and nothing that happens there is measured.
    """
    status = 1
    try:
        die_with_parent(parent)
        _told(descriptor)
        status = 0
    except SystemExit as exit:
        status = exit.code if isinstance(exit.code, int) else int(exit.code is not None)
    except BaseException:
        traceback.print_exc()
    for printed in (sys.stdout, sys.stderr):
        with suppress(Exception):
            printed.flush()
    os._exit(status)


def _told(descriptor: int) -> None:
    """Reads the job, executes it, and reports how it ended."""
    # Apart from the job, which is passed on: nobody else is to have it.
    with Reporter(descriptor, bytes.fromhex(sys.stdin.readline())) as pipe:
        job = json.loads(sys.stdin.readline())
        spent = Stopwatch()
        try:
            used = _remove_stores(job, pipe) if job.get("remove") else _trial(job, pipe, spent)
        except Wrong as wrong:
            _end(pipe, "wrong", exception_text(wrong), spent)
        except Refused as refused:
            _end(pipe, "refused", exception_text(refused), spent)
        except MemoryError as error:
            _end(pipe, "out-of-memory", f"MemoryError: {exception_text(error)}".rstrip(": "), spent)
        except InvalidValue as unfit:
            _end(pipe, "error", exception_text(unfit), spent)
        except Exception as error:
            _end(pipe, "error", f"{type(error).__name__}: {exception_text(error)}", spent)
            # For the trial's output, which is kept where it did not end well.
            traceback.print_exc()
        else:
            _end(pipe, "ok", None, spent, used)


def _end(
    pipe: Reporter, outcome: str, why: str | None, spent: Stopwatch, used: Mapping[str, Any] | None = None
) -> None:
    spent.on("close")
    resources = _used() if used is None else used
    pipe.tell("end", outcome=outcome, why=why, resources=resources, spent_ns=spent.parts_ns)


def _used(server: Mapping[str, int | None] | None = None) -> dict[str, Any]:
    return {"client": _client(), "server": server}


def _client() -> dict[str, int | None]:
    """What this process and its client processes used, all told. Their memory is that of the largest."""
    mine, clients = asdict(own()), asdict(ENDED)
    clients["peak_resident_bytes"] = max(
        clients["peak_resident_bytes"], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    )
    # Its bytes count those of its children that have ended, a server's too.
    return {**mine, **{name: (mine.get(name) or 0) + clients[name] for name in clients}}


def _server(job: Job) -> dict[str, int | None] | None:
    """The same of the processes that serve the engine; None where there are none. Their memory is the sum."""
    pids = serving(job)
    if not pids:
        return None
    peaks = [peak_resident_bytes(pid) for pid in pids]
    known = [peak for peak in peaks if peak is not None]
    return {**asdict(of_tree(pids)), "peak_resident_bytes": sum(known) if len(known) == len(peaks) else None}


def _trial(message: Mapping[str, Any], pipe: Reporter, spent: Stopwatch) -> dict[str, Any]:
    """Carries the job out; returns what was used."""
    suite = registry.suite(message["suite"])
    job = _job(message, suite)
    spent.on("start")
    with _served(job, pipe, spent) as job, _rights_checked(job), _closed(suite.workload(job)) as workload:
        spent.on("dataset")
        _phases(workload, suite, job, message, pipe, spent)
        pipe.tell("facts", facts=declarations.checked_values(workload.trial_facts(), f"suite {suite.name}: facts"))
        pipe.tell("phase", phase="close")
        # Before it ends: the kernel adds what it read and wrote to its parent's, which is this process.
        server = _server(job)
        used = _used(server)
    return used if server else _used()


def _job(message: Mapping[str, Any], suite: Suite) -> Job:
    spec = registry.through(suite, registry.engine(message["engine"]))
    assert spec is not None
    options = set_option.with_names(spec.resolve(message["options"]), message["read_back"])
    return Job(
        spec=spec.chosen(options),
        home=Path(message["home"]),
        tier=None if message["tier"] is None else Tier(message["tier"]),
        options=options,
        params=message["params"],
        seed=message["seed"],
        clients=message["clients"],
        sealed=Path(message["sealed"]),
    )


def _remove_stores(message: Mapping[str, Any], pipe: Reporter) -> dict[str, Any]:
    """Removes what an earlier worker of this trial left on a user's own server, and reports what it could not remove;
    returns what was used."""
    job = _job(message, registry.suite(message["suite"]))
    spec, start = job.spec, job.spec.server
    server = start and start(job.home / SERVER, job.tier, job.options, job.clients)
    if server and not server.own and spec.remove is not None:
        shown = {**job.options, URL: mask_password(str(job.options[URL]))}
        homes = namespace.stores(job.home)
        for name in homes:
            pipe.tell("store", name=name, command="" if spec.removal is None else spec.removal(name, shown))
        for name, home in homes.items():
            try:
                replace(job, server=server).remove(home)
            except Exception as error:
                # Raised where there is no connection to be had.
                pipe.tell("kept", name=name, why=exception_text(error), unreachable=isinstance(error, Refused))
            else:
                pipe.tell("removed", name=name)
    return _used()


@contextmanager
def _served(job: Job, pipe: Reporter, spent: Stopwatch) -> Iterator[Job]:
    """The job with its server, which runs inside the block."""
    wanted = job.spec.server
    server = wanted and wanted(job.home / SERVER, job.tier, job.options, job.clients)
    if not server:
        yield job
        return
    pipe.tell("phase", phase=SERVER)
    with closing(server):
        server.start()
        spent.on(SERVER)
        yield replace(job, server=server)


@contextmanager
def _rights_checked(job: Job) -> Iterator[None]:
    """Raises Refused if the block fails since the user of a user's own server lacks a right."""
    try:
        yield
    except (Refused, Wrong):
        raise
    except Exception as error:
        right = job.spec.missing_right
        if right is None or job.server is None or job.server.own:
            raise
        link: BaseException | None = error
        while isinstance(link, Exception):
            if (lacking := right(link)) is not None:
                raise Refused(f"the user of the server lacks a right: {lacking}") from error
            link = link.__cause__ or link.__context__
        raise


@contextmanager
def _closed(workload: Workload) -> Iterator[Workload]:
    """Closed at the end, in any case: what it has on a user's own server is taken off."""
    try:
        yield workload
    except BaseException:
        with suppress(Exception):
            workload.close()
        raise
    workload.close()


def _phases(
    workload: Workload, suite: Suite, job: Job, message: Mapping[str, Any], pipe: Reporter, spent: Stopwatch
) -> None:
    pipe.tell("phase", phase="conformance")
    workload.conformance()
    spent.on("conformance")
    pace = Pace(**message["pace"])
    loop = pick(pace.loop)
    pipe.tell("loop", **about(loop))
    pipe.clocks = partial(clocks, loop)
    spent.on("loop")
    told = False
    for phase in suite.phases:
        if phase.name not in message["phases"]:
            continue
        pipe.tell("phase", phase=phase.name)
        try:
            workload.prepare(phase)
            if not told and not workload.opens(phase):
                pipe.tell("engine", **_about(workload, job))
                told = True
            spent.on("prepare")
            sample = plain(sampled(workload, phase, job, pace, spent, partial(pipe.tell, "check")))
            if not told:
                pipe.tell("engine", **_about(workload, job))
                told = True
            pipe.tell("sample", sample=sample, check_ns=spent.check_ns)
            spent.on("verify")
        except Absent as why:
            pipe.tell("absent", phase=phase.name, why=exception_text(why))


def _about(workload: Workload, job: Job) -> dict[str, Any]:
    engine, who = workload.engine(), f"engine {job.spec.name}"
    caveats = chain(job.spec.caveats, engine.caveats(), workload.caveats())
    foreign = job.server is not None and not job.server.own
    return {
        "tier": job.spec.gives(engine).value if job.spec.gives is not None and foreign else None,
        "version": declarations.checked_text(engine.version(), f"{who}: version"),
        "settings": declarations.checked_values(engine.settings(), f"{who}: settings"),
        "caveats": declarations.checked_caveats(caveats, f"{who}: caveats"),
    }


if __name__ == "__main__":
    work(int(sys.argv[1]), int(sys.argv[2]))
