"""Tests `dyno check` as a shell runs it: its exit status for CI, and the table with the reasons."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from madeup import a_cell, a_sample, an_attempt, changed, of_cells, reads, recorded, written
from shell import Ended, Shell, is_one_line

from dyno.results import Run

pytestmark = pytest.mark.usefixtures("processes")

QUIET = (1.0, 1.01, 0.99, 1.002, 0.998, 1.001)
NOISY = (1.0, 1.3, 0.8, 1.2, 0.9, 1.1)


def around(rate: float, noise: Sequence[float] = QUIET) -> list[float]:
    return [1e6 * rate * value for value in noise]


def latencies(ns: int) -> Run:
    attempts = tuple(an_attempt(block, a_sample(histogram=recorded(ns))) for block in range(3))
    return of_cells(a_cell(), attempts=attempts)


RUNS = {
    "base": reads(sqlite=around(1), lmdb=around(5)),
    "slower": reads(sqlite=around(1), lmdb=around(5 / 1.1)),
    "faster": reads(sqlite=around(2), lmdb=around(10)),
    "noisy": reads(sqlite=around(1), lmdb=around(4.9, NOISY)),
    "lost": reads(sqlite=around(1), lmdb=()),
    "without": reads(sqlite=around(1)),
    "more": reads(sqlite=around(1), lmdb=around(5), memory=around(9)),
    "none": reads(sqlite=(), lmdb=()),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("check")
    for name, run in RUNS.items():
        written(run, home / f"{name}.json")
    return home


@pytest.fixture
def check(shell: Shell, home: Path) -> Any:
    shell.home = home
    return lambda run, base, *words: shell.dyno("check", f"{run}.json", "--against", f"{base}.json", *words)


@pytest.mark.claim("The gate's exit status is its verdict, and a row that lost its number fails")
@pytest.mark.parametrize(
    ("run", "base", "words", "status"),
    [
        ("base", "base", [], 0),
        ("slower", "base", [], 1),
        ("base", "slower", [], 0),
        ("faster", "base", [], 0),
        ("slower", "base", ["--margin", "15%"], 0),
        ("slower", "base", ["--margin", "5 %", "--strict"], 1),
        ("base", "base", ["--strict"], 0),
        ("noisy", "base", [], 0),
        ("noisy", "base", ["--strict"], 1),
        ("lost", "base", [], 1),
        ("without", "base", [], 1),
        ("more", "base", [], 0),
        ("none", "none", [], 3),
        ("none", "base", [], 1),
        ("base", "none", [], 3),
        # The phases of these files are bulk calls, which have no percentiles.
        ("base", "base", ["--metric", "p99"], 3),
    ],
)
def test_the_exit_status_is_the_verdict(check: Any, run: str, base: str, words: list[str], status: int) -> None:
    ended = check(run, base, *words)
    assert (ended.status, ended.err) == (status, ""), ended


def rows(ended: Ended) -> list[str]:
    lines = [re.sub(r" {2,}", " ", line).strip() for line in ended.out.splitlines()]
    return [line for line in lines if line.startswith(("sqlite", "lmdb", "memory"))]


def last(ended: Ended) -> str:
    return ended.out.splitlines()[-1]


def test_table_shows_failed_rows_and_their_bounds(check: Any) -> None:
    ended = check("slower", "base")
    sqlite, lmdb = rows(ended)
    assert re.fullmatch(
        r"sqlite 1,000,500 op/s 1,000,500 op/s 1\.000 0\.99\d – 1\.0\d+ slower by at most 1\.\d % pass",
        sqlite,
    )
    assert re.fullmatch(
        r"lmdb 5,002,500 op/s 4,547,726 op/s 0\.909 0\.90\d – 0\.91\d slower by at least 8\.1 % FAIL", lmdb
    )
    assert last(ended) == "1 of 2 rows slower by more than 5 %."


@pytest.mark.parametrize(
    ("words", "told"), [([], "which passes without --strict"), (["--strict"], "which fails with --strict")]
)
def test_unclear_rows_are_counted_with_their_outcome(check: Any, words: list[str], told: str) -> None:
    ended = check("noisy", "base", *words)
    assert rows(ended)[1].endswith("unclear")
    expected = f"0 of 2 rows slower by more than 5 %; 1 unclear, {told}: more --samples would tell."
    assert last(ended) == expected


@pytest.mark.claim("The gate's exit status is its verdict, and a row that lost its number fails")
def test_row_that_lost_its_number_is_explained(check: Any) -> None:
    ended = check("lost", "base")
    assert "lmdb (process), read: only before; after: not measured yet" in ended.out.splitlines()
    assert last(ended) == "0 of 1 rows slower by more than 5 %; 1 without a number now."
    assert "lmdb (process), read: only before; after: not in the run" in check("without", "base").out.splitlines()


def test_the_margin_is_printed_as_a_ratio(check: Any) -> None:
    begin = "The margin of 5 % is a ratio of 0.95: a row passes if its interval begins above it"
    assert any(line.startswith(begin) for line in check("noisy", "base").out.splitlines())


def test_a_new_row_is_named_and_not_judged(check: Any) -> None:
    ended = check("more", "base")
    assert "memory (process), read: only after" in ended.out.splitlines()
    assert last(ended) == "0 of 2 rows slower by more than 5 %."


def test_json_has_the_outcome_of_each_row(check: Any) -> None:
    data = json.loads(check("slower", "base", "--json").out)
    assert (data["passed"], data["margin"]) == (False, 0.05)
    assert (data["before"], data["after"]) == ("base.json", "slower.json")
    assert {found["engine"]: found["state"] for found in data["changes"]} == {"sqlite": "fine", "lmdb": "slower"}
    assert data["changes"][1]["bound"] == pytest.approx(0.08, abs=0.02)
    data = json.loads(check("lost", "base", "--json").out)
    assert (data["passed"], data["lost"][0]["why"]) == (False, "not measured yet")
    data = json.loads(check("noisy", "base", "--json").out)
    assert (data["passed"], data["changes"][1]["state"]) == (True, "unclear")
    assert json.loads(check("noisy", "base", "--json", "--strict").out)["passed"] is False


def test_markdown_has_verdicts_and_summary(check: Any) -> None:
    ended = check("slower", "base", "--markdown")
    assert ended.status == 1
    assert re.search(r"^\| lmdb \|.* \| FAIL \|$", ended.out, re.M)
    assert ended.out.splitlines()[-1] == "- 1 of 2 rows slower by more than 5 %."


def planted(file: Path, slower: float) -> None:
    """Replaces every sample's time and CPU time, so that figures don't depend on a clock. Removes the engine's
    options, so that the rows of both files are compared."""
    header, *trials = [json.loads(line) for line in file.read_text().splitlines()]
    for cell in header["cells"]:
        cell["options"] = {}
    for trial in trials:
        for sample in trial["samples"]:
            sample["elapsed_ns"] = int(1e7 * slower * QUIET[trial["block"]])
            sample["client"] |= {"user_ns": sample["elapsed_ns"], "system_ns": 0}
    file.write_text("".join(json.dumps(line) + "\n" for line in (header, *trials)))


@pytest.mark.claim("The gate's exit status is its verdict, and a row that lost its number fails")
def test_real_run_fails_only_with_a_planted_slowdown(shell: Shell) -> None:
    before, after = shell.home / "before.json", shell.home / "after.json"
    for engine, file, slower in (("synthetic", before, 1.0), ("synthetic:slower=10", after, 1.1)):
        small = ("--samples", 3, "-p", "operations=100", "-p", "work=1")
        assert shell.dyno("run", "selftest", "-e", engine, *small, "-o", file).status == 0
        planted(file, slower)
    failed = shell.dyno("check", after, "--against", before)
    assert failed.status == 1
    # The output lists settings that differ.
    assert re.search(r"^synthetic +slower +0 +10 *$", failed.out, re.M)
    assert shell.dyno("check", before, "--against", after).status == 0
    assert shell.dyno("check", before, "--against", before, "--strict").status == 0


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["base.json"], "Missing option '--against'; see dyno check --help"),
        (["base.json", "--against", "no.json"], "can't read no.json: No such file or directory"),
        (["base.json", "--against", "base.json", "--metric", "speed"], "metric speed is not known; there are: "),
        (["base.json", "--against", "base.json", "--margin", "x"], "--margin x: expected a percentage over 0"),
        (["base.json", "--against", "base.json", "--margin", "100%"], "margin 100%: expected less than 100 %"),
        (["base.json", "--against", "base.json", "--json", "--markdown"], "--json and --markdown exclude each other"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_invalid_check_is_a_one_line_usage_error(shell: Shell, home: Path, words: list[str], line: str) -> None:
    shell.home = home
    status, out, err = shell.dyno("check", *words)
    assert (status, out) == (2, "")
    assert is_one_line(err)
    assert err.startswith(f"dyno: {line}")


def test_cpu_time_check_ignores_throughput_swings(shell: Shell, tmp_path: Path) -> None:
    """If other processes halve the throughput, a check by CPU time passes; with three times the CPU time it fails."""

    def run(name: str, rates: list[float], cpu_ns: int) -> Path:
        run = changed(
            reads(lmdb=rates),
            lambda engine, sample: replace(sample, client={"user_ns": sample.items * cpu_ns, "system_ns": 0}),
        )
        return written(run, tmp_path / f"{name}.json")

    base = run("base", [100_000.0] * 6, 2_000)
    busy = run("busy", [50_000.0] * 6, 2_000)
    heavy = run("heavy", [100_000.0] * 6, 6_000)
    assert shell.dyno("check", busy, "--against", base).status == 1
    assert shell.dyno("check", busy, "--against", base, "--metric", "cpu").status == 0
    failed = shell.dyno("check", heavy, "--against", base, "--metric", "cpu")
    assert failed.status == 1 and "by the CPU time of an item" in failed.out
    assert "needs at least 3.0 times as much CPU time" in failed.out
    assert "1 of 1 rows shown to need over 5 % more CPU time" in failed.out


def test_memory_check_speaks_of_memory_not_speed(shell: Shell, tmp_path: Path) -> None:
    def run(name: str, mib: int) -> Path:
        return written(
            changed(reads(lmdb=[1e5] * 6), lambda _, sample: replace(sample, client_peak_bytes=mib << 20)),
            tmp_path / f"{name}.json",
        )

    base, same, heavy = run("base", 100), run("same", 104), run("heavy", 120)
    passed = shell.dyno("check", same, "--against", base, "--metric", "memory")
    assert passed.status == 0 and "needs at most 4 % more memory" in passed.out
    failed = shell.dyno("check", heavy, "--against", base, "--metric", "memory", "--json")
    data = json.loads(failed.out)
    assert failed.status == 1 and not data["passed"]
    assert data["changes"][0]["text"] == "needs at least 20 % more memory"
