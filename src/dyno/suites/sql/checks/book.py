"""The book of answers. The inputs of operation n are the same in every trial of every engine, so its answer must be,
too. Each client records a digest of each answer, and the first answers themselves. After a phase, the trial's record
is compared with those of the trials before it. Trials whose answers agree form a group.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from dyno.contracts.equality import shorten
from dyno.contracts.model import Fact
from dyno.suites.sql.checks.answers import Results, rows_agree
from dyno.suites.sql.digests import Digest
from dyno.suites.sql.grids import COUNT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WHOLE = 1_000
"""Number of each client's first answers that are kept completely."""
CHAIN = (100, 1_000, 10_000, 100_000, 1_000_000)
"""Numbers of operations after which the chain of digests is noted; also at the end."""
ID, ENGINES = "id", "engines"
FRACTIONS = "declare their columns with digits for these, such as timestamp(6)"
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.0*[1-9]\d*)?")


def _type() -> np.dtype[np.void]:
    import numpy as np

    return np.dtype([("number", "<u8"), *((name, "<u8") for name in Digest._fields[:-1]), ("grids", "<u8", (COUNT,))])


class AnswerRecord:
    """What one client was answered in one phase: files in a directory, to which the client's process appends."""

    def __init__(self, home: Path, client: int) -> None:
        self.home, self._client = home, client
        self.path, self._rows = home / f"{client}.digests", home / f"{client}.rows"

    def add(self, first: int, digests: Sequence[Digest], rows: Callable[[int], object]) -> None:
        """Appends the answers of the operations from number `first` on. `rows(n)`: the n-th of these answers as plain
        JSON, None if it failed."""
        import numpy as np

        self.home.mkdir(parents=True, exist_ok=True)
        records = [(first + at, *digest) for at, digest in enumerate(digests)]
        with self.path.open("ab") as file:
            file.write(np.array(records, _type()).tobytes())
        with self._rows.open("a") as file:
            for at in range(min(len(digests), WHOLE - first)):
                file.write(json.dumps([first + at, rows(at)]) + "\n")

    def digests(self) -> NDArray[np.void]:
        """Returns the records, an array in the order of operations; each is there once."""
        import numpy as np

        if self.path.exists():
            records = np.frombuffer(self.path.read_bytes(), _type())
        else:
            records = np.empty(0, _type())
        return records[np.unique(records["number"], return_index=True)[1]]

    def rows(self) -> dict[int, Results]:
        if not self._rows.exists():
            return {}
        lines = map(json.loads, self._rows.read_text().splitlines())
        return {number: rows for number, rows in lines if rows is not None}

    def merge(self, other: AnswerRecord) -> None:
        """Adds what the other record knows of further operations."""
        import numpy as np

        mine, theirs = self.digests(), other.digests()
        further = theirs[~np.isin(theirs["number"], mine["number"])]
        self.home.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(mine.tobytes() + further.tobytes())
        rows = {**other.rows(), **self.rows()}
        self._rows.write_text("".join(f"{json.dumps([number, rows[number]])}\n" for number in sorted(rows)))


def difference(one: AnswerRecord, other: AnswerRecord, ordered: bool, tolerance: float) -> int | None:
    """Returns the number of the first operation to which two records have answers that differ; None if all agree."""
    import numpy as np

    mine, theirs = one.digests(), other.digests()
    both, left, right = np.intersect1d(mine["number"], theirs["number"], assume_unique=True, return_indices=True)
    mine, theirs = mine[left], theirs[right]
    known = (mine["common"] != 0) & (theirs["common"] != 0)
    inexact = (mine["kinds"] == theirs["kinds"]) & (mine["exact"] != theirs["exact"])
    apart = (mine["grids"] != theirs["grids"]).all(axis=1)
    if not (known & (inexact | apart)).any():
        return None
    my_rows, their_rows = one.rows(), other.rows()
    for at in np.flatnonzero(known & (inexact | apart)):
        number = int(both[at])
        # Numbers that differ by less than the tolerance may be in different cells of each grid.
        if inexact[at] or number not in my_rows or number not in their_rows:
            return number
        if not rows_agree(my_rows[number], their_rows[number], ordered, tolerance):
            return number
    return None


