"""Conformance checks of the port `arrays`, which compare a table with known rows."""

from contextlib import suppress

import numpy as np

from dyno.contracts.equality import PlannedFailure, expect
from dyno.contracts.model import Tier, Wrong
from dyno.contracts.suite import Opened, by_name
from dyno.suites.arrays.dataset import STATS, Dataset, Model
from dyno.suites.arrays.port import NUMERIC, Arrays, Change, Chunk

ODD = 2**53 + 1
"""The smallest whole number that a double can't represent."""


class Rows:
    """Writes rows to a store, and models the expected contents of the store."""

    def __init__(self, seed: int = 7) -> None:
        self.dataset = Dataset(seed)
        self.model = Model(self.dataset, 5)

    def write(self, port: Arrays, *counts: int) -> None:
        """Writes chunks with these numbers of rows in one transaction."""
        with port.writing(sum(counts)) as write:
            for count in counts:
                chunk = self.chunk(count)
                write(chunk)
                self.model.append(chunk)

    def chunk(self, count: int) -> Chunk:
        """Returns the next `count` rows."""
        return self.dataset.chunk(range(self.model.rows, self.model.rows + count))

    def update(self, port: Arrays, number: int) -> None:
        version = self.model.next_version(number)
        port.update(Change(self.model.part(number).start, self.model.values(number, version)))
        self.model.update(number, version)

    def check(self, port: Arrays) -> None:
        """Checks all rows, some slices, and all sums."""
        whole = range(self.model.rows)
        for rows in (whole, whole[:1], whole[-1:], whole[3:-2], whole[len(whole) // 2 :]):
            self.model.check(rows, port.slice(rows))
        for name in NUMERIC:
            self.model.check_sum(name, port.sum(name))


def slices(opened: Opened[Arrays], tier: Tier | None) -> None:
    """Slices return the rows that were written, for chunks of any size and from any position."""
    for counts in ((12,), (1, 1, 10), (7, 5)):
        rows = Rows()
        with opened(f"slices-{len(counts)}") as port:
            rows.write(port, *counts)
            rows.check(port)


def sums(opened: Opened[Arrays], tier: Tier | None) -> None:
    """Sums of whole numbers are exact, also beyond the precision of a double; sums of floats use all their bits."""
    rows = Rows()
    with opened("sums") as port:
        chunk = {**rows.chunk(9), "order_id": np.arange(ODD, ODD + 9, dtype=np.uint64)}
        with port.writing(9) as write:
            write(chunk)
        rows.model.append(chunk)
        for name in NUMERIC:
            rows.model.check_sum(name, port.sum(name))
        expect(port.slice(range(9))["order_id"], chunk["order_id"], "order_id")


def stats(opened: Opened[Arrays], tier: Tier | None) -> None:
    """Means and standard deviations are right; deviations are those of the population rather than of a sample."""
    rows = Rows()
    with opened("stats") as port:
        rows.write(port, 11)
        rows.model.check_stats(STATS, port.stats(STATS))
        rows.model.check_stats(STATS[::-1], port.stats(STATS[::-1]))


def frames(opened: Opened[Arrays], tier: Tier | None) -> None:
    """A DataFrame has the requested columns and every row."""
    rows = Rows()
    with opened("frames") as port:
        rows.write(port, 8, 5)
        for names in (("quantity",), ("resource_uid", "total_price")):
            frame = port.frame(names)
            if type(frame).__name__ != "DataFrame" or list(frame.columns) != list(names):
                raise Wrong(f"a frame of {', '.join(names)} is a {type(frame).__name__} of {list(frame.columns)}")
            chunk = rows.dataset.chunk(range(13), names=names)
            # The frame may have rows in any order, and signed or unsigned whole numbers.
            expected = sorted(zip(*(values.tolist() for values in chunk.values()), strict=True))
            got = sorted(zip(*(frame[name].to_numpy().tolist() for name in names), strict=True))
            expect(got, expected, "rows of a frame")


def appends(opened: Opened[Arrays], tier: Tier | None) -> None:
    """A second transaction appends after the first, also if fewer rows are written than were announced."""
    rows = Rows()
    with opened("appends") as port:
        rows.write(port, 10)
        rows.write(port, 3, 4)
        rows.check(port)
        with port.writing(100) as write:
            chunk = rows.chunk(2)
            write(chunk)
        rows.model.append(chunk)
        rows.check(port)
        rows.write(port, 6)
        rows.check(port)


def updates(opened: Opened[Arrays], tier: Tier | None) -> None:
    """An update changes the given rows and no others, also when repeated."""
    rows = Rows()
    with opened("updates") as port:
        rows.write(port, 18)
        # Slice 3 is shorter, since it is the last one.
        for number in (1, 3, 1, 0):
            rows.update(port, number)
            rows.check(port)
        rows.write(port, 4)
        rows.check(port)


def atomicity(opened: Opened[Arrays], tier: Tier | None) -> None:
    """A failed transaction leaves nothing behind."""

    rows = Rows()
    with opened("atomicity") as port:
        rows.write(port, 10)
        with suppress(PlannedFailure), port.writing(6) as write:
            write(rows.chunk(6))
            raise PlannedFailure
        rows.check(port)
        rows.write(port, 3)
        rows.check(port)


def persistence(opened: Opened[Arrays], tier: Tier | None) -> None:
    """A store that is closed and opened again has all its rows and takes more, unless the tier is volatile."""
    if tier is Tier.VOLATILE:
        return
    rows = Rows()
    with opened("persistence") as port:
        rows.write(port, 9, 4)
    with opened("persistence") as port:
        rows.check(port)
        rows.write(port, 5)
    with opened("persistence") as port:
        rows.check(port)


CHECKS = by_name(slices, sums, stats, frames, appends, updates, atomicity, persistence)
BRIEF = {name: CHECKS[name] for name in ("sums", "frames", "appends", "persistence")}
"""Quick checks, run before measuring. They also import every library that a phase needs before the clock starts."""
