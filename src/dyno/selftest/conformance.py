"""Runs the conformance checks of all ports of an engine. The checks of each suite run in a separate process."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from dyno import registry
from dyno.contracts import declarations
from dyno.contracts.declarations import exception_text
from dyno.contracts.engine import EngineSpec, Gap, Server
from dyno.contracts.model import Refused, Tier
from dyno.contracts.sanitize import sanitize
from dyno.contracts.settings import resolve
from dyno.contracts.suite import Job, Suite, Workload
from dyno.contracts.value_types import JsonMapping
from dyno.host import interpreters
from dyno.host.process import die_with_parent, nothing_left, own_session
from dyno.runner.trial import Watch, default_limit
from dyno.suites._shared import ordered_kv

if TYPE_CHECKING:
    from types import ModuleType

PASS = "pass"
GAP = "gap"
FAIL = "fail"
SKIPPED = "not run"
TIMEOUT_SECONDS = 900.0
"""Time limit for all checks of one suite at one tier. HBase and Spark take minutes to start."""
POLL_SECONDS = 0.05
ENGINE = "engine"
"""Name of the check of the opened engine itself: its version, settings, files and caveats."""
BRIEF = "brief"
"""Name of `Workload.conformance`, which is the only check of a suite that has no table `CHECKS`."""
UNCHECKED = "suite {} has no checks: add a table CHECKS to its module, or the method conformance to its workload"
SHARED: Mapping[str, ModuleType] = {ordered_kv.PORT: ordered_kv}
"""Modules of ports that have their own checks, in addition to those of the suites that use them."""


@dataclass(frozen=True)
class ConformanceResult:
    """Outcome of one check."""

    port: str
    suite: str
    """Name of the suite; empty for a port's own checks."""
    check: str
    outcome: str
    """Outcome of the check: PASS, GAP, FAIL or SKIPPED."""
    guards: str
    """Property that the check guards, in one sentence."""
    reason: str = ""
    """Reason of a failure, of a check that was not run, or of a declared gap."""
    kind: str = ""
    """Kind of the gap: 'unsupported', 'upstream' or 'todo'."""


def results(
    spec: EngineSpec, given: Mapping[str, object], tier: Tier | None, work: Path
) -> Iterator[ConformanceResult]:
    """Runs all checks below the directory `work`, the ports' own checks first. Yields a result for each check.
    `given`: options as the user wrote them. Options of a port apply to the checks of that port only."""
    units = [(port, "") for port in spec.ports if port in SHARED]
    through = ((suite, registry.reduce_to_suite(suite, spec)) for suite in registry.suites())
    units += [(next(iter(one.ports)), suite.name) for suite, one in through if one is not None]
    for number, (port, suite) in enumerate(units):
        reduced = spec.reduce_to_port(port)
        options = {name: given[name] for name in given if name in {option.name for option in reduced.options}}
        checks = _checks(port, suite, "CHECKS")
        if reduced.clients != "one":
            checks |= _checks(port, suite, "TWO_CLIENT_CHECKS")
        guards = {name: _guards(check) for name, check in checks.items()}
        if not guards:
            guards[BRIEF] = "The answers pass the suite's brief check, which is run before each trial."
        guards[ENGINE] = "Version, settings, files and caveats have the right types."
        gaps = {gap.check: gap for gap in spec.ports[port].gaps}
        home = work / f"conform-{number}"
        if tier in reduced.tiers:
            own_tier = tier
        else:
            own_tier = reduced.default_tier
        job = {
            "engine": spec.name,
            "port": port,
            "suite": suite,
            "tier": own_tier and own_tier.value,
            "options": options,
            "home": str(home),
        }
        outcomes, reason = dict[str, str | None](), reduced.explain_unavailability(reduced.resolve(options)) or ""
        if not reason:
            home.mkdir()
            outcomes, reason = _run(spec.python(reduced.resolve(options)), job)
        for name, guard in guards.items():
            outcome, why, kind = _judge_outcome(name, outcomes, reason, gaps.get(name))
            yield ConformanceResult(port, suite, name, outcome, guard, why, kind)


