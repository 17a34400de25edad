"""Tests the pytest plug-in in a user's project: a planted slowdown fails its gate, and noise does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
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


OPTIONS = ("-q", "-p", "dyno.pytest_plugin", "-p", "no:cacheprovider", *QUICK)
TWO_WORKERS = ("-p", "xdist", "-n", "2")
# The plug-ins of other installed packages take longer to import than most sessions.
NO_OTHER_PLUGINS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


@pytest.fixture(scope="module")
def forks(processes: None) -> Iterator[subprocess.Popen[str]]:
    """A process that forks one for each session of pytest."""
    with subprocess.Popen(
        [sys.executable, TESTS / "pytest_forks.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process


@pytest.fixture
def project(shell: Shell, forks: subprocess.Popen[str]) -> Any:
    """Runs pytest on a test file with this text, in a directory of its own."""

    def run(text: str, *words: object) -> Ended:
        assert forks.stdin is not None and forks.stdout is not None
        (shell.home / "test_mine.py").write_text(text)
        # The modules of the plug-in are imported before pytest can rewrite their assertions.
        arguments = [*OPTIONS, *map(str, words), "-W", "ignore::pytest.PytestAssertRewriteWarning"]
        environment = {**shell.environment(), **NO_OTHER_PLUGINS}
        request = {"home": str(shell.home), "words": arguments, "environment": environment}
        forks.stdin.write(json.dumps(request) + "\n")
        forks.stdin.flush()
        status = int(forks.stdout.readline())
        return Ended(status, (shell.home / "out").read_text(), (shell.home / "err").read_text())

    return run


@pytest.fixture
def fresh_project(shell: Shell) -> Any:
    """Runs pytest as `project` does, but in a process that has imported nothing."""

    def run(text: str, *words: object) -> Ended:
        (shell.home / "test_mine.py").write_text(text)
        shell.given |= NO_OTHER_PLUGINS
        return shell.sh(sys.executable, "-m", "pytest", *OPTIONS, *words)

    return run


def test_gate_fails_on_slowdown_and_passes_otherwise(project: Any, shell: Shell) -> None:
    saved = project(TEST.replace("COUNT", "200"), "--dyno-save", "base.json")
    assert saved.status == 0, saved.out
    assert "test_sum" in saved.out and "95 %" in saved.out
    header, *samples = map(json.loads, (shell.home / "base.json").read_text().splitlines())
    assert header["plan"]["suite"] == "calls" and len(header["cells"]) == 1 and len(samples) == 6
    # The test has the same name, and does about 100 times the work.
    slow = TEST.replace("COUNT", "200").replace("sum(range(count))", "[sum(range(count)) for _ in range(100)][0]")
    # Compare by CPU time, which other processes don't change.
    words = ("--dyno-baseline", "base.json", "--dyno-metric", "cpu", "--junitxml", "j.xml")
    failed = project(slow, *words)
    assert failed.status == 1, failed.out
    assert "slower than the baseline allows (10%)" in failed.out and "cpu [95 %" in failed.out
    (suite,) = junitparser.JUnitXml.fromfile(str(shell.home / "j.xml"))
    assert suite.failures == 1
    # By elapsed time, the test fails with a baseline a thousand times as fast.
    scale(shell, "fast.json", 1e-3)
    assert project(TEST.replace("COUNT", "200"), "--dyno-baseline", "fast.json").status == 1
    # With a baseline a thousand times as slow, the test passes on any machine.
    scale(shell, "slow.json", 1e3)
    passed = project(TEST.replace("COUNT", "200"), "--dyno-baseline", "slow.json")
    assert passed.status == 0, passed.out


def scale(shell: Shell, name: str, factor: float) -> None:
    """Writes base.json with other times."""
    header, *lines = map(json.loads, (shell.home / "base.json").read_text().splitlines())
    for line in lines:
        (sample,) = line["samples"]
        sample["elapsed_ns"] = int(sample["elapsed_ns"] * factor)
        sample["client"] |= {part: int(sample["client"][part] * factor) for part in ("user_ns", "system_ns")}
    (shell.home / name).write_text("".join(json.dumps(line) + "\n" for line in [header, *lines]))


def write_turns(shell: Shell, name: str, minutes: Sequence[int], factors: Sequence[float]) -> None:
    """Writes base.json as if its sample had been taken in turns at these minutes, with times by these factors."""
    header, line = map(json.loads, (shell.home / "base.json").read_text().splitlines())
    lines = []
    for turn, (minute, factor) in enumerate(zip(minutes, factors, strict=True)):
        sample = dict(line["samples"][0])
        sample["elapsed_ns"] = int(sample["elapsed_ns"] * factor)
        started = f"2026-01-01T00:{minute:02}:00+00:00"
        lines.append({**line, "block": turn, "started": started, "samples": [sample]})
    (shell.home / name).write_text("".join(json.dumps(line) + "\n" for line in [header, *lines]))


def test_turns_are_compared_pairwise(project: Any, shell: Shell) -> None:
    words = ("--dyno-turns", "--dyno-samples", "5")
    text = "def test_it(dyno_bench): dyno_bench(dict)\n"
    first = project(text, *words, "--dyno-save", "base.json", "--dyno-baseline", "base.json")
    assert first.status == 4 and "base.json: No such file" in first.out + first.err
    assert project(text, *words, "--dyno-save", "base.json").status == 0
    # The machine becomes slower from turn to turn, and the head is 100 times as slow as the base in each.
    drift = (1, 2, 4, 8, 16)
    write_turns(shell, "old.json", (0, 3, 4, 7, 8), [0.001 * factor for factor in drift])
    write_turns(shell, "new.json", (1, 2, 5, 6), [0.1 * factor for factor in drift[:4]])
    judged = project(text, *words, "--dyno-save", "new.json", "--dyno-baseline", "old.json")
    assert judged.status == 1 and "Measured in turns: ratios of speed" in judged.out, judged.out
    assert "slower than the baseline allows (10%)" in judged.out
    blocks = [json.loads(line)["block"] for line in (shell.home / "new.json").read_text().splitlines()[1:]]
    assert blocks == [0, 1, 2, 3, 4]
    over = project(text, *words, "--dyno-save", "new.json")
    assert over.status == 4 and "new.json: it has all 5 turns" in over.out + over.err


MARKED = """
import pytest
@pytest.mark.dyno(margin="900000%")
def test_a(dyno_bench): dyno_bench(dict)
@pytest.mark.dyno(margin="90000%")
def test_b(dyno_bench): dyno_bench(list)
def test_c(dyno_bench): dyno_bench(tuple)
"""


def test_a_test_may_have_its_own_margin(project: Any, shell: Shell) -> None:
    assert project(MARKED.replace("900000%", "90%"), "--dyno-save", "base.json").status == 0
    scale(shell, "fast.json", 1 / 100)
    ended = project(MARKED, "--dyno-baseline", "fast.json", "--dyno-margin", "150%", "--dyno-metric", "cpu")
    assert ended.status == 1 and "1 failed, 1 passed, 1 error" in ended.out, ended.out
    assert "test_a: @pytest.mark.dyno: margin 900000%: expected a percentage over 0 and up to 100,000" in ended.out
    assert "test_c is slower than the baseline allows (150%)" in ended.out
    assert "The runs were not measured in turns: a drift of the" in ended.out, ended.out


HOLDS = """
held = []
def test_it(dyno_bench):
    held.append(bytearray(MIB << 20))
    dyno_bench(dict)
