"""Traced process that commits to an engine, with a mark before and after each commit.

It runs under strace as `python -m dyno.selftest.committer ANSWER`, reads its job as a line of JSON from standard
input, and writes its answer to the file ANSWER. Its commits are those that the suite's phases for the proof of a tier
would time.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, cast

from dyno import registry
from dyno.contracts import declarations
from dyno.contracts.declarations import exception_text
from dyno.contracts.engine import Server
from dyno.contracts.model import Absent, Refused, Tier
from dyno.contracts.suite import InFlight, Job, Operations, Work
from dyno.contracts.value_types import JsonMapping
from dyno.host.process import die_with_parent
from dyno.selftest.trace import BEGIN, END, mark

Transaction = Callable[[], object]
WAIT_NS = 1_000_000_000


def main() -> None:
    """Runs the job. A refusal is written as the answer. Any other error ends the process with a traceback."""
    die_with_parent(os.getppid())
    job = json.loads(sys.stdin.readline())
    try:
        answer = _commit(job)
    except Refused as refused:
        answer = {"refused": exception_text(refused)}
    Path(sys.argv[1]).write_text(json.dumps(answer))


def _commit(message: JsonMapping) -> dict[str, object]:
    suite = registry.suite(message["suite"])
    spec = registry.reduce_to_suite(suite, registry.engine(message["engine"]))
    assert spec is not None and suite.proof is not None
    home = Path(message["home"])
    tier = Tier(message["tier"])
    options = spec.resolve(message["options"])
    with ExitStack() as stack:
        server: Server | None = None
        if server := spec.create_server(home / "server", tier, options, 1):
            if not server.own:
                return {"refused": "it is your own server, which can't be traced"}
            stack.callback(server.close)
            server.start()
        job = Job(spec, home, tier, options, message["params"], seed=1, clients=1, server=server)
        workload, commits = stack.enter_context(closing(suite.workload(job))), int(message["commits"])
        done, absent = 0, ""
        for proof in suite.proof.chain():
            phase = next(phase for phase in suite.phases if phase.name == proof.phase)
            try:
                workload.prepare(phase)
            except Absent as why:
                absent = str(why)
                continue
            with workload.connect() as port:
                transactions = _transactions(workload.work(phase, port, 0, 1, 0))
                # Skip the first commit, which may do something only once, such as creating a file.
                next(transactions)()
                for number in range(done + 1, done + commits + 1):
                    transaction = next(transactions)
                    mark(number, BEGIN)
                    transaction()
                    mark(number, END)
            done += commits
        if not done:
            return {"refused": absent}
        engine, who = workload.engine(), f"engine {job.spec.name}"
        return {
            "version": declarations.checked_text(engine.version(), f"{who}: version"),
            "settings": declarations.checked_values(engine.settings(), f"{who}: settings"),
            "commits": done,
        }


def _transactions(works: Iterator[Work]) -> Iterator[Transaction]:
    """Yields a callable for each operation, or for all slices of a held transaction together."""
    for held, slices in groupby(cast(Iterator[Operations], works), lambda work: work.held):
        if held is not None:
            yield partial(_commit_held, held, list(slices))
            continue
        for work in slices:
            with work.around() as given:
                call: Callable[[Any], object]
                if work.many is not None:
                    call = partial(_await_one, work.many)
                else:
                    (call,) = work.calls(given)
                yield from (partial(call, argument) for argument in work.arguments)


def _await_one(many: InFlight, argument: object) -> None:
    """Runs one operation of a pipelined client, and waits until it is acknowledged."""
    many.begin(0, argument)
    while not (ended := many.ended(WAIT_NS)):
        pass
    if isinstance(answer := ended[0][1], Exception):
        raise answer


def _commit_held(held: AbstractContextManager[object], slices: list[Operations]) -> None:
    with held as given:
        for work in slices:
            (call,) = work.calls(given)
            for argument in work.arguments:
                call(argument)


if __name__ == "__main__":
    main()
