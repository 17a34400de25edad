"""The process that the durability tests kill: it commits one transaction after another to a store, and reports each
acknowledged one on a pipe. This module also has the history that it writes, so that the tests know the expected
contents.

Started as `python committer.py JOB ACKS`: JOB is JSON, ACKS is the pipe's file descriptor.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from stores import Store

from dyno import registry
from dyno.contracts.model import Tier
from dyno.suites.records.port import Key, Record, Records

ENOUGH = 100_000
SIZES = (1, 2, 40)

Step = tuple[str, list[Any]]
"""A writing method of the port, and its argument."""


def record(number: int, version: int = 0) -> Record:
    # Reversed digits make the order of the keys differ from the order of insertion.
    name = f"{number:06}"[::-1] + "n"
    return {"name": name, "location": name.upper(), "stub": f"{number}-{version}-" + "x" * 120}


def key(number: int) -> Key:
    found = record(number)
    return found["name"], found["location"]


def history() -> Iterator[Step]:
    """Endless transactions: inserts of one record and of several, replacements, deletions."""
    numbers: list[int] = []
    step = 0
    while True:
        if step % 5 == 3:
            # Replaces the last two records and adds one.
            fresh = len(numbers)
            numbers.append(fresh)
            yield "replace", [record(fresh - 2, step), record(fresh - 1, step), record(fresh, step)]
        elif step % 5 == 4:
            yield "delete", [key(len(numbers) - 3)]
        else:
            new = range(len(numbers), len(numbers) + SIZES[step % 3])
            numbers.extend(new)
            yield "insert", [record(number) for number in new]
        step += 1


def after(steps: int) -> dict[Key, Record]:
    """The contents of a store after `steps` transactions."""
    held: dict[Key, Record] = {}
    for kind, items in islice(history(), steps):
        for item in items:
            if kind == "delete":
                del held[item]
            else:
                held[item["name"], item["location"]] = item
    return held


def commit(port: Records, start: int, acks: int) -> None:
    """Commits the history from transaction `start` on, and acknowledges each transaction by a line with
    its number.
    """
    for number, (kind, items) in enumerate(islice(history(), start, ENOUGH), start):
        getattr(port, kind)(items)
        os.write(acks, b"%d\n" % number)


def main(job: Mapping[str, Any], acks: int) -> None:
    store = Store(registry.engine(job["engine"]), Tier(job["tier"]), job["given"])
    with store.open(Path(job["home"])) as port:
        commit(port, job["start"], acks)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), int(sys.argv[2]))