def _checks(port: str, suite: str, name: str) -> dict[str, Callable[..., None]]:
    """Returns the checks of a suite, or the port's own if `suite` is empty. `name`: name of their table."""
    if suite:
        module = registry.conformance(registry.suite(suite))
    else:
        module = SHARED[port]
    return dict(getattr(module, name, {}))


def _guards(check: Callable[..., None]) -> str:
    if inspect.isfunction(check):
        return (inspect.getdoc(check) or "").split("\n\n")[0].replace("\n", " ")
    return ""


def _judge_outcome(
    name: str, outcomes: Mapping[str, str | None], reason: str, gap: Gap | None
) -> tuple[str, str, str]:
    """Returns the fields `outcome`, `reason` and `kind` of a result."""
    if name not in outcomes:
        return SKIPPED, reason, ""
    error = outcomes[name]
    if gap is not None:
        excess = "passes, although it is declared as a gap: remove the Gap"
        if error is None:
            return (FAIL, excess, "")
        return (GAP, gap.reason, gap.kind)
    if error is None:
        return (PASS, "", "")
    return (FAIL, error, "")


def _run(python: interpreters.Python, job: Mapping[str, object]) -> tuple[dict[str, str | None], str]:
    """Runs the job in a process of the interpreter `python`, within the limits of time and memory. Returns the error
    of each finished check (None: it passed), and why the others were not run."""
    events = Path(str(job["home"]), "events")
    log = Path(str(job["home"]), "stderr")
    exceeded = ""
    with nothing_left(), log.open("wb") as stderr:
        child = subprocess.Popen(
            [*python.words("dyno.selftest.conformance"), str(events)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            **own_session(),
        )
        watch = Watch(child.pid, default_limit(), monotonic() + TIMEOUT_SECONDS)
        assert child.stdin is not None
        with suppress(BrokenPipeError), child.stdin as stdin:
            stdin.write(json.dumps(job).encode() + b"\n")
        while child.poll() is None:
            if verdict := watch.verdict():
                if verdict == "timeout":
                    limit = f"{TIMEOUT_SECONDS:g} s"
                else:
                    limit = f"{watch.limit_bytes >> 20} MiB of memory"
                exceeded = f"took more than {limit}"
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                child.wait(POLL_SECONDS)
    outcomes: dict[str, str | None] = {}
    reason = ""
    running = ""
    status = child.returncode
    for event in map(json.loads, events.read_text().splitlines() if events.exists() else ()):
        if "refused" in event:
            reason = sanitize(event["refused"], keep="")
        elif "begin" in event:
            running = event["begin"]
        else:
            outcomes[event["end"]], running = event["error"] and sanitize(event["error"], keep=""), ""
    if status:
        if status < 0:
            how = f"was killed by {signal.Signals(-status).name}"
        else:
            how = f"ended with status {status}"
        last = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()][-1:]
        reason = sanitize(": ".join([exceeded or f"the process {how}", *last]), keep="")
        if running:
            outcomes[running] = reason
    return outcomes, reason or "the process ended early"


def main(events_file: str) -> None:
    """Reads a job from standard input, runs its checks, and writes events to a file."""
    die_with_parent(os.getppid())
    job = json.loads(sys.stdin.readline())
    with Path(events_file).open("w", buffering=1) as events:

        def tell(**event: object) -> None:
            events.write(json.dumps(event) + "\n")

        try:
            _check(job, tell)
        except Refused as refused:
            tell(refused=exception_text(refused))


