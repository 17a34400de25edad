"""Tests that only regular files up to a size are read, and that every written file can be read again."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from shell import TESTS, Shell, is_one_line, small

from dyno import results
from dyno.contracts.cell import Cell
from dyno.contracts.model import UsageError
from dyno.contracts.safe_read import MIB as MOST_PLAN_BYTES
from dyno.options import RunRequest
from dyno.results import Attempt
from dyno.results.read import MOST_BYTES, MOST_LINE
from dyno.runner import parent, plan
from dyno.runner.parent import RunFile

pytestmark = pytest.mark.usefixtures("processes")

WHOLE = TESTS / "data" / "run-schema-3.json"
HUGE = 2**63
EVIL, SHOWN = "\x1b[2J\u202e\ud800", "\\x1b[2J\\u202e\\ud800"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "r.json"


# -- pipes, directories and large files -----------------------------------------------------------------------

READERS = (
    ("show", "{file}"),
    ("compare", "{file}"),
    ("check", "{file}", "--against", "{file}"),
    ("report", "{file}", "-o", "x.html"),
    ("plot", "{file}", "-o", "charts/"),
    ("site", "{file}", "-o", "site"),
    ("run", "records", "-e", "memory", *small(samples=1), "-o", "{file}", "--resume"),
    ("run", "records", "-e", "memory", *small(samples=1), "-o", "{file}", "--overwrite"),
)


@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_pipe_is_refused_without_waiting(shell: Shell, words: tuple[str, ...]) -> None:
    os.mkfifo(shell.file)
    ended = shell.dyno(*(word.replace("{file}", "r.json") for word in words))
    assert (ended.status, ended.out) == (2, "") and is_one_line(ended.err) and " a pipe" in ended.err
    assert [path.name for path in shell.home.iterdir()] == ["r.json"] and shell.file.is_fifo()


def test_non_regular_file_is_refused_in_one_line(shell: Shell) -> None:
    (shell.home / "loop.json").symlink_to("loop.json")
    (shell.home / "zero.json").symlink_to("/dev/zero")
    (shell.home / "pipe.toml").symlink_to("pipe")
    os.mkfifo(shell.home / "pipe")
    (shell.home / "zero.toml").symlink_to("/dev/zero")
    for words, why in (
        (("show", "loop.json"), "can't read loop.json: Too many levels of symbolic links"),
        (("show", "zero.json"), "can't read zero.json: it is a device, not a file"),
        (("show", "/dev/zero"), "can't read /dev/zero: it is a device, not a file"),
        (("show", "."), "can't read .: Is a directory"),
        (("run", "pipe.toml"), "can't read pipe.toml: it is a pipe, not a file"),
        (("run", "zero.toml"), "can't read zero.toml: it is a device, not a file"),
    ):
        assert shell.dyno(*words) == (2, "", f"dyno: {why}\n")


def test_site_skips_non_regular_files(shell: Shell) -> None:
    os.mkfifo(shell.home / "pipe.json")
    shell.file.write_bytes(WHOLE.read_bytes())
    ended = shell.dyno("site", ".", "-o", "site")
    assert ended.status == 0, ended.err
    assert [path.name for path in (shell.home / "site" / "runs").iterdir()] == ["r.html"]


def test_oversized_file_is_refused(shell: Shell) -> None:
    # A sparse file needs no space.
    for name, most in (("r.json", MOST_BYTES), ("plan.toml", MOST_PLAN_BYTES)):
        with (shell.home / name).open("wb") as sparse:
            sparse.truncate(most + (5 << 20))
    assert shell.dyno("show", "r.json").err == "dyno: can't read r.json: it has 2,053 MiB, of 2,048 at most\n"
    assert shell.dyno("run", "plan.toml").err == "dyno: can't read plan.toml: it has 6 MiB, of 1 at most\n"


def test_overlong_line_is_reported_as_damage(file: Path) -> None:
    file.write_bytes(WHOLE.read_bytes())
    with file.open("r+b") as grown:
        grown.truncate(file.stat().st_size + MOST_LINE)
    with pytest.raises(UsageError, match=r"r\.json is damaged in line 14: longer than 64 MiB$"):
        results.load(file)


# -- written files --------------------------------------------------------------------------------------------


@pytest.fixture
def written(file: Path) -> tuple[Path, Attempt]:
    """A run file without trials, and a trial that may be appended."""
    run = results.load(WHOLE)
    results.create(file, run.recorded, run.cells)
    return file, run.attempts[0]


def deep() -> list[Any]:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    return nested


# Values are built when a test runs, since some are large.
UNREADABLE: tuple[tuple[Callable[[], Mapping[str, Any]], str], ...] = (
    (lambda: {"settings": {"a": float("nan")}}, "Out of range float values are not JSON compliant"),
    (lambda: {"settings": {"a": float("inf")}}, "Out of range float values are not JSON compliant"),
    (lambda: {"settings": {"a": b"x"}}, "bytes is not JSON"),
    (lambda: {"settings": {"a": {1, 2}}}, "set is not JSON"),
    (lambda: {"settings": {"a": object()}}, "object is not JSON"),
    (lambda: {"settings": {"a": (1, 2)}}, "settings[...]: expected `bool | int | float | str | null`, got `array`"),
    (lambda: {"settings": {"a": 2**64}}, f"settings[...]: expected `int` <= {HUGE - 1}"),
    (lambda: {"settings": {"a": deep()}}, "maximum recursion depth exceeded"),
    (lambda: {"settings": [1]}, "settings: expected `object | null`, got `array`"),
    (lambda: {"caveats": ("x",)}, "caveats[0]: expected `object`, got `str`"),
    (lambda: {"version": 5}, "version: expected `str | null`, got `int`"),
    (lambda: {"duration_ns": -1}, "duration_ns: expected `int` >= 0"),
    (lambda: {"cell": 4}, "cell: 4 of 4, counted from 0"),
    (lambda: {"absent": {"none": "why"}}, "the phase none is not in the plan"),
    (lambda: {"output": "x" * (65 << 20)}, "a line of 65 MiB, of 64 at most"),
)


@pytest.mark.parametrize(("changed", "why"), UNREADABLE, ids=[why[:40] for _, why in UNREADABLE])
def test_unreadable_trial_is_refused_before_writing(
    written: tuple[Path, Attempt], changed: Callable[[], Mapping[str, Any]], why: str
) -> None:
    file, attempt = written
    before = file.read_bytes()
    with pytest.raises(UsageError) as caught:
        results.append(file, replace(attempt, **changed()))
    line = str(caught.value)
    assert line.startswith(f"can't write to {file}, since it could not be read again: {why}") and "\n" not in line
    assert file.read_bytes() == before
    results.append(file, attempt)
    assert results.load(file).attempts == (attempt,)


def test_unstorable_attempt_is_recorded_as_error(written: tuple[Path, Attempt]) -> None:
    file, attempt = written
    bad: dict[str, Any] = {
        "settings": {"a": float("nan")},
        "resources": {"client": [1]},
        "loop": {},
        "spent_ns": {"phase": -1},
    }
    with results.Lock() as lock:
        ended = RunFile(file, lock, []).store(replace(attempt, **bad))
    assert results.load(file).attempts == (ended,)
    assert (ended.outcome, ended.samples) == ("error", ())
    assert ended.why and ended.why.startswith("its results can't be stored: ")


def test_unreadable_header_is_refused_before_writing(file: Path) -> None:
    run = results.load(WHOLE)
    cell = run.cells[0]
    pairs: tuple[tuple[Mapping[str, Any], Cell], ...] = (
        ({**run.recorded, "host": {"cpu": 5}}, cell),
        (run.recorded, replace(cell, params={**cell.params, "records": HUGE})),
        (run.recorded, replace(cell, options={"a": float("nan")})),
    )
    for header, one in pairs:
        with pytest.raises(UsageError, match=r"^can't write to .*, since it could not be read again: "):
            results.create(file, header, [one])
        assert not file.exists()


def test_as_read_escapes_dangerous_text_in_options() -> None:
    cell = results.load(WHOLE).cells[0]
    evil = replace(cell, options={"a": EVIL, "b": "plain", "c": 1.5})
    assert results.as_read([cell]) == (cell,)
    assert results.as_read([evil]) == (replace(cell, options={"a": SHOWN, "b": "plain", "c": 1.5}),)


@pytest.mark.parametrize("torn", [b"", b"{", b'{"kind":"trial"', b"x" * 100_000])
def test_only_the_incomplete_last_line_is_cut(file: Path, torn: bytes) -> None:
    file.write_bytes(WHOLE.read_bytes() + torn)
    results.cut_incomplete_line(file)
    assert file.read_bytes() == WHOLE.read_bytes()
    file.write_bytes(torn)
    results.cut_incomplete_line(file)
    assert file.read_bytes() == b""


def test_resuming_another_plan_is_refused_before_anything_starts(file: Path, tmp_path: Path) -> None:
    def hold(place: str) -> AbstractContextManager[str]:
        raise AssertionError("something was started")

    first = plan.make(RunRequest("selftest", engines=["synthetic"], seed=1))
    results.create(file, {"plan": first.data(), "host": {}, **first.declared}, first.cells)
    before = file.read_bytes()
    other = replace(plan.make(RunRequest("selftest", engines=["synthetic"], seed=2)), holds={"place": hold})
    with pytest.raises(UsageError, match=r"can't be resumed: it was made by another plan \(seed was 1\)"):
        parent.execute(other, file, tmp_path / "work", resume=True)
    assert file.read_bytes() == before and not (tmp_path / "work").exists()
