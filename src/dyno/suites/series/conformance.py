"""Conformance checks of the port `series`. `opened` takes an archive's name and the names of its variables."""

from collections.abc import Sequence

import numpy as np

from dyno.contracts.model import Tier, Wrong
from dyno.contracts.suite import Opened, by_name
from dyno.suites.series import verify
from dyno.suites.series.dataset import SECOND, START
from dyno.suites.series.port import SampleBatch, Samples, Series
from dyno.suites.series.samples import Digest, SampleRow, batch, columns_of, samples

NAMES = ("G1:C00-MG{PS:00000}I-RB", "G2:C01-VA{IP:00001}P-I", "a name", "G2:C03-RF{Cav:00003}Phs-SP")
MINUTE = 60 * SECOND


class ReferenceArchive:
    """Expected contents of an archive."""

    def __init__(self, names: Sequence[str] = NAMES) -> None:
        self.names, self.rows = names, dict[tuple[int, int], SampleRow]()

    def insert(self, port: Series, *rows: SampleRow) -> None:
        """Inserts one batch into the archive, and adds it to the expected contents."""
        port.insert(batch(columns_of(rows)))
        self.rows |= {(row[0], row[1]): row for row in rows}

    def one(self, pv: int, start: int = 0, end: int = 2**63 - 1) -> Samples:
        rows = sorted(row for (number, ts), row in self.rows.items() if number == pv and start <= ts < end)
        return samples(columns_of(rows)[1:])

    def check(self, port: Series) -> None:
        """Compares all samples by each method that reads."""
        port.settle()
        for pv, name in enumerate(self.names):
            right = self.one(pv)
            verify.verify_samples(name, port.one(pv), right)
            for ts in right.ts.tolist()[:3]:
                if port.seen(pv, ts) is not True:
                    raise Wrong(f"{name}: the sample of {ts} is not seen")
        expected = Digest()
        expected.add(batch(columns_of(list(self.rows.values()))))
        verify.verify_digest(verify.digest_of(port.all()), expected)
        verify.verify_latest(port.latest(), self.latest())

    def latest(self) -> SampleBatch:
        last = {row[0]: row for row in sorted(self.rows.values())}
        return batch(columns_of([last[pv] for pv in sorted(last)]))


def make_rows(pvs: Sequence[int], seconds: Sequence[float], value: float = 1.0) -> list[SampleRow]:
    """Returns a sample of each variable at each time, all different."""
    return [
        (pv, START + round(second * SECOND) + 137 * (pv + 1), value + pv / 10 + second, int(second) % 21, pv % 4)
        for second in seconds
        for pv in pvs
    ]


def extracts(opened: Opened[Series], tier: Tier | None) -> None:
    """Samples are read as they were written, in batches of any size. A variable may have no samples."""
    for sizes in ((12,), (1, 3, 8)):
        model, given = ReferenceArchive(), make_rows((0, 1, 2), range(4))
        with opened(f"extracts-{len(sizes)}", NAMES) as port:
            for size in sizes:
                model.insert(port, *given[:size])
                given = given[size:]
            model.check(port)
            if port.seen(3, START) or port.seen(0, START):
                raise Wrong("seen() returns True for a sample that was never written")


def empty(opened: Opened[Series], tier: Tier | None) -> None:
    """An empty archive returns no samples."""
    with opened("empty", NAMES) as port:
        ReferenceArchive().check(port)
        verify.verify_buckets(
            "nothing", port.downsample(0, START, START + MINUTE, MINUTE), ReferenceArchive().one(0), MINUTE
        )


def values(opened: Opened[Series], tier: Tier | None) -> None:
    """Doubles keep all bits, the smallest and largest too, and so do integers."""
    doubles = (0.1, 1 / 3, -2.5e-7, 123456789.123456789, 2.0**53 + 1, 1.7976931348623157e308, 2.2250738585072014e-308)
    model = ReferenceArchive()
    with opened("values", NAMES) as port:
        model.insert(port, *((1, START + n * SECOND, value, n, 3 - n % 4) for n, value in enumerate(doubles)))
        model.insert(port, (2, START, -1e-300, 21, 3), (2, START + SECOND, -4.0, 32_767, 32_767))
        model.check(port)


def nanoseconds(opened: Opened[Series], tier: Tier | None) -> None:
    """Samples one nanosecond apart are different samples."""
    model, at = ReferenceArchive(), START + 123_456_789
    with opened("nanoseconds", NAMES) as port:
        model.insert(port, *((0, at + n, float(n), 0, 0) for n in range(3)))
        model.insert(port, *((0, at + n, float(n), 0, 0) for n in (1_000, 1_001, 1_000_000, 1_000_001)))
        model.check(port)


def windows(opened: Opened[Series], tier: Tier | None) -> None:
    """A window includes its start and excludes its end."""
    model = ReferenceArchive()
    with opened("windows", NAMES) as port:
        model.insert(port, *((pv, START + n * SECOND, n + 0.25, 0, 0) for n in range(20) for pv in (0, 3)))
        port.settle()
        for first, last in ((0, 20), (3, 9), (5, 6), (7, 7), (19, 40), (30, 50)):
            start, end = START + first * SECOND, START + last * SECOND
            verify.verify_samples(f"seconds {first} to {last}", port.window(3, start, end), model.one(3, start, end))


