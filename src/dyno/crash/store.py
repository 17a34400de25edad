"""Stores for crash tests: opening a store, judging its contents after a crash, and the child processes that do so,
since they may die with an engine: one commits until it is killed, the other judges stores.

`python -m dyno.crash.store commit JOB ANSWERS`: JOB is a JSON file (see `processes.write_job`). Writes to the file
ANSWERS the lines `opened VERSION` and `settings JSON`; for each transaction `begun N NS` and `done N NS` (nanoseconds
of CLOCK_MONOTONIC), `seldom N` after maintenance; at the end `ended`, or `failed WHY`. Marks in the system calls
surround each commit, for recorders.

`python -m dyno.crash.store judge ANSWERS`: reads a target as a line of JSON from standard input, then a line for each
store: its home, and how many transactions were acknowledged and begun. Answers each with a judgement as a line of
JSON.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from dyno import registry
from dyno.contracts import declarations
from dyno.contracts.declarations import exception_text
from dyno.contracts.engine import Engine, EngineSpec, Server
from dyno.contracts.model import Refused, Tier, Value, Wrong
from dyno.contracts.suite import History, Job
from dyno.contracts.value_types import JsonMapping
from dyno.host.process import die_with_parent
from dyno.selftest.trace import BEGIN, END, mark

CLIENTS = 1
OK = "ok"
LOST = "lost"
TORN = "torn"
CORRUPT = "corrupt"
REFUSED = "refused"
CRASH = "crash"
HANG = "hang"
"""Outcomes of a crash; docs/reference/crash-findings.md explains them."""
PROMISES = {Tier.VOLATILE: (), Tier.PROCESS: ("killed",), Tier.POWER: ("killed", "cut")}
"""Kinds of crash that an acknowledged commit survives, by tier."""


@dataclass(frozen=True)
class CrashTarget:
    """An engine at a tier, with a suite whose port it is used through. Plain data that processes exchange as JSON."""

    suite: str
    engine: str
    tier: str
    options: Mapping[str, Value]
    params: Mapping[str, Value]
    seed: int

    @property
    def spec(self) -> EngineSpec:
        """Declaration of the engine for the suite's port."""
        spec = registry.reduce_to_suite(registry.suite(self.suite), registry.engine(self.engine))
        assert spec is not None
        return spec

    def history(self, home: Path = Path()) -> History:
        proof = registry.suite(self.suite).proof
        assert proof is not None and proof.history is not None
        return proof.history(self._job(home, None))

    def _job(self, home: Path, server: Server | None) -> Job:
        spec = self.spec
        options = spec.resolve(self.options)
        return Job(spec, home, Tier(self.tier), options, self.params, self.seed, CLIENTS, server=server)

    @contextmanager
    def open(self, home: Path, stop: bool = False) -> Iterator[tuple[Engine, Server | None]]:
        """Opens the engine's store below `home`, after starting the engine's server (if any).

        The server is killed at the end. With `stop` it is shut down in order.
        """
        spec, options = self.spec, self.spec.resolve(self.options)
        with ExitStack() as stack:
            server: Server | None = None
            if server := spec.create_server(home / "server", Tier(self.tier), options, CLIENTS):
                if not server.own:
                    raise Refused("it is your own server, which Dyno doesn't crash")
                stack.callback(server.close)
                server.start()
                if stop:
                    stack.callback(server.stop)
            directory = home / "store"
            directory.mkdir(parents=True, exist_ok=True)
            yield stack.enter_context(closing(self._job(home, server).open(directory))), server


@dataclass(frozen=True)
class Judgement:
    """Judgement of one store after one crash."""

    outcome: str
    why: str = ""
    held: int | None = None
    """Number of transactions in the store, if it holds exactly the first ones; None otherwise."""
    lost: int = 0
    """Number of acknowledged transactions that are missing."""

    @property
    def sound(self) -> bool:
        return self.outcome == OK


def judge(history: History, contents: Mapping[str, object], acknowledged: int, begun: int) -> Judgement:
    """Judges the contents of a store: valid if they are the state after c transactions, acknowledged <= c <=
    begun."""
    held = next((count for count in range(begun, -1, -1) if history.state(count) == contents), None)
    if held is None:
        return Judgement(TORN, _difference(history, contents, acknowledged, begun))
    if held < acknowledged:
        lost = acknowledged - held
        return Judgement(LOST, f"{lost} of {acknowledged} acknowledged commits are not there", held, lost)
    return Judgement(OK, held=held)


