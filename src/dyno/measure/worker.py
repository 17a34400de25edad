"""Executes one trial in a process of its own: suite, engine and measuring loop.

The process is forked by `dyno.runner.worker_pool`. It reads a request from standard input, and reports events to a
pipe (`dyno.measure.worker_protocol`). Standard output belongs to the engine.
"""

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
from typing import NoReturn, cast

from dyno import registry
from dyno.contracts import declarations
from dyno.contracts.cleanup import finally_
from dyno.contracts.declarations import EngineError, InvalidValue, convert_engine_errors, exception_text, typed_text
from dyno.contracts.decoded_types import Fact, Resources, Used
from dyno.contracts.model import Absent, Caveat, Refused, Unavailable, Value, Wrong
from dyno.contracts.passwords import mask_password
from dyno.contracts.roles import OpeningWorkload, TrialFactsWorkload
from dyno.contracts.suite import Job, Suite, Workload
from dyno.host.process import die_with_parent
from dyno.host.usage import measure_own, of_tree, own_peak_resident_bytes, peak_resident_bytes
from dyno.machines.scheduler import MachineLost
from dyno.measure.client_states import describe_late_clients
from dyno.measure.client_usage import ENDED_CLIENTS
from dyno.measure.clients import ClientDied, run_phase
from dyno.measure.counters import CounterReader
from dyno.measure.loop import clocks, describe_loop, pick
from dyno.measure.messages import (
    CheckBegan,
    EngineDescribed,
    LateClients,
    LoopDescribed,
    PhaseAbsent,
    PhaseBegan,
    PhaseMeasured,
    PhaseProfiled,
    StoreFound,
    StoreLeft,
    StoreRemoved,
    TrialEnded,
    TrialFacts,
    TrialRequest,
    decode,
)
from dyno.measure.phase import Stopwatch, measure_phase, server_pids
from dyno.measure.profiler import Profiler
from dyno.measure.remote_load import RemoteLoad
from dyno.measure.tally import Tally
from dyno.measure.worker_protocol import LATE_SIGNAL, Reporter
from dyno.servers import namespace, set_option, user_server
from dyno.servers.listen import JoinableServer
from dyno.servers.user_server import URL

SERVER = "server"
"""Name of the server's directory in the trial's directory, and of the lap in which the server starts."""


def work(descriptor: int, parent: int) -> NoReturn:
    """Executes the request and ends this process, with status 0 if it could report the outcome.

    The process ends without shutting down the interpreter. With all the modules that an engine loads, a shutdown
    takes a tenth of a short trial, and nothing in it is measured.
    """
    status = 1
    try:
        die_with_parent(parent)
        _execute(descriptor)
        status = 0
    except SystemExit as exit:
        if isinstance(exit.code, int):
            status = exit.code
        else:
            status = int(exit.code is not None)
    except BaseException:
        traceback.print_exc()
    for printed in (sys.stdout, sys.stderr):
        with suppress(Exception):
            printed.flush()
    os._exit(status)


def _execute(descriptor: int) -> None:
    """Reads the request, executes it, and reports how it ended."""
    with Reporter(descriptor) as reporter:
        signal.signal(LATE_SIGNAL, lambda *_: reporter.report(LateClients(describe_late_clients() or "")))
        request = decode(sys.stdin.buffer.readline(), TrialRequest)
        spent = Stopwatch()
        resources: Resources | None = None
        error: Exception | None = None
        try:
            if request.remove:
                resources = _remove_stores(request, reporter)
            else:
                resources = _run_trial(request, reporter, spent)
        except Exception as raised:
            error = raised
        spent.lap("close")
        ending = TrialEnded(
            outcome=_name_outcome(error),
            why=None if error is None else _explain(error),
            resources=resources or _resources(),
            spent_ns=spent.parts_ns,
            unavailable=isinstance(error, Unavailable),
        )
        reporter.report(ending)
        if error is not None and not isinstance(error, EXPECTED):
            # Printed to the trial's output, which is stored if the trial failed.
            traceback.print_exception(error)


EXPECTED = (Wrong, Refused, MemoryError, MachineLost, InvalidValue)
"""Errors whose text says everything, so that no traceback is printed."""


