"""The process that is traced: commits to one engine, each commit between two marks.

Started under strace as `python -m dyno.selftest.committer ANSWER`. Its job, a line of JSON, comes on standard input;
what it has to tell goes into the file ANSWER. What is committed is what the phase times that the suite proves a tier
by.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

from dyno import declared, registry
from dyno.declared import said
from dyno.engine import Server
from dyno.host.process import die_with_parent
from dyno.model import Refused, Tier
from dyno.selftest.trace import BEGIN, END, mark
from dyno.suite import Job, Operations, Suite, Work


def main() -> None:
    """Does the job. A refusal is told; anything else that goes wrong is a traceback and an exit status."""
    die_with_parent(os.getppid())
    job = json.loads(sys.stdin.readline())
    try:
        told = _commit(job)
    except Refused as refused:
        told = {"refused": said(refused)}
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
    proof = suite.proof
    assert proof is not None
    phase = next(phase for phase in suite.phases if phase.name == proof.phase)
    with closing(suite.workload(job)) as workload:
        workload.prepare(phase)
        engine, who = workload.engine(), f"engine {job.spec.name}"
        told = {
            "version": declared.text(engine.version(), f"{who}: version"),
            "settings": declared.values(engine.settings(), f"{who}: settings"),
        }
        with workload.connect() as port:
            every = _operations(workload.work(phase, port, 0, 1, 0))
            # What the first commit does once only (a file that is made) is not counted.
            next(every)()
            for number in range(1, commits + 1):
                operation = next(every)
                mark(number, BEGIN)
                operation()
                mark(number, END)
            every.close()
    return told


def _operations(slices: Iterator[Work]) -> Generator[Callable[[], object], None, None]:
    """Each of them by itself, of one slice after the other."""
    for work in slices:
        assert isinstance(work, Operations)
        with work.around() as given:
            (call,) = work.calls(given)
            for argument in work.arguments:
                yield partial(call, argument)


if __name__ == "__main__":
    main()