def late(opened: Opened[Series], tier: Tier | None) -> None:
    """A sample older than the stored ones is read in the order of its time."""
    model = ReferenceArchive()
    with opened("late", NAMES) as port:
        model.insert(port, *make_rows((0, 1), range(10, 20)))
        model.insert(port, *make_rows((0, 2), (3, 15.5, 21)))
        model.insert(port, *make_rows((1,), (1,)))
        model.check(port)


def duplicates(opened: Opened[Series], tier: Tier | None) -> None:
    """A sample that is written again unchanged is stored once."""
    model, given = ReferenceArchive(), make_rows((0, 1, 3), range(6))
    with opened("duplicates", NAMES) as port:
        model.insert(port, *given)
        model.insert(port, *given[4:8], *make_rows((0,), (7,)))
        model.insert(port, *given[:1], *given[4:5])
        model.check(port)
        verify.verify_buckets("a minute", port.downsample(0, START, START + MINUTE, MINUTE), model.one(0), MINUTE)


def corrections(opened: Opened[Series], tier: Tier | None) -> None:
    """A sample that is written again with another value, status or severity replaces the earlier one, also if it is
    smaller."""
    model, given = ReferenceArchive(), make_rows((0, 1), range(4), 50.0)
    with opened("corrections", NAMES) as port:
        model.insert(port, *given)
        model.insert(port, *((pv, ts, -value, stat, sevr) for pv, ts, value, stat, sevr in given[2:5]))
        model.insert(port, *((pv, ts, value * 9, 7, 2) for pv, ts, value, _, _ in given[4:7]))
        model.insert(port, *((pv, ts, value, 0, 0) for pv, ts, value, _, _ in given[7:]))
        model.check(port)


def downsamples(opened: Opened[Series], tier: Tier | None) -> None:
    """Buckets without a sample, and samples outside the requested times, are left out."""
    model, minutes = ReferenceArchive(), (0, 1, 4)
    with opened("downsamples", NAMES) as port:
        seconds = [60 * minute + second for minute in minutes for second in (0, 0.001, 17, 59.999)]
        model.insert(port, *make_rows((1, 2), seconds, -30.0))
        port.settle()
        for first, last, bucket in ((0, 5, 1), (1, 4, 1), (0, 10, 5), (2, 4, 1)):
            start, end = START + first * MINUTE, START + last * MINUTE
            buckets = port.downsample(1, start, end, bucket * MINUTE)
            verify.verify_buckets(f"minutes {first} to {last}", buckets, model.one(1, start, end), bucket * MINUTE)


def many(opened: Opened[Series], tier: Tier | None) -> None:
    """With more samples than fit into a page, a block or a response, none is lost or duplicated."""
    names = [f"V{number:03d}" for number in range(120)]
    rng, model = np.random.default_rng(5), ReferenceArchive(names)
    with opened("many", names) as port:
        for part in range(3):
            given = make_rows(range(120), range(100 * part, 100 * part + 100))
            model.insert(port, *(given[at] for at in rng.permutation(len(given)).tolist()))
        model.check(port)


def names(opened: Opened[Series], tier: Tier | None) -> None:
    """An archive stores variables by name: it can be opened with the names in another order, and with more names."""
    if tier is Tier.VOLATILE:
        return
    model = ReferenceArchive()
    with opened("names", NAMES) as port:
        model.insert(port, *make_rows((0, 1, 2), range(3)))
    others = ("new", *NAMES[::-1])
    moved = ReferenceArchive(others)
    moved.rows = {(at, ts): (at, ts, *rest) for pv, ts, *rest in model.rows.values() for at in [len(NAMES) - pv]}  # type: ignore[misc]
    with opened("names", others) as port:
        moved.check(port)
        moved.insert(port, *make_rows((0, 1, 4), (5, 6)))
        moved.check(port)


def persistence(opened: Opened[Series], tier: Tier | None) -> None:
    """Unless the tier is volatile, an archive that is closed and opened again has the same samples, and takes
    more."""
    if tier is Tier.VOLATILE:
        return
    model, given = ReferenceArchive(), make_rows((0, 2), range(10))
    with opened("persistence", NAMES) as port:
        model.insert(port, *given[:8])
    with opened("persistence", NAMES) as port:
        model.check(port)
        model.insert(port, *given[6:])
    with opened("persistence", NAMES) as port:
        model.check(port)


CHECKS = by_name(
    *(extracts, empty, values, nanoseconds, windows, late, duplicates, corrections, downsamples, many, names),
    persistence,
)
BRIEF = {name: CHECKS[name] for name in ("late", "duplicates", "windows", "persistence")}
"""Quick checks, run before measuring. They also import all modules that a phase needs before its clock starts."""