def _difference(history: History, contents: Mapping[str, object], acknowledged: int, begun: int) -> str:
    """Describes how the contents differ from the most similar state."""
    differing: dict[int, list[str]] = {}
    for count in range(begun, max(0, acknowledged - 20) - 1, -1):
        state = history.state(count)
        differing[count] = sorted(name for name in {*state, *contents} if state.get(name) != contents.get(name))
    nearest = min(differing, key=lambda count: (len(differing[count]), -count))
    names = differing[nearest]
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"it holds no state that ever existed; nearest is the one after {nearest} commits, except for {shown}"


# -- child processes ----------------------------------------------------------------------------------------

MOST_LINE_BYTES = 4_000


def commit(job: JsonMapping, tell: Callable[[str], object]) -> None:
    """Commits the transactions from `start` on: `commits` of them, or without end if that is None.

    `often`: factor by which maintenance is more frequent than declared. `stop`: shut the server down in order.
    """
    target, home = CrashTarget(**job["target"]), Path(job["home"])
    history, maintenance = target.history(home), target.spec.crashes.maintenance
    start, commits = job["start"], job["commits"]
    # Compute the transactions ahead, so that only the engine works between two commits.
    history.state(start + (commits or 0))
    with target.open(home, job["stop"]) as (engine, _), history.open(engine) as port:
        tell(f"opened {declarations.checked_text(engine.version(), 'version')}")
        settings = declarations.checked_values(engine.settings(), "settings")
        tier_settings = target.spec.tiers[Tier(target.tier)]
        tell(f"settings {json.dumps({name: value for name, value in settings.items() if name in tier_settings})}")
        number = start
        while commits is None or number < start + commits:
            tell(f"begun {number} {time.monotonic_ns()}")
            # Marks count from 1, since the recorder needs the number of commits.
            mark(number + 1, BEGIN)
            history.commit(port, number)
            mark(number + 1, END)
            tell(f"done {number} {time.monotonic_ns()}")
            number += 1
            if maintenance is None or maintenance.do is None:
                continue
            if number % max(1, maintenance.every // job["often"]) == 0:
                maintenance.do(engine)
                tell(f"seldom {number}")
        tell("ended")


def look(target: CrashTarget, history: History, store: JsonMapping) -> Judgement:
    """Opens a store, judges its contents, commits one more transaction and reads it back."""
    home, outcome = Path(store["home"]), REFUSED
    try:
        with target.open(home) as (engine, server), history.open(engine) as port:
            outcome = CORRUPT
            judgement = judge(history, history.found(port), store["acknowledged"], store["begun"])
            intact = target.spec.crashes.intact
            if intact is not None and (wrong := intact(engine)):
                return Judgement(CORRUPT, f"its own check finds: {wrong}"[:300])
            if judgement.held is None:
                return judgement
            history.commit(port, judgement.held)
            contents = None
            if server is not None:
                contents = history.found(port)
            outcome = REFUSED
        if contents is None:
            # Damage to the end of a log may show only at the next recovery.
            with target.open(home) as (engine, _), history.open(engine) as port:
                contents = history.found(port)
    except Exception as error:
        if outcome == CORRUPT and isinstance(error, Wrong):
            outcome = TORN
        return Judgement(outcome, _one_line(error)[:300])
    if history.state(judgement.held + 1) == contents:
        return judgement
    return Judgement(TORN, "one more commit was acknowledged after the crash, but the store does not hold it")


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(exception_text(error).split())}"


def main(command: str, *arguments: str) -> None:
    die_with_parent(os.getppid())
    answers = os.open(arguments[-1], os.O_WRONLY | os.O_APPEND)
    if command == "judge":
        target = CrashTarget(**json.loads(sys.stdin.readline()))
        history = target.history()
        for line in sys.stdin:
            judgement = look(target, history, json.loads(line))
            os.write(answers, json.dumps(asdict(judgement)).encode() + b"\n")
        return
    path = Path(arguments[0])
    # The engine's own output must not reach the terminal.
    log = os.open(path.with_name("committer.log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)

    def tell(line: str) -> None:
        os.write(answers, line.encode(errors="replace")[:MOST_LINE_BYTES] + b"\n")

    try:
        commit(json.loads(path.read_text()), tell)
    except Exception as error:
        tell(f"failed {_one_line(error)}")
        sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