def _check(message: JsonMapping, tell: Callable[..., None]) -> None:
    port, suite_name = message["port"], message["suite"]
    spec = registry.engine(message["engine"]).reduce_to_port(port)
    options = spec.resolve(message["options"])
    spec = spec.apply_options(options)
    tier = message["tier"] and Tier(message["tier"])
    home = Path(message["home"])
    with ExitStack() as stack:
        server: Server | None = None
        if server := spec.create_server(home / "server", tier, options, 2):
            stack.callback(server.close)
            server.start()
        suite = None
        if suite_name:
            suite = registry.suite(suite_name)
        # The checks have their own inputs. The parameters are needed only because the suite opens the port with them.
        params = {}
        if suite:
            params = {**resolve(suite.params, {}, suite.name), "clients": 1}
        job = Job(spec, home, tier, options, params, seed=1, clients=2, server=server)
        stores = _Stores(job, suite)
        stack.callback(stores.close)
        checks: dict[str, Callable[[], None]] = {
            name: partial(check, stores.open, tier) for name, check in _checks(port, suite_name, "CHECKS").items()
        }
        if spec.clients != "one":
            two = _checks(port, suite_name, "TWO_CLIENT_CHECKS")
            checks |= {name: partial(stores.two, name, check) for name, check in two.items()}
        if not checks:
            brief = stores.brief()
            if brief is None:
                tell(refused=UNCHECKED.format(suite_name))
            else:
                checks[BRIEF] = brief
        checks[ENGINE] = stores.describe
        for name, attempt in checks.items():
            tell(begin=name)
            try:
                attempt()
            except Exception as error:
                tell(end=name, error=f"{type(error).__name__}: {exception_text(error)}")
            else:
                tell(end=name, error=None)


@contextmanager
def _close_after(port: object) -> Iterator[object]:
    """Yields the port. Closes it afterwards, if it has a method for that, which not every suite asks for."""
    with closing(port) if hasattr(port, "close") else nullcontext():
        yield port


class _Stores:
    """Stores below the job's home, opened by the names that the checks use."""

    def __init__(self, job: Job, suite: Suite | None) -> None:
        self._job, self._home = job, job.home / "stores"
        self._home.mkdir()
        # The port as the suite opens it; None for a suite whose trials open their engine once.
        self._workload = None if suite is None else suite.workload(job)
        self._port = job.port if self._workload is None else getattr(self._workload, "port", None)
        self._stack = ExitStack()
        self._shared: object = None

    @contextmanager
    def open(self, name: str, *how: object) -> Iterator[object]:
        """Opens a port on the store of that name. Creates the store if it is new."""
        if self._port is None:
            # All checks of such a suite share one store: starting Java for each check would take minutes.
            if self._shared is None:
                engine = self._stack.enter_context(closing(self._job.open(self._create_home("store"))))
                self._shared = self._stack.enter_context(_close_after(self._job.port(engine)))
            yield self._shared
            return
        home = self._create_home(name)
        with closing(self._job.open(home)) as engine, _close_after(self._port(engine, *how)) as port:
            yield port

    def _create_home(self, name: str) -> Path:
        home = self._home / name
        home.mkdir(exist_ok=True)
        return home

    def two(self, name: str, check: Callable[..., None]) -> None:
        """Runs a check that needs two clients."""
        assert self._port is not None
        with (
            closing(self._job.open(self._create_home(name))) as engine,
            _close_after(self._port(engine)) as one,
            _close_after(self._port(engine)) as other,
        ):
            check(one, other)

    def brief(self) -> Callable[[], None] | None:
        """Returns the check that the suite runs before each trial, or None if it has none."""
        workload = self._workload
        if workload is None or type(workload).conformance is Workload.conformance:
            return None
        return workload.conformance

    def describe(self) -> None:
        """Checks what the engine reports about itself. Raises InvalidValue or TypeError for a wrong type."""
        self._stack.close()
        with closing(self._job.open(self._create_home("described"))) as engine:
            declarations.checked_text(engine.version(), "version")
            declarations.checked_values(engine.settings(), "settings")
            declarations.checked_caveats(engine.caveats(), "caveats")
            for path in engine.files():
                if not isinstance(path, Path):
                    raise TypeError(f"files: expected a Path, got {path!r:.80}")

    def close(self) -> None:
        """Closes all stores, and removes them from the user's own server."""
        self._stack.close()
        if self._workload is not None:
            self._workload.close()
        for home in sorted(self._home.iterdir()):
            self._job.remove(home)


if __name__ == "__main__":
    main(*sys.argv[1:])
