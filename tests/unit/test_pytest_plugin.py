"""Tests the pytest plug-in in a user's project: a planted slowdown fails its gate, and noise does not."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import junitparser
import pytest
from shell import TESTS, Ended, Shell

pytestmark = pytest.mark.usefixtures("processes")

TEST = """
import pytest

def work(count):
    return sum(range(count))

@pytest.mark.parametrize("size", [COUNT])
def test_sum(dyno_bench, size):
    found = dyno_bench(work, [size, size + 1], check=lambda count, sum: sum == count * (count - 1) // 2)
    assert found.operations > 0 and found.time.low <= found.time.median <= found.time.high
    assert found.latency_ns["p50"] <= found.latency_ns["p99"] and found.cpu.median > 0
"""
QUICK = ("--dyno-seconds", "0.02", "--dyno-samples", "6")


@pytest.fixture
def project(shell: Shell) -> Any:
    """Runs pytest on a test file with this text, in a directory of its own."""

    def run(text: str, *words: object) -> Ended:
        (shell.home / "test_mine.py").write_text(text)
        plugin = ("-p", "dyno.pytest_plugin", "-p", "no:cacheprovider")
        return shell.sh(sys.executable, "-m", "pytest", "-q", *plugin, *QUICK, *words)

    return run


def test_a_planted_slowdown_fails_the_gate_and_the_same_again_does_not(project: Any, shell: Shell) -> None:
    saved = project(TEST.replace("COUNT", "200"), "--dyno-save", "base.json")
    assert saved.status == 0, saved.out
    assert "test_sum" in saved.out and "95 %" in saved.out
    base = json.loads((shell.home / "base.json").read_text())
    ((name, found),) = base["tests"].items()
    assert len(found["time_ns"]) == len(found["cpu_ns"]) == 6
    # The test has the same name, and does about 100 times the work.
    slow = TEST.replace("COUNT", "200").replace("sum(range(count))", "[sum(range(count)) for _ in range(100)][0]")
    # Compare by CPU time, which other processes don't change.
    words = ("--dyno-baseline", "base.json", "--dyno-metric", "cpu", "--junitxml", "j.xml")
    failed = project(slow, *words)
    assert failed.status == 1, failed.out
    assert "slower than the baseline allows (10%)" in failed.out and "cpu [95 %" in failed.out
    (suite,) = junitparser.JUnitXml.fromfile(str(shell.home / "j.xml"))
    assert suite.failures == 1
    # By elapsed time, the test fails with a baseline a million times as fast.
    fast = {kind: [value / 1e6 for value in values] for kind, values in found.items()}
    (shell.home / "fast.json").write_text(json.dumps({**base, "tests": {name: fast}}))
    assert project(TEST.replace("COUNT", "200"), "--dyno-baseline", "fast.json").status == 1
    # With a baseline a million times as slow, the test passes on any machine.
    slowed = {kind: [value * 1e6 for value in values] for kind, values in found.items()}
    (shell.home / "slow.json").write_text(json.dumps({**base, "tests": {name: slowed}}))
    passed = project(TEST.replace("COUNT", "200"), "--dyno-baseline", "slow.json")
    assert passed.status == 0, passed.out


def test_a_wrong_answer_and_an_error_fail_the_test(project: Any) -> None:
    wrong = project("def test_it(dyno_bench):\n    dyno_bench(abs, [-1], check=lambda given, got: got == given)\n")
    assert wrong.status == 1 and "returned 1, which is wrong" in wrong.out
    error = project("def test_it(dyno_bench):\n    dyno_bench(len, [3])\n")
    assert error.status == 1 and "the measured call of 3 raised TypeError" in error.out
    twice = project("def test_it(dyno_bench):\n    dyno_bench(dict)\n    dyno_bench(dict)\n")
    assert twice.status == 1 and "name the second one" in twice.out


def test_a_new_test_is_said_to_be_new_and_passes(project: Any, shell: Shell) -> None:
    (shell.home / "base.json").write_text('{"schema": 1, "tests": {}}')
    ended = project("def test_it(dyno_bench):\n    dyno_bench(dict)\n", "--dyno-baseline", "base.json")
    assert ended.status == 0 and "not in the baseline" in ended.out


TWO = "def test_a(dyno_bench): dyno_bench(dict)\ndef test_b(dyno_bench): dyno_bench(list)\n"


def saved(shell: Shell) -> set[str]:
    return set(json.loads((shell.home / "base.json").read_text())["tests"])


def test_measurements_of_xdist_workers_are_saved_printed_and_judged(project: Any, shell: Shell) -> None:
    ended = project(TWO, "-n", "2", "--dyno-save", "base.json")
    assert ended.status == 0, ended.out
    assert saved(shell) == {"test_mine.py::test_a", "test_mine.py::test_b"}
    assert "test_b: " in ended.out and "95 %" in ended.out
    base = json.loads((shell.home / "base.json").read_text())
    for found in base["tests"].values():
        found.update({kind: [value / 1e6 for value in found[kind]] for kind in ("time_ns", "cpu_ns")})
    (shell.home / "fast.json").write_text(json.dumps(base))
    failed = project(TWO, "-n", "2", "--dyno-baseline", "fast.json")
    assert failed.status == 1 and failed.out.count("slower than the baseline allows") >= 2


@pytest.mark.parametrize("words", [(), ("-n", "2")])
def test_a_run_that_measured_nothing_leaves_the_baseline_and_fails(
    project: Any, shell: Shell, words: tuple[str, ...]
) -> None:
    assert project(TWO, "--dyno-save", "base.json").status == 0
    before = (shell.home / "base.json").read_bytes()
    ended = project("def test_it(): pass\n", "--dyno-save", "base.json", *words)
    assert ended.status == 1 and "base.json was not written: no test measured anything" in ended.out
    interrupted = project(TWO + "def test_c(): raise KeyboardInterrupt\n", "--dyno-save", "base.json")
    assert interrupted.status == 2 and "base.json was not written" in interrupted.out
    assert (shell.home / "base.json").read_bytes() == before


def test_another_origin_and_vanished_tests_are_mentioned(project: Any, shell: Shell) -> None:
    assert project(TWO, "--dyno-save", "base.json").status == 0
    alike = project(TWO, "--dyno-baseline", "base.json", "--dyno-margin", "100%")
    assert "measured with" not in alike.out and "not measured now" not in alike.out
    base = json.loads((shell.home / "base.json").read_text())
    (shell.home / "base.json").write_text(json.dumps({**base, "machine": "elsewhere", "python": "3.9.1"}))
    ended = project(TWO, "--dyno-baseline", "base.json", "-k", "test_a", "--dyno-margin", "100%")
    assert "with machine elsewhere" in ended.out and "with python 3.9.1" in ended.out
    assert "test_b: in the baseline, not measured now" in ended.out


UNFINISHED = """
import asyncio
async def declared(): await asyncio.sleep(0.01)
def returned(): return declared()
class Instance:
    async def __call__(self): pass
async def stream(): yield 1
def generator(): yield 1
def expression(): return (each for each in [1])
def test_declared(dyno_bench): dyno_bench(declared)
def test_returned(dyno_bench): dyno_bench(returned)
def test_instance(dyno_bench): dyno_bench(Instance())
def test_stream(dyno_bench): dyno_bench(stream)
def test_generator(dyno_bench): dyno_bench(generator)
def test_expression(dyno_bench): dyno_bench(expression)
"""


def test_a_call_that_runs_nothing_is_refused_in_one_line(project: Any) -> None:
    ended = project(UNFINISHED, "-W", "error")
    assert ended.status == 1 and "6 failed" in ended.out
    for name in ("declared", "returned", "instance"):
        assert f"test_mine.py::test_{name}: a call only creates a coroutine" in ended.out
    assert "test_stream: a call only creates an async generator" in ended.out
    for name in ("generator", "expression"):
        assert f"test_mine.py::test_{name}: a call only creates a generator" in ended.out
    assert "Error" not in ended.out and "never awaited" not in ended.out + ended.err


PIPE = "a pipe"


@pytest.mark.parametrize(
    ("content", "words", "line"),
    [
        (None, (), "base.json: No such file"),
        ("{}", (), "not written by --dyno-save"),
        ('{"schema": 2, "tests": {}}', (), "of schema 2"),
        *(
            (
                f'{{"schema": 1, "tests": {{"t": {{"time_ns": {times}, "cpu_ns": [1]}}}}}}',
                (),
                "not written by --dyno-save",
            )
            for times in ("[]", "[NaN]", "[1, Infinity]", "[0]", "5", '"text"', '["5"]', "{}")
        ),
        ("[" * 100_000, (), "nested too deeply"),
        ("\udcff", (), "not written by --dyno-save"),
        (PIPE, (), "base.json: it is a pipe, not a file"),
        ('{"schema": 1, "tests": {}}', ("--dyno-margin", "wide"), "--dyno-margin wide"),
        ('{"schema": 1, "tests": {}}', ("--dyno-samples", "1"), "--dyno-samples: expected a whole number from 3"),
        (
            '{"schema": 1, "tests": {}}',
            ("--dyno-samples", 2**63 - 1),
            "--dyno-samples: expected a whole number from 3",
        ),
        ('{"schema": 1, "tests": {}}', ("--dyno-seconds", "nan"), "--dyno-seconds: expected more than 0"),
        ('{"schema": 1, "tests": {}}', ("--dyno-save", "missing/b.json"), "the directory missing does not exist"),
        ('{"schema": 1, "tests": {}}', ("--dyno-save", ""), "it is a directory"),
    ],
)
def test_what_is_no_baseline_is_said_before_any_test_runs(
    project: Any, shell: Shell, content: str | None, words: tuple[str, ...], line: str
) -> None:
    base = shell.home / "base.json"
    if content == PIPE:
        os.mkfifo(base)
    elif content is not None:
        base.write_bytes(content.encode(errors="surrogateescape"))
    ended = project("def test_it(): raise SystemExit(7)\n", "--dyno-baseline", "base.json", *words)
    assert ended.status == 4 and line in ended.out + ended.err


def test_tests_that_do_not_measure_import_nothing_of_it(project: Any) -> None:
    ended = project("import sys\ndef test_it(): assert not {'dyno.library', 'dyno.measure'} & set(sys.modules)\n")
    assert ended.status == 0, ended.out


def test_the_plug_in_is_found_by_its_entry_point() -> None:
    declared = (TESTS.parent / "pyproject.toml").read_text()
    assert '[project.entry-points.pytest11]\n"dyno.pytest_plugin" = "dyno.pytest_plugin"\n' in declared
