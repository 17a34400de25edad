"""Runs the checks of the port `compute` on one engine in a separate process, because a library's threads and settings
belong to the process. The engine is opened once, as in a trial: starting Java for each check takes minutes.

Started as `python computechecks.py` with a line of JSON on standard input. It prints a line of JSON: the error of
each check (None if it passed), and the number of threads.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from dyno import registry
from dyno.contracts.suite import Job
from dyno.suites.compute import workload


def main() -> None:
    request = json.loads(sys.stdin.readline())
    spec, home = registry.engine(request["engine"]).reduce_to_port("compute"), Path(request["home"])
    options = spec.resolve(request["options"])
    workload.SIZES = tuple(request["sizes"])
    results: dict[str, Any] = {}
    with ExitStack() as open_:
        server = spec.create_server(home / "server", None, options, 1)
        if server is not None:
            open_.enter_context(closing(server)).start()
        job = Job(spec, home, None, options, {}, seed=1, clients=1, server=server)
        engine = open_.enter_context(closing(job.open(home)))
        port = open_.enter_context(closing(job.port(engine)))

        @contextmanager
        def opened(name: str) -> Iterator[Any]:
            yield port

        for name, check in workload.CHECKS.items():
            try:
                check(opened, None)
                results[name] = None
            except Exception as error:
                results[name] = f"{type(error).__name__}: {error}"
        results["threads"] = port.threads()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
