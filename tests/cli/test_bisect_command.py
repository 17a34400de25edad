"""Tests `dyno bisect` as a shell runs it, on versions of a package with planted work, and `dyno check --bisect`."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import sys
from pathlib import Path

import msgspec
import pytest
from madeup import a_cell, a_sample, an_attempt, of_cells, reads, written
from shell import TESTS, Shell, is_one_line, wait_for

from dyno.cli.bisect import Candidates, Measurement
from dyno.contracts.model import VERSION
from dyno.options import RunRequest
from dyno.report.bisect_json import Bisection
from dyno.results import load
from dyno.runner.rows import NamedRow
from dyno.stats.bisection import DIFFERENT, OPEN, Verdict

sys.path.append(str(TESTS.parent / "benchmarks"))
import bisecting

pytestmark = pytest.mark.usefixtures("processes")

WORKS = {"1.0": 2_000, "1.1": 2_000, "1.2": 2_000, "1.3": 20_000, "1.4": 20_000}
BUILT = """
from dataclasses import replace

from dyno.contracts.engine import PortSpec
from dyno.contracts.settings import Setting
from dyno.engines.synthetic import ENGINE as SYNTHETIC
from dyno.engines.synthetic import Operations


class Built(Operations):
    def __init__(self, engine, work):
        super().__init__(engine, int(open(engine.options["program"]).read()))


