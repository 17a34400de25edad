"""Runs the conformance checks of all ports of an engine. The checks of each suite run in a separate process."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any

from dyno import registry
from dyno.contracts import declarations, ordered_kv
from dyno.contracts.declarations import exception_text
from dyno.contracts.engine import EngineSpec, Gap, Server
from dyno.contracts.model import Refused, Tier
from dyno.contracts.sanitize import sanitize
from dyno.contracts.settings import resolve
from dyno.contracts.suite import Job, Suite
from dyno.host import interpreters
from dyno.host.process import die_with_parent, environment, nothing_left
from dyno.runner.resources import Watch, default_limit

PASS, GAP, FAIL, SKIPPED = "pass", "gap", "fail", "not run"
TIMEOUT_SECONDS = 900.0
"""Time limit for all checks of one suite at one tier. HBase and Spark take minutes to start."""
POLL_SECONDS = 0.05
ENGINE = "engine"
"""Name of the check of the opened engine itself: its version, settings, files and caveats."""
SHARED: Mapping[str, Any] = {ordered_kv.PORT: ordered_kv}
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


@dataclass(frozen=True)
class Unit:
    """Checks that run in one process: a port's own checks (`suite` is empty), or a suite's checks
    through that port.
    """

    port: str
    suite: str

    def checks(self, two_clients: bool = False) -> dict[str, Callable[..., None]]:
        """Returns the checks of one client, or of two clients of one store, by name."""
        module = registry.conformance(registry.suite(self.suite)) if self.suite else SHARED[self.port]
        return {**getattr(module, "TWO_CLIENT_CHECKS" if two_clients else "CHECKS", {})}


def units(spec: EngineSpec) -> list[Unit]:
    """Returns the units for all ports of the engine, the ports' own checks first."""
    own = [Unit(port, "") for port in spec.ports if port in SHARED]
    through = ((suite, registry.through(suite, spec)) for suite in registry.suites())
    return own + [Unit(next(iter(one.ports)), suite.name) for suite, one in through if one is not None]


def results(spec: EngineSpec, given: Mapping[str, Any], tier: Tier | None, work: Path) -> Iterator[ConformanceResult]:
    """Runs all checks below the directory `work`. Yields a result for each check.

    `given`: options as the user wrote them. Options of a port apply to the checks of that port only.
    """
    for number, unit in enumerate(units(spec)):
        reduced = spec.through(unit.port)
        options = {name: given[name] for name in given if name in {option.name for option in reduced.options}}
        guards = {name: _guards(check) for name, check in unit.checks().items()}
        if reduced.clients != "one":
            guards |= {name: _guards(check) for name, check in unit.checks(two_clients=True).items()}
        if not guards:
            continue
        guards[ENGINE] = "Version, settings, files and caveats have the right types."
        gaps = {gap.check: gap for gap in spec.ports[unit.port].gaps}
        home = work / f"conform-{number}"
        own_tier = tier if tier in reduced.tiers else reduced.default_tier
        job = {
            "engine": spec.name,
            "port": unit.port,
            "suite": unit.suite,
            "tier": own_tier and own_tier.value,
            "options": options,
            "home": str(home),
        }
        outcomes, reason = dict[str, str | None](), reduced.lacking(reduced.resolve(options)) or ""
        if not reason:
            home.mkdir()
            outcomes, reason = _run(str(spec.interpreter() or sys.executable), job)
        for name, guard in guards.items():
            yield ConformanceResult(
                unit.port, unit.suite, name, *_judged(name, guard, outcomes, reason, gaps.get(name))
            )


def _guards(check: Callable[..., None]) -> str:
    return (inspect.getdoc(check) or "").split("\n\n")[0].replace("\n", " ") if inspect.isfunction(check) else ""


def _judged(
    name: str, guards: str, outcomes: Mapping[str, str | None], reason: str, gap: Gap | None
) -> tuple[str, str, str, str]:
    """Returns the fields `outcome`, `guards`, `reason` and `kind` of a result."""
    if name not in outcomes:
        return SKIPPED, guards, reason, ""
    error = outcomes[name]
    if gap is not None and error is None:
        return FAIL, guards, "passes, although it is declared as a gap: remove the Gap", ""
    if gap is not None:
        return GAP, guards, gap.reason, gap.kind
    return (PASS, guards, "", "") if error is None else (FAIL, guards, error, "")


