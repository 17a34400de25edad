"""Executes one trial in a process of its own: suite, engine and measuring loop.

The process is forked by `dyno.runner.worker_pool`. It reads its job, a line of JSON, from standard input, and reports
events to a pipe (`dyno.contracts.worker_protocol`). Standard output belongs to the engine.
"""

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from dyno import registry
from dyno.contracts import declarations
from dyno.contracts.cleanup import finally_
from dyno.contracts.declarations import EngineError, InvalidValue, doing, exception_text, typed_text
from dyno.contracts.model import Absent, Caveat, Refused, Tier, Unavailable, Value, Wrong
from dyno.contracts.pace import FLOOR_PATIENCE, PATIENCE, Pace
from dyno.contracts.passwords import mask_password
from dyno.contracts.roles import OpeningWorkload, TrialFactsWorkload
from dyno.contracts.suite import Job, Suite, Workload
from dyno.contracts.worker_protocol import LATE_SIGNAL, Reporter
from dyno.fields import plain
from dyno.host.process import die_with_parent
from dyno.host.usage import of_tree, own, own_peak_resident_bytes, peak_resident_bytes
from dyno.machines.scheduler import MachineLost
from dyno.measure.client_states import describe_late_clients
from dyno.measure.client_usage import ENDED_CLIENTS
from dyno.measure.clients import ClientDied, run_phase
from dyno.measure.loop import about, clocks, pick
from dyno.measure.phase import Stopwatch, sampled, serving
from dyno.measure.remote_load import RemoteLoad
from dyno.measure.tally import Tally
from dyno.servers import namespace, set_option, user_server
from dyno.servers.user_server import URL

SERVER = "server"
"""Name of the server's directory in the trial's directory, and of the lap in which the server starts."""


def work(descriptor: int, parent: int) -> NoReturn:
    """Executes the job and ends this process, with status 0 if it could report the outcome.

    The process ends without shutting down the interpreter. With all the modules that an engine loads, a shutdown
    takes a tenth of a short trial, and nothing in it is measured.
    """
    status = 1
    try:
        die_with_parent(parent)
        _execute(descriptor)
        status = 0
    except SystemExit as exit:
        status = exit.code if isinstance(exit.code, int) else int(exit.code is not None)
    except BaseException:
        traceback.print_exc()
    for printed in (sys.stdout, sys.stderr):
        with suppress(Exception):
            printed.flush()
    os._exit(status)


def _execute(descriptor: int) -> None:
    """Reads the job, executes it, and reports how it ended."""
    with Reporter(descriptor) as reporter:
        signal.signal(LATE_SIGNAL, lambda *_: reporter.report("late", why=describe_late_clients()))
        job = json.loads(sys.stdin.readline())
        spent = Stopwatch()
        outcome: str
        why: str | None
        resources: dict[str, Any] | None = None
        error: Exception | None = None
        unavailable = False
        try:
            resources = _remove_stores(job, reporter) if job.get("remove") else _trial(job, reporter, spent)
            outcome, why = "ok", None
        except Wrong as wrong:
            outcome, why = "wrong", exception_text(wrong)
        except Unavailable as failed:
            outcome, why = "error", exception_text(failed)
            unavailable = True
        except Refused as refusal:
            outcome, why = "refused", exception_text(refusal)
        except MemoryError as full:
            outcome, why = "out-of-memory", f"MemoryError: {exception_text(full)}".rstrip(": ")
        except (MachineLost, InvalidValue) as named:
            outcome, why = "error", exception_text(named)
        except (ClientDied, EngineError) as known:
            error = known
            outcome, why = "error", exception_text(known)
        except Exception as raised:
            error = raised
            outcome, why = "error", f"{type(error).__name__}: {exception_text(error)}"
        spent.lap("close")
        resources = resources or _resources()
        ending = {"outcome": outcome, "why": why, "unavailable": unavailable}
        reporter.report("end", **ending, resources=resources, spent_ns=spent.parts_ns)
        if error is not None:
            # Printed to the trial's output, which is stored if the trial failed.
            traceback.print_exception(error)


def _resources(server: Mapping[str, int | None] | None = None) -> dict[str, Any]:
    """Returns the usage of this process and its clients, with the largest peak. `server`: the server's usage."""
    # The bytes of this process include those of children that have ended, servers included.
    used = own() + ENDED_CLIENTS.usage
    peak = max(ENDED_CLIENTS.peak_resident_bytes, own_peak_resident_bytes())
    return {"client": {**asdict(used), "peak_resident_bytes": peak}, "server": server}


def _trial(message: Mapping[str, Any], reporter: Reporter, spent: Stopwatch) -> dict[str, Any]:
    """Executes the trial; returns the resources that it used."""
    suite = registry.suite(message["suite"], message["definition"])
    job = job_of(message, suite)
    spent.lap("start")
    with ExitStack() as stack:
        if server := job.spec.create_server(job.home / SERVER, job.tier, job.options, job.clients):
            reporter.report("phase", phase=SERVER)
            stack.enter_context(closing(server))
            server.start()
            spent.lap(SERVER)
            job = replace(job, server=server)
        stack.enter_context(_rights_checked(job))
        workload = suite.workload(job)
        # Closed even after an error, so that its stores on a user's own server are removed.
        stack.enter_context(finally_(workload.close))
        spent.lap("dataset")
        _phases(workload, suite, job, message, reporter, spent)
        trial_facts = workload.trial_facts() if isinstance(workload, TrialFactsWorkload) else {}
        facts = declarations.checked_values(trial_facts, f"suite {suite.name}: facts")
        reporter.report("facts", facts=facts)
        reporter.report("phase", phase="close")
        # Measured before the server ends: at its end the kernel adds its bytes to those of its parent, this process.
        if pids := serving(job):
            peaks = [peak_resident_bytes(pid) for pid in pids]
            peak = None if None in peaks else sum(peak or 0 for peak in peaks)
            return _resources({**asdict(of_tree(pids)), "peak_resident_bytes": peak})
    return _resources()


