"""Damages run files of each kind, loads and reports them in this process: one line, or a whole report."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import mutate
import pytest
from base import run_file, run_files, search_file

from dyno import results
from dyno.contracts.model import UsageError
from dyno.report import charts, export
from dyno.report.page import payload
from dyno.report.tables import text

pytestmark = pytest.mark.usefixtures("processes")


@cache
def old() -> Sequence[bytes]:
    """A run file of each kind, without checksums."""
    with TemporaryDirectory() as place:
        return run_files(Path(place))


@cache
def new() -> Sequence[bytes]:
    """Run files with checksums."""
    with TemporaryDirectory() as place:
        return run_file(Path(place, "r.json"), True, True, True), search_file(Path(place, "s.json"))


def damage_values(random: Random) -> bytes:
    return mutate.run_file(random, random.choice(old()))


def damage_byte(random: Random) -> bytes:
    """Changes a byte of a whole line to another that is no line break."""
    whole = bytearray(random.choice(new()))
    at = random.choice([at for at in random.sample(range(len(whole)), 9) if whole[at] != ord("\n")])
    whole[at] = random.choice([byte for byte in range(256) if byte not in (whole[at], ord("\n"))])
    return bytes(whole)


def report(file: Path) -> None:
    run = results.load(file)
    text.as_markdown(run)
    export.as_data(run)
    for table in (export.cells(run), export.samples(run)):
        assert list(table.rows) is not None
    payload.command(run)
    payload.plan(run)
    payload.machine(run)
    for chart in charts.list_charts(run):
        chart.records(run)


def check(damage: Callable[[Random], bytes], seed: int, file: Path) -> str | None:
    """Returns what a damaged file is refused for, if it is."""
    file.write_bytes(damage(Random(f"{damage.__name__} {seed}")))
    try:
        report(file)
    except UsageError as error:
        line = str(error)
        assert line.startswith(str(file)) and line.isprintable() and len(line) < 1_000, f"seed {seed}: {line!r:.500}"
        return line
    except Exception as error:
        raise AssertionError(f"seed {seed}: {type(error).__name__}: {str(error)[:300]}") from error
    return None


@pytest.mark.parametrize(("damage", "count"), [(damage_values, 60), (damage_byte, 60)])
def test_damaged_run_files_are_read_or_refused(damage: Callable[[Random], bytes], count: int, tmp_path: Path) -> None:
    check_seeds(damage, range(count), tmp_path / "r.json")


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("damage", [damage_values, damage_byte])
def test_many_damaged_run_files_are_read_or_refused(damage: Callable[[Random], bytes], tmp_path: Path) -> None:
    check_seeds(damage, range(100_000, 120_000), tmp_path / "r.json")


def check_seeds(damage: Callable[[Random], bytes], seeds: range, file: Path) -> None:
    refusals: Counter[bool] = Counter()
    for seed in seeds:
        refusals[check(damage, seed, file) is not None] += 1
    # Damaged values are often harmless; no changed byte is, except in a checksum's own key in the first line.
    assert refusals[True] / len(seeds) > (0.9 if damage is damage_byte else 0.3), refusals


if __name__ == "__main__":
    way = {each.__name__: each for each in (damage_values, damage_byte)}[sys.argv[1]]
    for number in map(int, sys.argv[2:]):
        print(check(way, number, Path("damaged.json")))
