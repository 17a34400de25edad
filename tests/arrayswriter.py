"""Two processes for an engine of the port `arrays`: one writes until it is killed, the other checks the rows that it
left. They are separate processes, since some engines need another interpreter.

Started as `python arrayswriter.py write|check`, with a job as a line of JSON on standard input. `write` prints the
number of each acknowledged transaction, `check` the wrong columns as JSON.
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
from dyno.suites.arrays.dataset import UPDATED, Dataset
from dyno.suites.arrays.port import PORT, Change, Chunk

ADDED, CHANGED, DATA = 40, 10, Dataset(1)
ENDLESS = 100_000


@contextmanager
def opened(job: Mapping[str, Any]) -> Iterator[Any]:
    spec = registry.engine(job["engine"]).reduce_to_port(PORT)
    tier = Tier(job["tier"])
    home = Path(job["home"])
    options = spec.resolve(job["options"])
    with ExitStack() as open_:
        server = spec.create_server(home / "server", tier, options, 1)
        if server is not None:
            open_.enter_context(closing(server)).start()
        job_ = Job(spec, home / "store", tier, options, {}, seed=1, clients=1, server=server)
        job_.home.mkdir(parents=True, exist_ok=True)
        engine = open_.enter_context(closing(job_.open(job_.home)))
        yield open_.enter_context(closing(job_.port(engine)))


def updates(number: int, able: bool) -> bool:
    """Whether the transaction is an update; other transactions append rows."""
    return able and number % 3 == 2


def rows(before: int, able: bool) -> int:
    """Number of rows after `before` transactions."""
    return ADDED * sum(not updates(number, able) for number in range(before))


def place(number: int, able: bool) -> range:
    """The rows that a transaction updates or appends."""
    count = rows(number, able)
    if not updates(number, able):
        return range(count, count + ADDED)
    start = number * 7919 % (count - CHANGED)
    return range(start, start + CHANGED)


def write(job: Mapping[str, Any]) -> None:
    with opened(job) as port:
        for number in range(job["start"], ENDLESS):
            part = place(number, job["updates"])
            if updates(number, job["updates"]):
                port.update(Change(part.start, DATA.chunk(part, number, UPDATED)))
            else:
                with port.writing(len(part)) as write:
                    write(DATA.chunk(part))
            print(number, flush=True)


def expected(transactions: int, able: bool) -> Chunk:
    """All rows after a number of transactions."""
    chunk = dict(DATA.chunk(range(rows(transactions, able))))
    for number in range(transactions):
        if updates(number, able):
            part = place(number, able)
            for name, values in DATA.chunk(part, number, UPDATED).items():
                chunk[name][part.start : part.stop] = values
    return chunk


def check(job: Mapping[str, Any]) -> dict[str, Any]:
    """The number of transactions in the store, and the wrong columns. The transaction in flight may be there,
    missing, or partly there: not all engines have transactions.
    """
    done, able = job["done"], job["updates"]
    with opened(job) as port:
        total = port.sum("uid")
        size = next(n for n in count() if n * (n + 1) // 2 >= total)
        if size * (size + 1) // 2 != total or size not in (rows(done, able), rows(done + 1, able)):
            return {"wrong": [f"the numbers of all rows add up to {total}"], "done": done}
        right, in_flight = expected(done, able), place(done, able)
        got = port.slice(range(rows(done, able)))
        if updates(done, able):
            for name in UPDATED:
                right[name][in_flight.start : in_flight.stop] = got[name][in_flight.start : in_flight.stop]
        wrong = [name for name in right if not same(np.asarray(got[name]), right[name])]
    return {"wrong": wrong, "done": done + (size > rows(done, able))}


if __name__ == "__main__":
    request = json.loads(sys.stdin.readline())
    if sys.argv[1] == "write":
        write(request)
    else:
        print(json.dumps(check(request)))