def _name_outcome(error: Exception | None) -> str:
    if error is None:
        return "ok"
    if isinstance(error, Wrong):
        return "wrong"
    if isinstance(error, Refused) and not isinstance(error, Unavailable):
        return "refused"
    if isinstance(error, MemoryError):
        return "out-of-memory"
    return "error"


def _explain(error: Exception) -> str:
    text = exception_text(error)
    if isinstance(error, MemoryError):
        return f"MemoryError: {text}".rstrip(": ")
    explained = (*EXPECTED, ClientDied, EngineError)
    if isinstance(error, explained):
        return text
    return f"{type(error).__name__}: {text}"


def _resources(server: Used | None = None) -> Resources:
    """Returns the usage of this process and its clients, with the largest peak. `server`: the server's usage."""
    # The bytes of this process include those of children that have ended, servers included.
    used = measure_own() + ENDED_CLIENTS.usage
    peak = max(ENDED_CLIENTS.peak_resident_bytes, own_peak_resident_bytes())
    return {"client": {**asdict(used), "peak_resident_bytes": peak}, "server": server}


def _run_trial(request: TrialRequest, reporter: Reporter, spent: Stopwatch) -> Resources:
    """Executes the trial; returns the resources that it used."""
    suite = registry.suite(request.suite, request.definition)
    job = resolve_job(request, suite)
    spent.lap("start")
    with ExitStack() as stack:
        if server := job.spec.create_server(job.home / SERVER, job.tier, job.options, job.clients):
            reporter.report(PhaseBegan(SERVER))
            stack.enter_context(closing(server))
            server.start()
            spent.lap(SERVER)
            job = replace(job, server=server)
        stack.enter_context(_rights_checked(job))
        workload = suite.workload(job)
        # Closed even after an error, so that its stores on a user's own server are removed.
        stack.enter_context(finally_(workload.close))
        spent.lap("dataset")
        _run_phases(workload, suite, job, request, reporter, spent)
        trial_facts: Mapping[str, Fact] = {}
        if isinstance(workload, TrialFactsWorkload):
            trial_facts = workload.trial_facts()
        facts = declarations.checked_values(trial_facts, f"suite {suite.name}: facts")
        reporter.report(TrialFacts(facts))
        reporter.report(PhaseBegan("close"))
        # Measured before the server ends: at its end the kernel adds its bytes to those of its parent, this process.
        if pids := server_pids(job):
            peaks = [peak for pid in pids if (peak := peak_resident_bytes(pid)) is not None]
            peak = None
            if len(peaks) == len(pids):
                peak = sum(peaks)
            return _resources({**asdict(of_tree(pids)), "peak_resident_bytes": peak})
    return _resources()


def resolve_job(request: TrialRequest, suite: Suite) -> Job:
    """Returns the trial that is requested."""
    spec = registry.reduce_to_suite(suite, registry.engine(request.engine))
    assert spec is not None
    options = set_option.with_names(spec.resolve(request.options), request.read_back)
    return Job(
        spec=spec.apply_options(options),
        home=Path(request.home),
        tier=request.tier,
        options=options,
        params=request.params,
        seed=request.seed,
        clients=request.clients,
        sealed=Path(request.sealed),
        thorough=request.thorough,
    )


def _remove_stores(request: TrialRequest, reporter: Reporter) -> Resources:
    """Removes the stores that an earlier worker of this trial left on a user's own server, and reports each that it
    could not remove. Returns the resources that it used."""
    job = resolve_job(request, registry.suite(request.suite, request.definition))
    declared = job.spec.server
    server = job.spec.create_server(job.home / SERVER, job.tier, job.options, job.clients)
    if declared and server and not server.own and declared.remove is not None:
        shown = {**job.options, URL: mask_password(str(job.options[URL]))}
        homes = namespace.stores(job.home)
        for name in homes:
            command = ""
            if declared.removal is not None:
                command = declared.removal(name, shown)
            reporter.report(StoreFound(name, command))
        for name, home in homes.items():
            try:
                replace(job, server=server).remove(home)
            except Exception as error:
                # Refused means that the server could not be reached.
                why = typed_text(error, exception_text(error))
                reporter.report(StoreLeft(name, why, unreachable=isinstance(error, Refused)))
            else:
                reporter.report(StoreRemoved(name))
    return _resources()


