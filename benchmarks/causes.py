"""How often `dyno why` names a planted cause first, and how often it names one where there is none.

    python benchmarks/causes.py [--samples N] [--equal N] [--only CAUSE]

Each planted cause is an option of the engine `synthetic`, a small cache of SQLite, or a missing index, in three
sizes: a tenth of the time, a half, and twice the time on top. Counts are chosen by what the cause costs on this
machine. The base and the row with the cause are measured in turns. `--equal`: comparisons of equal rows.

Exit status 1: the first reason is another than the planted one in over a tenth of the cases, or over one of a hundred
comparisons of equal rows has a reason.
"""

from __future__ import annotations

import argparse
import mmap
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import dyno
from dyno.library.result import Result
from dyno.report.tables import why as why_texts
from dyno.stats.account import (
    CLIENT_CPU,
    CLIENT_KERNEL,
    CLIENT_USER,
    CORE_WAIT,
    DEVICE_WAIT,
    OTHER_WAIT,
)
from dyno.stats.compare import check_baseline
from dyno.stats.why import Explanation, explain_run

SIZES = {"10 %": 0.1, "50 %": 0.5, "3 times": 2.0}
LEAST_RIGHT = 0.9
WORK = 20_000
OPERATIONS = 300
PAGE = 4096
ROUNDS = 200
EQUAL_ROWS = 11
KERNEL = (CLIENT_KERNEL, CLIENT_CPU)
COMPUTING = (CLIENT_USER, CLIENT_KERNEL, CLIENT_CPU)
WAITING = (DEVICE_WAIT, OTHER_WAIT)
SHOP = """
suite = "sql"
engine = ["sqlite"]

[sql]
schema = "CREATE TABLE orders (id bigint PRIMARY KEY, customer_id integer, amount decimal(10, 2))"

[sql.tables.orders]
rows = {rows}
id = "serial"
customer_id = "uniform:1..{customers}"
amount = "decimal:1..500:2"

[sql.transactions.history]
script = '''
\\set c random(1, {customers})
SELECT id, amount FROM orders WHERE customer_id = :c ORDER BY id;
'''

[sql.variants.indexed]
after = "CREATE INDEX by_customer ON orders (customer_id)"
"""


@dataclass(frozen=True)
class Cause:
    name: str
    option: str
    """Option of `synthetic`."""
    cost_s: Callable[[], float]
    """Returns the time of one unit of the option here."""
    expected: Sequence[str]
    """Parts, any of which is right as the first."""
    base: int = 0
    """Units that the base has, if one takes longer than the operation."""