"""


def test_peak_memory_is_a_metric(fresh_project: Any) -> None:
    assert fresh_project(HOLDS.replace("MIB", "1"), "--dyno-save", "base.json").status == 0
    words = ("--dyno-baseline", "base.json", "--dyno-metric", "memory", "--dyno-margin", "50%")
    assert fresh_project(HOLDS.replace("MIB", "1"), *words).status == 0
    more = fresh_project(HOLDS.replace("MIB", "400"), *words)
    assert more.status == 1 and "needs more memory than the baseline allows (50%)" in more.out, more.out
    assert "MiB memory" in more.out and "Ratios of memory, before to after" in more.out


def test_a_baseline_of_an_earlier_version_is_read(project: Any, shell: Shell) -> None:
    test = "test_mine.py::test_a"
    for factor, status in ((1e-3, 1), (1e6, 0)):
        times = [factor * 1_000 * (1 + at / 100) for at in range(6)]
        tests = {test: {"time_ns": times, "cpu_ns": times}}
        (shell.home / "base.json").write_text(json.dumps({"schema": 1, "machine": "elsewhere", "tests": tests}))
        ended = project(TWO, "-k", "test_a", "--dyno-baseline", "base.json")
        assert ended.status == status and "with machine elsewhere" in ended.out, ended.out


def test_wrong_answer_or_error_fails_the_test(project: Any) -> None:
    wrong = project("def test_it(dyno_bench):\n    dyno_bench(abs, [-1], check=lambda given, got: got == given)\n")
    assert wrong.status == 1 and "returned 1, which is wrong" in wrong.out
    error = project("def test_it(dyno_bench):\n    dyno_bench(len, [3])\n")
    assert error.status == 1 and "the measured call of 3 raised TypeError" in error.out
    twice = project("def test_it(dyno_bench):\n    dyno_bench(dict)\n    dyno_bench(dict)\n")
    assert twice.status == 1 and "name the second one" in twice.out


def test_new_test_passes_and_is_reported_as_new(project: Any, shell: Shell) -> None:
    (shell.home / "base.json").write_text('{"schema": 1, "tests": {}}')
    ended = project("def test_it(dyno_bench):\n    dyno_bench(dict)\n", "--dyno-baseline", "base.json")
    assert ended.status == 0 and "not in the baseline" in ended.out


TWO = "def test_a(dyno_bench): dyno_bench(dict)\ndef test_b(dyno_bench): dyno_bench(list)\n"


def saved(shell: Shell) -> set[str]:
    header = json.loads((shell.home / "base.json").read_text().splitlines()[0])
    return {cell["name"] for cell in header["cells"]}


def test_xdist_worker_measurements_are_saved_printed_and_judged(project: Any, shell: Shell) -> None:
    ended = project(TWO, *TWO_WORKERS, "--dyno-save", "base.json")
    assert ended.status == 0, ended.out
    assert saved(shell) == {"test_mine.py::test_a", "test_mine.py::test_b"}
    assert "test_b: " in ended.out and "95 %" in ended.out
    scale(shell, "fast.json", 1e-3)
    failed = project(TWO, *TWO_WORKERS, "--dyno-baseline", "fast.json")
    assert failed.status == 1 and failed.out.count("slower than the baseline allows") >= 2


@pytest.mark.parametrize("words", [(), TWO_WORKERS])
def test_run_without_measurements_fails_and_keeps_baseline(
    project: Any, shell: Shell, words: tuple[str, ...]
) -> None:
    assert project(TWO, "--dyno-save", "base.json").status == 0
    before = (shell.home / "base.json").read_bytes()
    ended = project("def test_it(): pass\n", "--dyno-save", "base.json", *words)
    assert ended.status == 1 and "base.json was not written: no test measured anything" in ended.out
    interrupted = project(TWO + "def test_c(): raise KeyboardInterrupt\n", "--dyno-save", "base.json")
    assert interrupted.status == 2 and "base.json was not written" in interrupted.out
    assert (shell.home / "base.json").read_bytes() == before


def test_report_names_different_origin_and_vanished_tests(project: Any, shell: Shell) -> None:
    assert project(TWO, "--dyno-save", "base.json").status == 0
    alike = project(TWO, "--dyno-baseline", "base.json", "--dyno-margin", "100%")
    assert "measured with" not in alike.out and "not measured now" not in alike.out
    text = (shell.home / "base.json").read_text()
    header, *lines = map(json.loads, text.splitlines())
    header["host"]["python"]["version"] = "3.9.1"
    lines = [{**line, "facts": {"machine": "elsewhere"}} for line in lines]
    (shell.home / "base.json").write_text("".join(json.dumps(line) + "\n" for line in [header, *lines]))
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
def test_declared(dyno_bench): dyno_bench(declared, inflight=3)
def test_returned(dyno_bench): dyno_bench(returned)
def test_instance(dyno_bench): dyno_bench(Instance())
def test_stream(dyno_bench): dyno_bench(stream)
def test_generator(dyno_bench): dyno_bench(generator)
def test_expression(dyno_bench): dyno_bench(expression)
"""


