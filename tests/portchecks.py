"""Runs a port's checks on one engine in a separate process: not all libraries fit into one process, and some need
another interpreter.

Started as `python portchecks.py` with a line of JSON on standard input. It prints a line of JSON: the error of each
check (None if it passed), and the engine's version, settings and files for the store `look`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from data_directories import copy_data_directories

from dyno import registry
from dyno.contracts.model import Tier
from dyno.contracts.suite import Job


def run_checks(job: Job, checks: str, look: str) -> dict[str, Any]:
    """Runs the checks of a module on the job's engine, whose server runs, in directories below the job's home.
    Returns what this program prints."""
    results: dict[str, Any] = {}

    def in_directory(name: str) -> Job:
        return replace(job, home=job.home / name)

    @contextmanager
    def opened(name: str, *how: Any) -> Iterator[Any]:
        one = in_directory(name)
        one.home.mkdir(exist_ok=True)
        with closing(one.open(one.home)) as engine, closing(one.port(engine, *how)) as port:
            yield port

    for name, check in import_module(checks).CHECKS.items():
        try:
            check(opened, job.tier)
            results[name] = None
        except Exception as error:
            results[name] = f"{type(error).__name__}: {error}"
    last = in_directory(look)
    with closing(last.open(last.home)) as engine:
        results["version"], results["settings"] = engine.version(), dict(engine.settings())
        results["files"] = [str(path) for path in engine.files()]
    return results


def main() -> None:
    copy_data_directories()
    request = json.loads(sys.stdin.readline())
    spec = registry.engine(request["engine"]).reduce_to_port(request["port"])
    tier, home, options = Tier(request["tier"]), Path(request["home"]), spec.resolve(request["options"])
    with ExitStack() as open_:
        server = spec.create_server(home / "server", tier, options, 1)
        if server is not None:
            open_.enter_context(closing(server)).start()
        job = Job(spec, home, tier, options, {}, seed=1, clients=1, server=server)
        results = run_checks(job, request["checks"], request["look"])
    print(json.dumps(results, default=str))


if __name__ == "__main__":
    main()