def job_of(message: Mapping[str, Any], suite: Suite) -> Job:
    """Returns the trial that the parent's message describes."""
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


def _remove_stores(message: Mapping[str, Any], reporter: Reporter) -> dict[str, Any]:
    """Removes the stores that an earlier worker of this trial left on a user's own server, and reports each that it
    could not remove. Returns the resources that it used."""
    job = job_of(message, registry.suite(message["suite"], message["definition"]))
    declared = job.spec.server
    server = job.spec.create_server(job.home / SERVER, job.tier, job.options, job.clients)
    if declared and server and not server.own and declared.remove is not None:
        shown = {**job.options, URL: mask_password(str(job.options[URL]))}
        homes = namespace.stores(job.home)
        for name in homes:
            command = "" if declared.removal is None else declared.removal(name, shown)
            reporter.report("store", name=name, command=command)
        for name, home in homes.items():
            try:
                replace(job, server=server).remove(home)
            except Exception as error:
                # Refused means that the server could not be reached.
                why = typed_text(error, exception_text(error))
                reporter.report("left", name=name, why=why, unreachable=isinstance(error, Refused))
            else:
                reporter.report("removed", name=name)
    return _resources()


@contextmanager
def _rights_checked(job: Job) -> Iterator[None]:
    """Raises Refused if the block fails because the login on the user's own server lacks a right."""
    try:
        yield
    except (Refused, Wrong):
        raise
    except Exception as error:
        right = None if job.spec.server is None else job.spec.server.missing_right
        if right is None or job.server is None or job.server.own:
            raise
        link: BaseException | None = error
        while isinstance(link, Exception):
            if (lacking := right(link)) is not None:
                raise Refused(f"the user of the server lacks a right: {lacking}") from error
            link = link.__cause__ or link.__context__
        raise


def _phases(
    workload: Workload, suite: Suite, job: Job, message: Mapping[str, Any], reporter: Reporter, spent: Stopwatch
) -> None:
    reporter.report("phase", phase="conformance")
    if not job.spec.floor:
        workload.conformance()
    spent.lap("conformance")
    pace = Pace(**message["pace"], patience=FLOOR_PATIENCE if job.spec.floor else PATIENCE)
    loop = pick(pace.loop)
    reporter.report("loop", **about(loop))
    reporter.clocks = partial(clocks, loop)
    spent.lap("loop")
    described = False
    run: Callable[..., Tally] = run_phase
    if scheduler := message.get("load_from"):
        run = RemoteLoad(scheduler, message, job)
    for phase in suite.phases:
        if phase.name not in message["phases"]:
            continue
        reporter.report("phase", phase=phase.name)
        try:
            workload.prepare(phase)
            opening = isinstance(workload, OpeningWorkload) and workload.opens(phase)
            if not described and not opening:
                reporter.report("engine", **_about(workload, job, run is not run_phase))
                described = True
            spent.lap("prepare")
            sample = plain(sampled(workload, phase, job, pace, spent, partial(reporter.report, "check"), run))
            if not described:
                reporter.report("engine", **_about(workload, job, run is not run_phase))
                described = True
            reporter.report("sample", sample=sample, check_ns=spent.check_ns)
            spent.lap("verify")
        except Absent as why:
            reporter.report("absent", phase=phase.name, why=exception_text(why))


def _about(workload: Workload, job: Job, remote: bool) -> dict[str, Any]:
    """Describes the engine. `remote`: whether other machines load it."""
    engine = workload.engine()
    name = job.spec.name
    where = f"engine {name}"
    foreign = job.server is not None and not job.server.own
    added_settings = dict[str, Value | None]()
    added_caveats = list[Caveat]()
    if remote and not foreign:
        # This machine's connection, which loads and checks the store, is not the clients'.
        tls = bool(job.server.reached()["files"])  # type: ignore[union-attr]
        added_settings = {"transport": "tcp", "tls": tls}
        added_caveats.append(user_server.ENCRYPTED if tls else user_server.UNENCRYPTED)
    with doing(name, "reading its version"):
        version = declarations.checked_text(engine.version(), f"{where}: version")
    with doing(name, "reading its settings"):
        settings = engine.settings()
        if added_settings:
            settings = {**settings, **added_settings}
        settings = declarations.checked_values(settings, f"{where}: settings")
    with doing(name, "reading its caveats"):
        every = chain(job.spec.caveats, engine.caveats(), workload.caveats(), added_caveats)
        caveats = declarations.checked_caveats(every, f"{where}: caveats")
    gives = None if job.spec.server is None else job.spec.server.gives
    return {
        "tier": gives(engine).value if gives is not None and foreign else None,
        "version": version,
        "settings": settings,
        "caveats": caveats,
    }