def test_call_returning_unstarted_coroutine_or_generator_is_refused(project: Any) -> None:
    ended = project(UNFINISHED, "-W", "error")
    assert ended.status == 1 and "4 failed, 2 passed" in ended.out, ended.out
    assert "test_mine.py::test_returned: a call only creates a coroutine" in ended.out
    assert "test_declared: " in ended.out and "test_instance: " in ended.out
    assert "test_stream: a call only creates an async generator" in ended.out
    for name in ("generator", "expression"):
        assert f"test_mine.py::test_{name}: a call only creates a generator" in ended.out
    assert "Error" not in ended.out and "never awaited" not in ended.out + ended.err


ASYNC = """
import asyncio
async def nap(seconds):
    await asyncio.sleep(seconds)
    return seconds
def test_alone(dyno_bench):
    assert dyno_bench(nap, [0.02], check=lambda seconds, answer: answer == seconds).time.median > 0.02e9
def test_together(dyno_bench):
    assert dyno_bench(nap, [0.02], inflight=20).time.median < 0.02e9
def test_plain(dyno_bench): dyno_bench(dict, inflight=2)
def test_inside(dyno_bench):
    async def test(): dyno_bench(nap, [0.001])
    asyncio.run(test())
"""


def test_coroutines_run_on_their_own_event_loop(project: Any) -> None:
    ended = project(ASYNC, "-W", "error")
    assert "2 failed, 2 passed" in ended.out, ended.out
    assert "test_plain: inflight is for an `async def`" in ended.out
    assert "test_inside: an event loop is running already" in ended.out


