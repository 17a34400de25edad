"""The process that holds an engine to the checks of a port: by itself, since not all of their libraries can be in one
process, and some are for another interpreter.

Started as `python portchecks.py` with a line of JSON on standard input. It prints a line of JSON: how each check
ended, None where it passed; and what the engine tells of itself on the store `look`, which the checks have made.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from dyno import registry
from dyno.contracts.model import Tier
from dyno.contracts.suite import Job


def main() -> None:
    asked = json.loads(sys.stdin.readline())
    spec, tier, home = (
        registry.engine(asked["engine"]).through(asked["port"]),
        Tier(asked["tier"]),
        Path(asked["home"]),
    )
    options = spec.resolve(asked["options"])
    told: dict[str, Any] = {}
    with ExitStack() as open_:
        server = spec.server(home / "server", tier, options, 1) if spec.server else None
        if server is not None:
            open_.enter_context(closing(server)).start()

        def job(name: str) -> Job:
            return Job(spec, home / name, tier, options, {}, seed=1, clients=1, server=server)

        @contextmanager
        def opened(name: str, *how: Any) -> Iterator[Any]:
            one = job(name)
            one.home.mkdir(exist_ok=True)
            with closing(one.open(one.home)) as engine, closing(one.port(engine, *how)) as port:
                yield port

        for name, check in import_module(asked["checks"]).CHECKS.items():
            try:
                check(opened, tier)
                told[name] = None
            except Exception as error:
                told[name] = f"{type(error).__name__}: {error}"
        look = job(asked["look"])
        with closing(look.open(look.home)) as engine:
            told["version"], told["settings"] = engine.version(), dict(engine.settings())
            told["files"] = [str(path) for path in engine.files()]
    print(json.dumps(told, default=str))


if __name__ == "__main__":
    main()
