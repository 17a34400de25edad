"""Feeds damaged files and command lines to Dyno. Each must give a one-line error or do no harm: no traceback, a valid
status, no impossible figure, no control characters for the terminal, no hang.

Every run of the tests has a few hundred cases of each kind; `-m soak` has tens of thousands. A case depends only on
its number, so that a failure can be repeated: `python tests/fuzz/test_fuzz.py file 4711`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random

import mutate
import pytest
from base import COMMANDS, CRASHED, NOTHING_IS_RUN, PLANS, PRICES, run_file, run_files
from judge import Case, Ended, run_cases

from dyno.report.formats import FORMATS

pytestmark = pytest.mark.usefixtures("processes")

SOAK = 10_000
FORMS = (
    ("show", "m.json"),
    ("show", "m.json", "--json"),
    ("show", "m.json", "--csv"),
    ("show", "m.json", "--markdown"),
)
OTHERS = (
    ("show", "m.json", "--by-phase"),
    ("show", "m.json", "--json", "--samples"),
    ("show", "m.json", "--csv", "--samples"),
    ("show", "m.json", "-o", "x.parquet"),
    ("compare", "m.json"),
    ("compare", "m.json", "--json", "--metric", "p99"),
    ("compare", "m.json", "r.json", "--json"),
    ("compare", "r.json", "m.json"),
    ("check", "m.json", "--against", "r.json"),
    ("check", "r.json", "--against", "m.json", "--json", "--strict"),
    *(("export", "m.json", "--format", name) for name in FORMATS),
    ("show", "m.json", "--failures"),
    ("show", "m.json", "--all", "--prices", "prices.toml"),
)
# Each of these commands takes as long as all commands above together.
DRAWING = (
    ("report", "m.json", "-o", "x.html", "--overwrite"),
    ("site", "m.json", "r.json", "-o", "site"),
    *(
        ("plot", "m.json", "--chart", name, "--phase", phase, "-o", f"{name.replace(':', '-')}.svg")
        for name, phase in (
            *(("throughput", "mixed"), ("ratios", "read-cold"), ("latency", "mixed"), ("parts", "read")),
            *(("series", "read"), ("size", "fill"), ("sweep:size", "read"), ("size-speed", "read")),
        )
    ),
)


@cache
def bases() -> list[bytes]:
    with tempfile.TemporaryDirectory() as place:
        return run_files(Path(place))


@cache
def sweep() -> bytes:
    with tempfile.TemporaryDirectory() as place:
        return run_file(Path(place, "r.json"), False, False, False, (10, 50, 100, 200, 400))


def file(seed: int) -> Case:
    """A damaged run file, read by all non-drawing commands and by one command that draws."""
    drawn = DRAWING[seed // 3 % len(DRAWING)] if seed % 3 else DRAWING[seed % 2]
    return _file(seed, FORMS[:1], (*FORMS[1:], *OTHERS, drawn))


def quick_file(seed: int) -> Case:
    """A damaged run file, read by a few commands."""
    others = Random(seed).sample((*FORMS[1:], *OTHERS), 2)
    return _file(seed, FORMS[:1], (*others, *([DRAWING[seed // 10 % len(DRAWING)]] if seed % 10 == 0 else ())))


def _file(seed: int, commands: Sequence[Sequence[str]], rest: Sequence[Sequence[str]]) -> Case:
    random = Random(f"file {seed}")
    whole = random.choice(bases())
    files = {"m.json": mutate.run_file(random, whole), "r.json": whole, "prices.toml": PRICES.encode()}
    return Case(f"file {seed}", files, commands, rest)


def plan(seed: int) -> Case:
    random = Random(f"plan {seed}")
    plan_text = mutate.plan(random, random.choice(PLANS))
    return Case(f"plan {seed}", {"plan.toml": plan_text}, [("run", "plan.toml", *NOTHING_IS_RUN)])


def command(seed: int) -> Case:
    random = Random(f"command {seed}")
    (name, *words), last = random.choice(COMMANDS)
    command = [name, *mutate.command(random, words), *last]
    files = {"r.json": bases()[seed % 3], "plan.toml": PLANS[0].encode(), "prices.toml": PRICES.encode()}
    return Case(f"command {seed}", files, [command])


def several(seed: int) -> Case:
    """A damaged run file of a sweep, alone and as part of a history."""
    random = Random(f"several {seed}")
    whole = sweep()
    others = [f"{number}.json" for number in range(7)]
    runs = sorted([*others, "m.json"], key=lambda _: random.random())
    return Case(
        f"several {seed}",
        {**dict.fromkeys(others, whole), "m.json": mutate.run_file(random, whole)},
        [("extrapolate", "m.json", "--to", "size=1000,20000")],
        [
            ("extrapolate", "m.json", "--hold-out", "400", "--json"),
            ("history", *runs),
            ("history", *runs, "--metric", "p99", "--margin", "1%"),
        ],
    )


def crashed(seed: int) -> Case:
    """A damaged result of `dyno crash`."""
    random = Random(f"crashed {seed}")
    whole = "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in CRASHED).encode()
    return Case(
        f"crashed {seed}", {"m.json": mutate.run_file(random, whole)}, [("list", "engines", "--crash", "m.json")]
    )


def prices(seed: int) -> Case:
    """A damaged table of prices."""
    random = Random(f"prices {seed}")
    files = {"r.json": bases()[seed % 3], "prices.toml": mutate.plan(random, PRICES)}
    return Case(
        f"prices {seed}", files, [("show", "r.json", *form, "--prices", "prices.toml") for form in ((), ("--json",))]
    )


def check_cases(make: Callable[[int], Case], seeds: range, processes: int) -> None:
    failures = run_apart(make, seeds, processes)
    print("\n" + counts(failures))
    wrong = [ended for ended in failures if ended.wrong]
    shown = "\n".join(f"{one.case}: dyno {' '.join(map(str, one.words))[:200]}: {one.wrong}" for one in wrong[:40])
    assert not wrong, f"{len(wrong)} of {len(failures)}:\n{shown}"
    assert len({ended.case for ended in failures}) == len(seeds)


def run_apart(make: Callable[[int], Case], seeds: range, processes: int) -> list[Ended]:
    """Runs the cases from a new process. It has no threads when it forks; a thread of the test process may hold a
    lock.
    """
    words = [make.__name__, "--from", str(seeds.start), "--to", str(seeds.stop), "--processes", str(processes)]
    ended = subprocess.run([sys.executable, __file__, *words], stdout=subprocess.PIPE, check=True, text=True)
    return [Ended(*json.loads(line)) for line in ended.stdout.splitlines()]


def counts(found: Sequence[Ended]) -> str:
    """Table of the number of commands by name and exit status."""
    rows = Counter((ended.words[0] if ended.words else "-", ended.status) for ended in found)
    return "\n".join(
        f"{name:<10} {status!s:<5} {count:>8,}" for (name, status), count in sorted(rows.items(), key=str)
    )


def named(of: object) -> str:
    return getattr(of, "__name__", str(of))


FEW = [(quick_file, 80), (plan, 100), (command, 100), (several, 20), (crashed, 50), (prices, 30)]


@pytest.mark.parametrize(("make", "count"), FEW, ids=named)
def test_damaged_inputs_are_read_or_refused(make: Callable[[int], Case], count: int) -> None:
    check_cases(make, range(count), processes=1)


@pytest.mark.soak
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("make", [file, plan, command, several, crashed, prices], ids=named)
def test_many_damaged_inputs_are_read_or_refused(make: Callable[[int], Case]) -> None:
    check_cases(make, range(1_000_000, 1_000_000 + SOAK), processes=2)


if __name__ == "__main__":
    kinds = {kind.__name__: kind for kind in (file, quick_file, plan, command, several, crashed, prices)}
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("seeds", type=int, nargs="*")
    parser.add_argument("--from", type=int, default=0, dest="start")
    parser.add_argument("--to", type=int, default=0, dest="stop")
    parser.add_argument("--processes", type=int, default=1)
    asked = parser.parse_args()
    bases()
    every = [*asked.seeds, *range(asked.start, asked.stop)]
    for ended in run_cases(kinds[asked.kind], every, asked.processes):
        print(json.dumps([ended.case, list(ended.words), ended.status, ended.wrong]))
