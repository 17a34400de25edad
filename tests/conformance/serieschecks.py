"""The process that holds an engine to the checks of the port `series`: by itself, since not all of their libraries
can be in one process, and some are for another interpreter.

Started as `python arrayschecks.py` with a line of JSON on standard input. It prints a line of JSON: how each check
ended, None where it passed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from dyno import registry
from dyno.model import Tier
from dyno.suite import Job
from dyno.suites.series.conformance import CHECKS
from dyno.suites.series.port import PORT


def main() -> None:
    asked = json.loads(sys.stdin.readline())
    spec, tier, home = registry.engine(asked["engine"]).through(PORT), Tier(asked["tier"]), Path(asked["home"])
    options = spec.resolve(asked["options"])
    told: dict[str, Any] = {}
    with ExitStack() as open_:
        server = spec.server(home / "server", tier, options, 1) if spec.server else None
        if server is not None:
            open_.enter_context(closing(server)).start()

        @contextmanager
        def opened(name: str, names: Sequence[str]) -> Iterator[Any]:
            job = Job(spec, home / name, tier, options, {}, seed=1, clients=1, server=server)
            job.home.mkdir(exist_ok=True)
            with closing(job.open(job.home)) as engine, closing(job.port(engine, names)) as port:
                yield port

        for name, check in CHECKS.items():
            try:
                check(opened, tier)
                told[name] = None
            except Exception as error:
                told[name] = f"{type(error).__name__}: {error}"
        job = Job(spec, home / "extracts-3", tier, options, {}, seed=1, clients=1, server=server)
        with closing(job.open(job.home)) as engine:
            told["version"], told["settings"] = engine.version(), dict(engine.settings())
            told["files"] = [str(path) for path in engine.files()]
    print(json.dumps(told, default=str))


if __name__ == "__main__":
    main()