def _median_s(call: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return median(times)


def _call_s() -> float:
    return _median_s(lambda: [os.getppid() for _ in range(100)]) / 100


def _cached_s() -> float:
    with tempfile.TemporaryFile() as file:
        file.write(bytes(64 << 10))
        file.flush()
        return _median_s(lambda: os.pread(file.fileno(), 64 << 10, 0)) / 64


def _answer_s() -> float:
    return _median_s(lambda: bytes(256 << 10)) / 256


def _direct_s() -> float:
    with tempfile.NamedTemporaryFile(dir=".") as file, mmap.mmap(-1, PAGE) as page:
        file.write(bytes(64 * PAGE))
        file.flush()
        os.fsync(file.fileno())
        descriptor = os.open(file.name, os.O_RDONLY | os.O_DIRECT)
        try:
            return _median_s(lambda: os.preadv(descriptor, [page], 0))
        finally:
            os.close(descriptor)


def _flush_s() -> float:
    with tempfile.TemporaryFile(dir=".") as file:

        def flush() -> None:
            os.pwrite(file.fileno(), bytes(PAGE), 0)
            os.fdatasync(file.fileno())

        return _median_s(flush)


CAUSES = (
    Cause("computing", "slower", lambda: 0.0, (CLIENT_USER, CLIENT_CPU)),
    Cause("system calls", "calls", _call_s, COMPUTING),
    Cause("reads from the page cache", "cached_kib", _cached_s, KERNEL),
    Cause("reads from the device", "direct_reads", _direct_s, WAITING, base=10),
    Cause("flushes", "flushes", _flush_s, WAITING, base=10),
    Cause("a lock", "lock_us", lambda: 1e-6, WAITING),
    Cause("a busy core", "neighbour", lambda: 0.0, (CORE_WAIT,)),
    Cause("a bigger answer", "answer_kib", _answer_s, COMPUTING),
)


def measure(suite: str, engines: Sequence[str], samples: int, **params: object) -> Result:
    with tempfile.TemporaryDirectory(dir=".") as place:
        path = Path(place) / "run.json"
        return dyno.run(
            suite=suite,
            engines=list(engines),
            params={name: [value] for name, value in params.items()},
            samples=samples,
            path=path,
            work_dir=Path(place),
        )


def plant(cause: Cause, size: float, samples: int) -> Explanation:
    """Measures `synthetic` with the cause and without."""
    work = WORK
    if cause.option == "slower":
        base, more = 0, round(100 * size)
    elif cause.option == "neighbour":
        # So much of the core that the rest takes the time. At most a half: the kernel shares a core fairly.
        base, more = 0, min(round(100 * size / (1 + size)), 100)
    elif cause.base:
        base, more = cause.base, cause.base + round(cause.base * size)
        work = 0
    else:
        base, more = 0, max(round(size * _operation_s(samples) / cause.cost_s()), 1)
    options = f"base=synthetic:{cause.option}={base}" if base else "base=synthetic"
    engines = [options, f"planted=synthetic:{cause.option}={more}"]
    operations = 60 if cause.base else OPERATIONS
    return _reason(measure("selftest", engines, samples, work=work, operations=operations), "base")


_known: list[float] = []


def _operation_s(samples: int) -> float:
    """Returns the time of an operation of `synthetic` without a cause."""
    if not _known:
        run = measure("selftest", ["synthetic"], 3, work=WORK, operations=OPERATIONS)
        (row,) = [row for row in run.rows if not row.floor]
        assert row.client_cpu_ns is not None
        _known.append(row.client_cpu_ns / 1e9)
    return _known[0]


def small_cache(size: float, samples: int) -> Explanation:
    """Measures gets of SQLite with a cache that holds all records, and with one that does not."""
    records = {0.1: 8_000, 0.5: 20_000, 2.0: 60_000}[size]
    engines = ["base=sqlite", "planted=sqlite:cache_mib=1"]
    return _reason(measure("records", engines, samples, records=records, operations=20_000), "base", "rand-key")


def missing_index(size: float, samples: int) -> Explanation:
    """Measures a query with an index and without, over so many rows."""
    rows = {0.1: 200, 0.5: 1_000, 2.0: 5_000}[size]
    with tempfile.TemporaryDirectory(dir=".") as place:
        plan = Path(place) / "shop.toml"
        plan.write_text(SHOP.format(rows=rows, customers=max(rows // 10, 1)))
        path = Path(place) / "run.json"
        words = ["run", str(plan), "--samples", str(samples), "-o", str(path)]
        subprocess.run([sys.executable, "-m", "dyno", *words], check=True, capture_output=True)
        return _reason(dyno.load(path), "sqlite indexed")


def _reason(result: Result, baseline: str, phase: str | None = None) -> Explanation:
    tables = explain_run(result._run, check_baseline(result._run, baseline))
    (reason,) = [each for table in tables for each in table.explanations if phase in (None, table.table.phase)]
    return reason


def planted(samples: int, only: str | None) -> bool:
    right = total = 0
    print(f"{'cause':<28}{'size':<9}{'ratio':>6}  first reason\n")
    real = {"a small cache": (small_cache, KERNEL), "a missing index": (missing_index, COMPUTING)}
    for name in [*(cause.name for cause in CAUSES), *real]:
        if only not in (None, name):
            continue
        for size, share in SIZES.items():
            if name in real:
                find, expected = real[name]
                reason = find(share, samples)
            else:
                (cause,) = [each for each in CAUSES if each.name == name]
                reason, expected = plant(cause, share, samples), tuple(cause.expected)
            first = reason.named[0] if reason.named else "none"
            ratio = 1 / (reason.verdict.ratio or 1.0)
            right += first in expected
            total += 1
            mark = "" if first in expected else "  WRONG"
            print(f"{name:<28}{size:<9}{ratio:>6.2f}  {first}{mark}", flush=True)
            print(f"  {why_texts.explain(reason)[0]}", flush=True)
    print(f"\n{right} of {total} first reasons are the planted ones")
    return right >= LEAST_RIGHT * total


def equal(comparisons: int, samples: int) -> bool:
    """Compares equal rows: each run has as many as a large one."""
    named = done = 0
    engines = [f"e{at}=synthetic" for at in range(EQUAL_ROWS)]
    while done < comparisons:
        result = measure("selftest", engines, samples, work=WORK, operations=OPERATIONS)
        for table in explain_run(result._run):
            done += len(table.explanations)
            wrong = [each for each in table.explanations if each.named]
            named += len(wrong)
            for each in wrong:
                print(f"  {why_texts.explain(each)[0]}")
    print(f"{named} of {done} comparisons of equal rows have a reason")
    return named <= max(done / 100, 1)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="How often the first reason is the planted one.")
    parser.add_argument("--samples", type=int, default=6, metavar="N", help="of each row; default: 6")
    parser.add_argument("--equal", type=int, default=100, metavar="N", help="comparisons of equal rows; default: 100")
    parser.add_argument("--only", metavar="CAUSE", help="only this cause")
    args = parser.parse_args(arguments)
    good = planted(args.samples, args.only)
    good = (not args.equal or equal(args.equal, args.samples)) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