@contextmanager
def _rights_checked(job: Job) -> Iterator[None]:
    """Raises Refused if the block fails because the login on the user's own server lacks a right."""
    try:
        yield
    except (Refused, Wrong):
        raise
    except Exception as error:
        right = None
        if job.spec.server is not None:
            right = job.spec.server.missing_right
        if right is None or job.server is None or job.server.own:
            raise
        link: BaseException | None = error
        while isinstance(link, Exception):
            if (lacking := right(link)) is not None:
                raise Refused(f"the user of the server lacks a right: {lacking}") from error
            link = link.__cause__ or link.__context__
        raise


def _run_phases(
    workload: Workload, suite: Suite, job: Job, request: TrialRequest, reporter: Reporter, spent: Stopwatch
) -> None:
    reporter.report(PhaseBegan("conformance"))
    if job.thorough and not job.spec.floor:
        workload.conformance()
    spent.lap("conformance")
    loop = pick(request.pace.loop)
    reporter.report(LoopDescribed(describe_loop(loop)))
    reporter.clocks = partial(clocks, loop)
    spent.lap("loop")
    described = False
    reader = CounterReader(job)
    remarked = False
    profiler = None
    if request.profile is not None:
        profiler = Profiler(job, len(request.phases), request.profile)
    remote = request.load_from is not None
    if request.load_from is None:
        run: Callable[..., Tally] = run_phase
    else:
        run = RemoteLoad(request, job)
    for phase in suite.phases:
        if phase.name not in request.phases:
            continue
        reporter.report(PhaseBegan(phase.name))
        try:
            workload.prepare(phase)
            opening = isinstance(workload, OpeningWorkload) and workload.opens(phase)
            if not described and not opening:
                reporter.report(_describe_engine(workload, job, remote))
                described = True
            spent.lap("prepare")
            sample = measure_phase(
                workload,
                phase,
                job,
                request.pace,
                spent,
                lambda: reporter.report(CheckBegan()),
                run,
                reader,
                profiler,
            )
            remark = reader.caveat()
            if not described or (remark is not None and not remarked):
                reporter.report(_describe_engine(workload, job, remote, remark))
                described = True
                remarked = remark is not None
            reporter.report(PhaseMeasured(sample, spent.check_ns))
            if profiler is not None:
                reporter.report(PhaseProfiled(*profiler.read(phase.name, sample.items)))
            spent.lap("verify")
        except Absent as why:
            reporter.report(PhaseAbsent(phase.name, exception_text(why)))


def _describe_engine(workload: Workload, job: Job, remote: bool, remark: Caveat | None = None) -> EngineDescribed:
    """`remote`: whether other machines load it. `remark`: a further caveat."""
    engine = workload.engine()
    name = job.spec.name
    where = f"engine {name}"
    foreign = job.server is not None and not job.server.own
    added_settings = dict[str, Value | None]()
    added_caveats = list[Caveat]()
    if remark is not None:
        added_caveats.append(remark)
    if remote and not foreign:
        # This machine's connection, which loads and checks the store, is not the clients'.
        tls = bool(cast(JoinableServer, job.server).reached().files)
        added_settings = {"transport": "tcp", "tls": tls}
        added_caveats.append(user_server.ENCRYPTED if tls else user_server.UNENCRYPTED)
    with convert_engine_errors(name, "reading its version"):
        version = declarations.checked_text(engine.version(), f"{where}: version")
    with convert_engine_errors(name, "reading its settings"):
        settings = engine.settings()
        if added_settings:
            settings = {**settings, **added_settings}
        settings = declarations.checked_values(settings, f"{where}: settings")
    with convert_engine_errors(name, "reading its caveats"):
        every = chain(job.spec.caveats, engine.caveats(), workload.caveats(), added_caveats)
        caveats = declarations.checked_caveats(every, f"{where}: caveats")
    gives = None
    if job.spec.server is not None:
        gives = job.spec.server.gives
    tier = None
    if gives is not None and foreign:
        tier = gives(engine)
    return EngineDescribed(tier, version, settings, caveats)
