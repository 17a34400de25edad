"""The process that is killed while it writes to an engine of the port `arrays`; and the one that looks what is there
afterwards. By themselves, since some engines are for another interpreter.

Started as `python arrayswriter.py write|look`, with a job as a line of JSON on standard input. The one prints the
number of each transaction that was acknowledged, the other what is not right, as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from dyno import registry
from dyno.contracts.equality import same
from dyno.contracts.model import Tier
from dyno.contracts.suite import Job
from dyno.suites.arrays.dataset import Dataset
from dyno.suites.arrays.port import PORT, Change, Chunk
from dyno.suites.arrays.work import UPDATED

ADDED, CHANGED, DATA = 40, 10, Dataset(1)
ENDLESS = 100_000


@contextmanager
def opened(job: Mapping[str, Any]) -> Iterator[Any]:
    spec, tier, home = registry.engine(job["engine"]).through(PORT), Tier(job["tier"]), Path(job["home"])
    options = spec.resolve(job["options"])
    with ExitStack() as open_:
        server = spec.server(home / "server", tier, options, 1) if spec.server else None
        if server is not None:
            open_.enter_context(closing(server)).start()
        job_ = Job(spec, home / "store", tier, options, {}, seed=1, clients=1, server=server)
        job_.home.mkdir(parents=True, exist_ok=True)
        engine = open_.enter_context(closing(job_.open(job_.home)))
        yield open_.enter_context(closing(job_.port(engine)))


def updates(number: int, able: bool) -> bool:
    """Whether the transaction is an update; else it adds rows."""
    return able and number % 3 == 2


def rows(before: int, able: bool) -> int:
    """That there are after so many transactions."""
    return ADDED * sum(not updates(number, able) for number in range(before))


def place(number: int, able: bool) -> range:
    """The rows that an update changes, or that are added."""
    there = rows(number, able)
    if not updates(number, able):
        return range(there, there + ADDED)
    start = number * 7919 % (there - CHANGED)
    return range(start, start + CHANGED)


def write(job: Mapping[str, Any]) -> None:
    with opened(job) as port:
        for number in range(job["start"], ENDLESS):
            part = place(number, job["updates"])
            if updates(number, job["updates"]):
                port.update(Change(part.start, DATA.chunk(part, number, UPDATED)))
            else:
                with port.writing(len(part)) as take:
                    take(DATA.chunk(part))
            print(number, flush=True)


def held(transactions: int, able: bool) -> Chunk:
    """All rows after so many transactions."""
    found = dict(DATA.chunk(range(rows(transactions, able))))
    for number in range(transactions):
        if updates(number, able):
            part = place(number, able)
            for name, values in DATA.chunk(part, number, UPDATED).items():
                found[name][part.start : part.stop] = values
    return found


def look(job: Mapping[str, Any]) -> dict[str, Any]:
    """How many transactions there are, and which columns are not as they must be. Of the transaction that was in
    flight everything may be there, nothing, or a part of it: not all have transactions."""
    done, able = job["done"], job["updates"]
    with opened(job) as port:
        total = port.sum("uid")
        there = next(n for n in count() if n * (n + 1) // 2 >= total)
        if there * (there + 1) // 2 != total or there not in (rows(done, able), rows(done + 1, able)):
            return {"wrong": [f"the numbers of all rows are {total} together"], "done": done}
        right, flying = held(done, able), place(done, able)
        found = port.slice(range(rows(done, able)))
        if updates(done, able):
            for name in UPDATED:
                right[name][flying.start : flying.stop] = found[name][flying.start : flying.stop]
        wrong = [name for name in right if not same(np.asarray(found[name]), right[name])]
    return {"wrong": wrong, "done": done + (there > rows(done, able))}


if __name__ == "__main__":
    asked = json.loads(sys.stdin.readline())
    if sys.argv[1] == "write":
        write(asked)
    else:
        print(json.dumps(look(asked)))
