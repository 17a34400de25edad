"""The process that holds an engine to the checks of the port `compute`: by itself, since a library's threads and
settings are the process's. The engine is opened once, as in a trial: a start of Java for each check takes minutes.

Started as `python computechecks.py` with a line of JSON on standard input. It prints a line of JSON: how each check
ended, None where it passed; and how many threads the engine tells.
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
from dyno.suites.compute import conformance


def main() -> None:
    asked = json.loads(sys.stdin.readline())
    spec, home = registry.engine(asked["engine"]).through("compute"), Path(asked["home"])
    options = spec.resolve(asked["options"])
    conformance.SIZES = tuple(asked["sizes"])
    told: dict[str, Any] = {}
    with ExitStack() as open_:
        server = spec.server(home / "server", None, options, 1) if spec.server else None
        if server is not None:
            open_.enter_context(closing(server)).start()
        job = Job(spec, home, None, options, {}, seed=1, clients=1, server=server)
        engine = open_.enter_context(closing(job.open(home)))
        port = open_.enter_context(closing(job.port(engine)))

        @contextmanager
        def opened(name: str) -> Iterator[Any]:
            yield port

        for name, check in conformance.CHECKS.items():
            try:
                check(opened, None)
                told[name] = None
            except Exception as error:
                told[name] = f"{type(error).__name__}: {error}"
        told["threads"] = port.threads()
    print(json.dumps(told))


if __name__ == "__main__":
    main()