SETUP = """
values = [3, 1, 2]
def sort(values):
    assert values == [3, 1, 2]
    values.sort()
def test_sort(dyno_bench): dyno_bench(sort, [values], setup=list)
def test_pop(dyno_bench): dyno_bench(list.pop, setup=lambda: [1])
def test_fails(dyno_bench): dyno_bench(dict, setup=lambda: 1 / 0)
"""


def test_setup_runs_before_each_call(project: Any) -> None:
    ended = project(SETUP)
    assert "1 failed, 2 passed" in ended.out and "setup raised ZeroDivisionError" in ended.out, ended.out


FIGURES = """
def test_a(dyno_bench):
    dyno_bench(dict)
    dyno_bench.record("compressed", SIZE, unit="B", better="less", margin="5%")
    dyno_bench.record("ratio", 2.5)
def test_b(dyno_bench): dyno_bench(list)
"""
MARGIN = ("--dyno-margin", "100%", "--dyno-metric", "cpu")


@pytest.mark.parametrize("words", [(), TWO_WORKERS])
def test_recorded_figures_are_saved_shown_and_compared(project: Any, shell: Shell, words: tuple[str, ...]) -> None:
    first = project(FIGURES.replace("SIZE", "1000"), "--dyno-save", "base.json", *words)
    assert first.status == 0 and "test_a: compressed 1,000 B" in first.out and "test_a: ratio 2.5" in first.out
    shown = shell.dyno("show", "base.json")
    assert "in one process" in shown.out and "fresh process" not in shown.out
    assert shown.status == 0 and "compressed (B)" in shown.out and "1,000" in shown.out.replace("1000", "1,000")
    fine = project(FIGURES.replace("SIZE", "1049"), "--dyno-baseline", "base.json", *MARGIN, *words)
    assert fine.status == 0 and "1,000 before (+4.9%)" in fine.out, fine.out
    assert project(FIGURES.replace("SIZE", "10"), "--dyno-baseline", "base.json", *MARGIN, *words).status == 0
    worse = project(FIGURES.replace("SIZE", "1051"), "--dyno-baseline", "base.json", *MARGIN, *words)
    assert worse.status == 1 and "worse than the baseline allows (5%)" in worse.out, worse.out


