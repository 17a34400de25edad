"""The process that is traced: commits to one engine, each commit between two marks.

Started under strace as `python -m dyno.selftest.committer ANSWER`. Its job, a line of JSON, comes on standard input;
what it has to tell goes into the file ANSWER. What is committed is what the phases time that the suite proves a tier
by.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any, cast

from dyno import registry
from dyno.contracts import declarations
from dyno.contracts.declarations import exception_text
from dyno.contracts.engine import Server
from dyno.contracts.model import Absent, Refused, Tier
from dyno.contracts.suite import InFlight, Job, Operations, Suite, Work
from dyno.host.process import die_with_parent
from dyno.selftest.trace import BEGIN, END, mark

Transaction = Callable[[], object]
WAIT_NS = 1_000_000_000


def main() -> None:
    """Does the job. A refusal is told; anything else that goes wrong is a traceback and an exit status."""
    die_with_parent(os.getppid())
    job = json.loads(sys.stdin.readline())
    try:
        told = _commit(job)
    except Refused as refused:
        told = {"refused": exception_text(refused)}
    Path(sys.argv[1]).write_text(json.dumps(told))


def _commit(message: Mapping[str, Any]) -> dict[str, Any]:
    suite = registry.suite(message["suite"])
    spec = registry.through(suite, registry.engine(message["engine"]))
    assert spec is not None
    home, tier, options = Path(message["home"]), Tier(message["tier"]), spec.resolve(message["options"])
    with ExitStack() as open_:
        server: Server | None = None
        if spec.server is not None and (server := spec.server(home / "server", tier, options, 1)):
            if not server.own:
                return {"refused": "it is your own server, which can't be traced"}
            open_.callback(server.close)
            server.start()
        job = Job(spec, home, tier, options, message["params"], seed=1, clients=1, server=server)
        return _marked(suite, job, message["commits"])


def _marked(suite: Suite, job: Job, commits: int) -> dict[str, Any]:
    assert suite.proof is not None
    with closing(suite.workload(job)) as workload:
        done, absent = 0, ""
        for proof in suite.proof.chain():
            phase = next(phase for phase in suite.phases if phase.name == proof.phase)
            try:
                workload.prepare(phase)
            except Absent as why:
                absent = str(why)
                continue
            with workload.connect() as port:
                _commit_each(_transactions(workload.work(phase, port, 0, 1, 0)), done, commits)
            done += commits
        if not done:
            return {"refused": absent}
        engine, who = workload.engine(), f"engine {job.spec.name}"
        return {
            "version": declarations.checked_text(engine.version(), f"{who}: version"),
            "settings": declarations.checked_values(engine.settings(), f"{who}: settings"),
            "commits": done,
        }


def _commit_each(transactions: Iterator[Transaction], before: int, commits: int) -> None:
    """So many of them, numbered from those that were before."""
    # What the first commit does once only (a file that is made) is not counted.
    next(transactions)()
    done = 0
    for done, transaction in enumerate(islice(transactions, commits), 1):
        mark(before + done, BEGIN)
        transaction()
        mark(before + done, END)
    assert done == commits


def _transactions(works: Iterator[Work]) -> Iterator[Transaction]:
    """Each operation, or all slices together that one transaction holds."""
    for held, slices in groupby(cast(Iterator[Operations], works), lambda work: work.held):
        if held is not None:
            yield partial(_done, held, list(slices))
            continue
        for work in slices:
            with work.around() as given:
                call = _call(work, given)
                yield from (partial(call, argument) for argument in work.arguments)


def _call(work: Operations, given: Any) -> Callable[[Any], object]:
    if work.many is not None:
        return partial(_alone, work.many)
    (call,) = work.calls(given)
    return call


def _alone(many: InFlight, argument: Any) -> None:
    """One operation of what could have many under way, until it is acknowledged."""
    many.begin(0, argument)
    while not (ended := many.ended(WAIT_NS)):
        pass
    for _, answer in ended:
        if isinstance(answer, Exception):
            raise answer


def _done(held: AbstractContextManager[Any], slices: list[Operations]) -> None:
    with held as given:
        for work in slices:
            (call,) = work.calls(given)
            for argument in work.arguments:
                call(argument)


if __name__ == "__main__":
    main()