ENGINE = replace(
    SYNTHETIC,
    name="built",
    ports={"synthetic": PortSpec(Built)},
    options=(*SYNTHETIC.options, Setting("program", str, "", "file with the work")),
)
"""
QUICK = ("-p", "operations=30")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return bisecting.plant(tmp_path_factory.mktemp("planted"), WORKS)


@pytest.fixture
def planted(shell: Shell, environment: dict[str, str]) -> Shell:
    shell.given = environment
    return shell


def bisect(good: str, bad: str, *words: str) -> tuple[str, ...]:
    return ("bisect", "selftest", "--good", f"planted@{good}", "--bad", f"planted@{bad}", *QUICK, *words)


def test_version_with_planted_work_is_named(planted: Shell) -> None:
    ended = planted.dyno(*bisect("1.0", "1.4", "-o", "steps"))
    assert ended.status == 0, ended.err
    first, *others = ended.out.splitlines()
    assert re.fullmatch(r"1\.4 against 1\.0: slower by \d.* %\] \(\d+ blocks\)", first)
    assert any(line.startswith("1.2 is like 1.0 (") for line in others)
    assert any(line.startswith("1.3 is like 1.4 (") for line in others)
    assert "planted 1.3 is the first version with the change: slower than 1.2 by " in ended.out
    # What takes the time is told as exactly as the kernel counts, and as other processes allow.
    assert re.search(r"planted 1\.3 takes \S+ .s longer than planted 1\.2 .*: \S+ .s more ", ended.out)
    assert re.search(r"^3 steps, \d+ samples, ", ended.out, re.MULTILINE)
    paths = sorted((planted.home / "steps").iterdir())
    assert [path.name for path in paths] == [
        "01_1.0_1.4.json",
        "02_1.0_1.2_1.4.json",
        "03_1.2_1.3_1.4.json",
    ]
    assert load(paths[2]).ending == "decided"
    # Nothing is left to measure.
    sizes = [path.stat().st_size for path in paths]
    assert planted.dyno(*bisect("1.0", "1.4", "-o", "steps", "--resume")).out == ended.out
    assert [path.stat().st_size for path in paths] == sizes
    again = planted.dyno(*bisect("1.0", "1.4", "-o", "steps"))
    assert again.status == 2 and "add --resume to continue" in again.err


def test_missing_versions_are_installed_when_needed(planted: Shell, tmp_path: Path) -> None:
    planted.given = {**planted.given, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    ended = planted.dyno(*bisect("1.4", "1.1", "--json"))
    assert ended.status == 0, ended.err
    assert re.findall("planted: fetching (.*)", ended.err) == ["1.1", "1.4", "1.2", "1.3"]
    result = msgspec.convert(json.loads(ended.out), Bisection)
    assert (result.kind, result.version, result.versions) == ("found", "1.3", ["1.1", "1.2", "1.3", "1.4"])
    assert result.change is not None
    assert (result.change.earlier, result.change.later) == ("1.2", "1.3")
    assert result.change.ratio < 0.5
    assert result.samples == sum(len(load(planted.home / step.run).attempts) for step in result.steps)


def test_version_that_cannot_be_had_is_left_out(planted: Shell, tmp_path: Path) -> None:
    environment = bisecting.plant(tmp_path / "own", {**WORKS, "1.2": 0})
    wheels = Path(environment["PIP_FIND_LINKS"])
    wheels.joinpath("planted-1.2-py3-none-any.whl").write_bytes(b"no wheel")
    planted.given = environment
    ended = planted.dyno(*bisect("1.0", "1.4", "-o", "steps"))
    assert ended.status == 0, ended.err
    assert "dyno: 1.2 is left out: 1.2 not installed: " in ended.err
    assert "planted is after 1.1, up to 1.3, which is slower than 1.1 by " in ended.out
    assert "1.2 can't be measured" in ended.out


def test_version_that_crashes_is_left_out(planted: Shell, tmp_path: Path) -> None:
    planted.given = bisecting.plant(tmp_path / "own", {**WORKS, "1.2": -1})
    ended = planted.dyno(*bisect("1.0", "1.4", "-o", "steps"))
    assert ended.status == 0, ended.err
    assert "dyno: 1.2 is left out: " in ended.err
    assert "1.2 can't be measured" in ended.out


def test_equal_versions_name_none(planted: Shell) -> None:
    ended = planted.dyno(*bisect("1.0", "1.2", "--margin", "100%"))
    assert ended.status == 1, ended.err
    assert "planted 1.0 and 1.2: no difference larger than " in ended.out
    assert "there is nothing to search for" in ended.out


def test_search_without_a_verdict_says_how_to_continue(planted: Shell) -> None:
    ended = planted.dyno(*bisect("1.0", "1.2", "--margin", "0.01%", "--within", "3s", "-o", "steps"))
    assert ended.status == 1, ended.err
    assert "planted 1.0 and 1.2 can't be told apart in the time: can't tell, needs " in ended.out
    assert "dyno: to continue: dyno bisect selftest" in ended.err and ended.err.rstrip().endswith("--resume")


@pytest.mark.parametrize(
    ("kind", "more", "blocks", "goes_on"),
    [
        (OPEN, 20, 100.0, True),
        (OPEN, 2_000, 100.0, False),
        (OPEN, None, 100.0, False),
        (OPEN, 2_000, math.inf, True),
        (DIFFERENT, None, 100.0, False),
    ],
)
def test_search_ends_if_the_verdict_would_take_too_long(
    kind: str, more: int | None, blocks: float, goes_on: bool, tmp_path: Path
) -> None:
    candidates = Candidates(NamedRow("planted", {}, None), VERSION, {"1.0": "1.0"})
    measurement = Measurement(RunRequest("selftest", within=1_000), candidates, None, tmp_path, False, None)
    run = of_cells(a_cell(), attempts=tuple(an_attempt(block, a_sample()) for block in range(9)))
    verdict = Verdict(kind, 9, more=more)
    cells, _ = measurement.find_undecided(run, blocks, lambda _: {}, lambda _: verdict)
    assert bool(cells) == goes_on


def test_builds_are_rows_of_their_programs(shell: Shell, tmp_path: Path) -> None:
    about = tmp_path / "plugin" / "built-0.1.dist-info"
    about.mkdir(parents=True)
    (about.parent / "built.py").write_text(BUILT)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: built\nVersion: 0.1\n")
    (about / "entry_points.txt").write_text("[dyno.engines]\nbuilt = built:ENGINE\n")
    shell.plugins = [about.parent]
    for name, work in {"a1": 2_000, "b2": 2_000, "c3": 20_000}.items():
        (shell.home / f"build-{name}").write_text(str(work))
    words = ("bisect", "selftest", "-e", "built", "--program", "build-{}", "--between", "a1,b2,c3", *QUICK)
    ended = shell.dyno(*words, "-o", "steps")
    assert ended.status == 0, ended.err
    assert "built c3 is the first version with the change: slower than b2 by " in ended.out
    run = load(shell.home / "steps" / "02_a1_b2_c3.json")
    assert {cell.label for cell in run.cells} == {"a1", "b2", "c3"}
    assert {str(cell.options["program"]) for cell in run.cells} >= {str(shell.home / "build-b2")}


def test_interrupted_search_is_readable_and_says_how_to_continue(planted: Shell) -> None:
    with planted.started(*bisect("1.0", "1.4", "--margin", "0.1%", "-o", "steps")) as process:
        file = planted.home / "steps" / "01_1.0_1.4.json"
        assert wait_for(lambda: file.exists() and file.read_bytes().count(b"\n") > 3)
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 130
    assert "dyno: 1 run file is kept in steps; to continue: dyno bisect selftest" in err
    assert len(load(file).attempts) >= 3
    assert planted.strays() == []


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--good", "planted@1.0"), "bisect needs --good and --bad ENGINE@VERSION"),
        (("--good", "planted", "--bad", "planted@1.3"), "--good planted: expected a version: planted@VERSION"),
        (("--good", "planted@1.0", "--bad", "planted@9"), "engine planted@9: no such version; there are 1.0, "),
        (("--good", "planted@1.0", "--bad", "planted@1.0"), "are the same version of planted: 1.0"),
        (("--good", "planted@1.0", "--bad", "planted@1.1"), "no version of planted lies between 1.0 and 1.1"),
        (("--good", "planted@1.0..1.1", "--bad", "planted@1.3"), "expected one version, got 1.0, 1.1"),
        (("--good", "planted@1.0:slower=1", "--bad", "planted@1.3"), "with the same options"),
        (("--good", "a=planted@1.0", "--bad", "planted@1.3"), "expected no label"),
        (("--good", "synthetic@1", "--bad", "synthetic@2"), "has no versions beside the installed one"),
        (("--good", "planted@1.0", "--bad", "planted@1.3", "--resume"), "--resume needs -o DIR"),
        (("--good", "planted@1.0", "--bad", "planted@1.3", "--program", "{}"), "leave --good and --bad out"),
        (("-e", "planted", "--program", "x", "--between", "a,b,c"), "expected {} where the build's name belongs"),
        (("-e", "planted", "--program", "{}", "--between", "a,b"), "expected at least 3 different names"),
        (("-e", "planted", "--program", "{}"), "builds need all of"),
        (("-e", "planted", "--good", "planted@1.0"), "--engine is for builds"),
    ],
)
def test_bad_request_is_refused_in_one_line(words: tuple[str, ...], line: str, planted: Shell) -> None:
    ended = planted.dyno("bisect", "selftest", *words)
    assert (ended.status, ended.out) == (2, "")
    assert is_one_line(ended.err) and line in ended.err
    assert not list(planted.home.iterdir())


# -- for git --------------------------------------------------------------------------------------------------

QUIET = (1.0, 1.01, 0.99, 1.002, 0.998, 1.001)
NOISY = (1.0, 1.3, 0.8, 1.2, 0.9, 1.1)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("good.json", "--against", "good.json"), 0),
        (("bad.json", "--against", "good.json"), 1),
        (("bad.json", "--against", "good.json", "--margin", "60%"), 0),
        (("noisy.json", "--against", "good.json"), 125),
        (("none.json", "--against", "none.json"), 125),
        (("none.json", "--against", "good.json"), 1),
        (("missing.json", "--against", "good.json"), 128),
        (("good.json", "--against", "good.json", "--strict"), 128),
        (("good.json", "--unknown"), 128),
    ],
)
def test_check_has_the_statuses_of_git_bisect(words: tuple[str, ...], status: int, shell: Shell) -> None:
    for name, noise in {"good": QUIET, "bad": [value / 1.4 for value in QUIET], "noisy": NOISY, "none": ()}.items():
        written(reads(lmdb=[1e6 * value for value in noise]), shell.home / f"{name}.json")
    ended = shell.dyno("check", *words, "--bisect")
    assert ended.status == status, ended.err