def test_invalid_record_calls_fail_with_reason(project: Any) -> None:
    calls = (
        '"x", float("nan")',
        '"x", 1, margin="5%"',
        '"x", 1, better="higher"',
        '"x", 1, better="less", margin="y"',
    )
    tests = [
        f"def test_{at}(dyno_bench):\n    dyno_bench(dict)\n    dyno_bench.record({call})\n"
        for at, call in enumerate(calls)
    ]
    ended = project("\n".join(tests) + "def test_none(dyno_bench): dyno_bench.record('x', 1)\n")
    assert "5 failed" in ended.out or "4 failed, 1 passed" in ended.out, ended.out
    for said in ("a finite number", "'less' or 'more'", "call dyno_bench before"):
        assert said in ended.out


def test_a_saved_baseline_is_a_run_file(project: Any, shell: Shell) -> None:
    for name in ("one.json", "two.json"):
        assert project(TWO, "--dyno-save", name).status == 0
    shown = json.loads(shell.dyno("show", "one.json", "--json").out)
    rows = {cell["engine"]: cell for cell in shown["cells"]}
    assert set(rows) == {f"call:function=test_mine.py::test_{name}" for name in "ab"}
    assert all(row["valid"] and row["samples"] == 6 and row["latency_ns"]["p50"] > 0 for row in rows.values())
    history = [f"{number}.json" for number in range(8)]
    for name in history:
        (shell.home / name).write_bytes((shell.home / "one.json").read_bytes())
    for words in (
        ("compare", "one.json", "two.json"),
        ("check", "one.json", "--against", "two.json", "--margin", "90%"),
        ("export", "one.json", "--format", "pyperf", "-o", "pyperf.json"),
        ("report", "one.json", "two.json", "-o", "page.html"),
        ("history", *history),
    ):
        ended = shell.dyno(*words)
        assert ended.status == 0, (words, ended.err)
    assert sorted(path.name for path in shell.home.glob(".*")) == []


PIPE = "a pipe"


@pytest.mark.parametrize(
    ("content", "words", "line"),
    [
        (None, (), "base.json: No such file"),
        ("{}", (), "not written by --dyno-save"),
        ('{"schema": 2, "tests": {}}', (), "of schema 2"),
        ('{"kind":"run","schema":3}\n', (), "is damaged"),
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
def test_invalid_baseline_or_option_fails_before_any_test(
    project: Any, shell: Shell, content: str | None, words: tuple[str, ...], line: str
) -> None:
    base = shell.home / "base.json"
    if content == PIPE:
        os.mkfifo(base)
    elif content is not None:
        base.write_bytes(content.encode(errors="surrogateescape"))
    ended = project("def test_it(): raise SystemExit(7)\n", "--dyno-baseline", "base.json", *words)
    assert ended.status == 4 and line in ended.out + ended.err


def test_measuring_modules_are_imported_only_when_needed(fresh_project: Any) -> None:
    ended = fresh_project(
        "import sys\ndef test_it(): assert not {'dyno.library', 'dyno.measure'} & set(sys.modules)\n"
    )
    assert ended.status == 0, ended.out


def test_plugin_is_declared_as_pytest_entry_point() -> None:
    declared = (TESTS.parent / "pyproject.toml").read_text()
    assert '[project.entry-points.pytest11]\n"dyno.pytest_plugin" = "dyno.pytest_plugin"\n' in declared