def _run(python: str, job: Mapping[str, Any]) -> tuple[dict[str, str | None], str]:
    """Runs the job in a process of the interpreter `python`.

    Returns the error of each finished check (None: it passed), and why the others were not run.
    """
    outcomes: dict[str, str | None] = {}
    reason, running, parent, log = "", "", os.getpid(), Path(job["home"], "stderr")
    reading, writing = os.pipe()
    with nothing_left(), os.fdopen(reading) as events, log.open("w+", errors="replace") as stderr:
        child = subprocess.Popen(
            [*interpreters.words(python, "dyno.selftest.conformance"), str(writing)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            text=True,
            env=environment(),
            pass_fds=[writing],
            start_new_session=True,
            preexec_fn=lambda: die_with_parent(parent),
        )
        os.close(writing)
        assert child.stdin is not None
        with suppress(BrokenPipeError), child.stdin as stdin:
            stdin.write(json.dumps(job) + "\n")
        with _limited(child) as limits:
            for line in events:
                event = json.loads(line)
                if "refused" in event:
                    reason = sanitize(event["refused"], keep="")
                elif "begin" in event:
                    running = event["begin"]
                else:
                    outcomes[event["end"]], running = event["error"] and sanitize(event["error"], keep=""), ""
            status = child.wait()
        stderr.seek(0)
        last = [line.strip() for line in stderr if line.strip()][-1:]
    if status:
        how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        how = limits[0] if limits else f"the process {'was ' if status < 0 else ''}{how}"
        reason = sanitize(": ".join([how, *last]), keep="")
        if running:
            outcomes[running] = reason
    return outcomes, reason or "the process ended early"


@contextmanager
def _limited(child: subprocess.Popen[str]) -> Iterator[list[str]]:
    """Kills the process and its session if it exceeds the limit of time or memory.

    Yields a list, to which it adds the reason.
    """
    watch, limits, done = Watch(child.pid, default_limit(), monotonic() + TIMEOUT_SECONDS), list[str](), Event()

    def poll() -> None:
        while not done.wait(POLL_SECONDS):
            if verdict := watch.verdict():
                memory = f"{watch.limit_bytes >> 20} MiB of memory"
                limits.append(f"took more than {memory if verdict != 'timeout' else f'{TIMEOUT_SECONDS:g} s'}")
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                return

    thread = Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield limits
    finally:
        done.set()
        thread.join()


def main() -> None:
    """Reads a job from standard input, runs its checks, and writes events to the file descriptor in argv."""
    die_with_parent(os.getppid())
    job = json.loads(sys.stdin.readline())
    with os.fdopen(int(sys.argv[1]), "w", buffering=1) as events:

        def tell(**event: Any) -> None:
            events.write(json.dumps(event) + "\n")

        try:
            _check(job, tell)
        except Refused as refused:
            tell(refused=exception_text(refused))


def _check(message: Mapping[str, Any], tell: Callable[..., None]) -> None:
    unit = Unit(message["port"], message["suite"])
    spec = registry.engine(message["engine"]).through(unit.port)
    options = spec.resolve(message["options"])
    spec, tier, home = spec.chosen(options), message["tier"] and Tier(message["tier"]), Path(message["home"])
    with ExitStack() as stack:
        server: Server | None = None
        if spec.server is not None and (server := spec.server(home / "server", tier, options, 2)):
            stack.callback(server.close)
            server.start()
        suite = registry.suite(unit.suite) if unit.suite else None
        # The checks have their own inputs. The parameters are needed only because the suite opens the port with them.
        params = {**resolve(suite.params, {}, suite.name), "clients": 1, "rate": "max"} if suite else {}
        job = Job(spec, home, tier, options, params, seed=1, clients=2, server=server)
        stores = _Stores(job, suite)
        stack.callback(stores.close)
        for name, check in unit.checks().items():
            _attempt(name, tell, partial(check, stores.open, tier))
        for name, check in unit.checks(two_clients=True).items() if spec.clients != "one" else ():
            _attempt(name, tell, partial(stores.two, name, check))
        _attempt(ENGINE, tell, stores.describe)


def _attempt(name: str, tell: Callable[..., None], check: Callable[[], None]) -> None:
    tell(begin=name)
    try:
        check()
    except Exception as error:
        tell(end=name, error=f"{type(error).__name__}: {exception_text(error)}")
    else:
        tell(end=name, error=None)


class _Stores:
    """Stores below the job's home, opened by the names that the checks use."""

    def __init__(self, job: Job, suite: Suite | None) -> None:
        self._job, self._home = job, job.home / "stores"
        self._home.mkdir()
        # The port as the suite opens it; None for a suite whose trials open their engine once.
        self._port = job.port if suite is None else getattr(suite.workload(job), "port", None)
        self._stack = ExitStack()
        self._shared: Any = None

    @contextmanager
    def open(self, name: str, *how: Any) -> Iterator[Any]:
        """Opens a port on the store of that name. Creates the store if it is new."""
        if self._port is None:
            # All checks of such a suite share one store: starting Java for each check would take minutes.
            yield self._opened_once()
            return
        home = self._created(name)
        with closing(self._job.open(home)) as engine, closing(self._port(engine, *how)) as port:
            yield port

    def _created(self, name: str) -> Path:
        home = self._home / name
        home.mkdir(exist_ok=True)
        return home

    def _opened_once(self) -> Any:
        if self._shared is None:
            engine = self._stack.enter_context(closing(self._job.open(self._created("store"))))
            self._shared = self._stack.enter_context(closing(self._job.port(engine)))
        return self._shared

    def two(self, name: str, check: Callable[..., None]) -> None:
        """Runs a check that needs two clients."""
        assert self._port is not None
        with (
            closing(self._job.open(self._created(name))) as engine,
            closing(self._port(engine)) as one,
            closing(self._port(engine)) as other,
        ):
            check(one, other)

    def describe(self) -> None:
        """Checks what the engine reports about itself. Raises InvalidValue or TypeError for a wrong type."""
        self._stack.close()
        with closing(self._job.open(self._created("described"))) as engine:
            declarations.checked_text(engine.version(), "version")
            declarations.checked_values(engine.settings(), "settings")
            declarations.checked_caveats(engine.caveats(), "caveats")
            for path in engine.files():
                if not isinstance(path, Path):
                    raise TypeError(f"files: expected a Path, got {path!r:.80}")

    def close(self) -> None:
        """Closes all stores, and removes them from the user's own server."""
        self._stack.close()
        for home in sorted(self._home.iterdir()):
            self._job.remove(home)


if __name__ == "__main__":
    main()
