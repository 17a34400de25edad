"""Tests that `dyno show --failures` lists each failed attempt with the reason and the last output."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

from madeup import a_cell, a_sample, an_attempt, of_cells
from rich.console import Console
from shell import Shell, small

from dyno.report.tables import notes, sections
from dyno.results import Attempt


def printed(*attempts: Attempt) -> list[str]:
    out = io.StringIO()
    run = of_cells(a_cell("lmdb"), a_cell("sqlite"), attempts=attempts)
    sections.render(notes.failed_attempts(run), Console(file=out, width=100))
    return [line for line in out.getvalue().splitlines() if line]


def test_failed_attempt_shows_phase_reason_and_log() -> None:
    crash = an_attempt(2, outcome="crash", cell=1, attempt=1, phase="read", why="killed by SIGSEGV")
    crash = replace(crash, output="\n".join(f"line {at}" for at in range(30)) + "\nSegmentation fault\n")
    found = printed(an_attempt(0, a_sample()), crash)
    assert found[:2] == ["sqlite (process), block 3, attempt 2", "  read: crash: killed by SIGSEGV"]
    assert found[2] == "  | line 19" and found[-2] == "  | Segmentation fault" and len(found) == 15
    assert found[-1].strip() == "1 of 2 attempts failed."


def test_wrong_answer_is_listed_under_its_phase() -> None:
    found = printed(an_attempt(0, a_sample(), a_sample("fill", void="3 records are not there")))
    assert found[1] == "  fill: void: 3 records are not there"


def test_failed_operations_are_printed_with_the_first_error() -> None:
    found = printed(an_attempt(0, a_sample(operations=9, errors=2, first_error="Error: 1153 'max_allowed_packet'")))
    assert found[1] == "  read: 2 of 9 operations failed, the first: Error: 1153 'max_allowed_packet'"
    assert [line.strip() for line in found[-2:]] == ["0 of 1 attempts failed.", "Operations failed in 1 more."]


def test_a_run_without_failures_says_so() -> None:
    (line,) = printed(an_attempt(0, a_sample()))
    assert line.strip() == "No attempt failed, of 1."


def test_show_failures_lists_refusal_of_a_real_run(shell: Shell, tmp_path: Path) -> None:
    words = small(samples=1, retries=0, phases="update")
    assert shell.dyno("run", "records", "-e", "sqlite:set.no_such=1", *words, "-o", shell.file).status == 3
    ended = shell.dyno("show", shell.file, "--failures")
    assert ended.status == 0 and "sqlite:set.no_such=1 (process), block 1, attempt 1" in ended.out
    assert "refused: " in ended.out and "set.no_such" in ended.out
    assert shell.dyno("show", shell.file, "--failures", "--json").status == 2