def chain(records: Sequence[AnswerRecord]) -> str:
    """Returns the chained digests of all clients' answers: links 'operations of each client:digest' with blanks."""
    from hashlib import blake2b

    answers = [record.digests() for record in records]
    # An operation that was not executed ends the chain, because later answers may depend on it.
    lengths = [next((at for at, number in enumerate(each["number"]) if number != at), len(each)) for each in answers]
    counts = [count for count in CHAIN if count < min(lengths, default=0)] + [min(lengths, default=0)]
    hashes = [blake2b(digest_size=8) for _ in answers]
    links, before = [], 0
    for count in counts:
        for hashed, each in zip(hashes, answers, strict=True):
            hashed.update(each["common"][before:count].tobytes())
        both = blake2b(b"".join(hashed.digest() for hashed in hashes), digest_size=8).hexdigest()
        links.append(f"{count}:{both}")
        before = count
    return " ".join(links)


class Book:
    """The records of a run's trials of one phase, with the same parameters, by groups that agree."""

    def __init__(self, home: Path, clients: int, ordered: bool, tolerance: float) -> None:
        self._home = home
        self._clients = clients
        self._ordered = ordered
        self._tolerance = tolerance

    def enter(
        self, records: Sequence[AnswerRecord], engine: str, row: str, describe: Callable[[int, int], str]
    ) -> Mapping[str, Fact]:
        """Compares a trial's records with the book, and adds them to it. Returns the facts of the trial's sample.
        `row`: a text that only trials of the same row have. `describe(client, number)`: an operation, with its
        parameters."""
        differs, groups = "", list(self._groups())
        for home in groups:
            found = self._difference(records, home)
            if found is None:
                break
            differs = differs or self._describe_difference(records, home, engine, row, *found, describe)
        else:
            home = self._home / str(len(groups))
        self._join(home, records, engine, row)
        facts = self._facts(records, int(home.name))
        if differs:
            facts["answers_differ"] = differs
        return facts

    def _groups(self) -> Iterator[Path]:
        number = 0
        while (home := self._home / str(number)).is_dir():
            yield home
            number += 1

    def _facts(self, records: Sequence[AnswerRecord], group: int) -> dict[str, Fact]:
        identity = self._home / ID
        if not identity.exists():
            identity.write_text(uuid4().hex)
        count = sum(len(record.digests()) for record in records)
        return {
            "answers": count,
            "answers_group": group,
            "answers_book": identity.read_text(),
            "answers_chain": chain(records),
        }

    def _difference(self, records: Sequence[AnswerRecord], home: Path) -> tuple[int, int] | None:
        for client, record in enumerate(records):
            number = difference(record, AnswerRecord(home, client), self._ordered, self._tolerance)
            if number is not None:
                return client, number
        return None

    def _join(self, home: Path, records: Sequence[AnswerRecord], engine: str, row: str) -> None:
        for client, record in enumerate(records):
            AnswerRecord(home, client).merge(record)
        engines = self._engines(home) | {row: engine}
        (home / ENGINES).write_text("\n".join(f"{row}\t{name}" for row, name in engines.items()))

    @staticmethod
    def _engines(home: Path) -> dict[str, str]:
        """Returns the engines of a group, by row."""
        file = home / ENGINES
        if file.exists():
            lines = file.read_text().splitlines()
        else:
            lines = []
        return dict(line.split("\t") for line in lines)

    def _describe_difference(
        self,
        records: Sequence[AnswerRecord],
        home: Path,
        engine: str,
        row: str,
        client: int,
        number: int,
        describe: Callable[[int, int], str],
    ) -> str:
        """Returns the first difference from a group. Names the engine, because the text is also printed in the rows
        of others."""
        engines = self._engines(home)
        others = ", ".join(
            dict.fromkeys(f"another row of {name}" if name == engine else name for name in engines.values())
        )
        if row in engines:
            others = "in another trial"
        rows = [each.rows().get(number) for each in (records[client], AnswerRecord(home, client))]
        mine, theirs = map(shorten, rows)
        said = f"{describe(client, number)}: {engine} answered"
        if None in rows or mine == theirs:
            said = f"{said} otherwise than {others}"
        else:
            said = f"{said} {mine}, and {others} {theirs}"
        for lossy, exact, name in ((*rows, engine), (*reversed(rows), others)):
            if row not in engines and lost_fractions(lossy, exact):
                return f"{said}; times of {name} have no fractions of a second: {FRACTIONS}"
        return said


def lost_fractions(rows: object, other: object) -> bool:
    """Returns whether all times of an answer are whole seconds, unlike those of another."""
    fractions = [{match[1] for match in _TIME.finditer(json.dumps(each))} for each in (rows, other)]
    return fractions[0] == {None} and fractions[1] - {None} != set()
