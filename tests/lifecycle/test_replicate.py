"""Repeats a published experiment like a user: the printed findings, the findings again from the run file, and refused
requests.
"""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import pytest
from click.testing import CliRunner
from needed import require
from shell import Shell, wait_for

import dyno
from dyno import published, registry
from dyno.cli.commands import dyno as dyno_command

BATCH = ("replicate", "acid-batch-2013", "--preset", "quick")
SMALL = {"quick": {"param": {"packer": ["zlib"], "batch": [1, 16]}, "samples": 3}}
"""The size of the tests: the whole has 64 cells, null engines included."""


def replicated(shell: Shell, *more: object) -> str:
    """The output of the experiment at its small size."""
    small = replace(published.experiment("acid-batch-2013"), sizes=SMALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(published, "experiment", lambda name: small)
        words = [*BATCH, "--work", shell.home / "work", "-o", shell.file, *more]
        ended = CliRunner().invoke(dyno_command, list(map(str, words)))
    assert ended.exit_code == 0, ended.output
    return ended.stdout


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A shell with the run file and the output of an experiment."""
    require(registry.engine("lmdb"))
    home = tmp_path_factory.mktemp("replicate")
    shell = Shell(home, home / "work")
    (home / "out").write_text(replicated(shell))
    return shell


def facts(out: str) -> list[str]:
    """The lines of output that compare stored bytes, which are the same in every trial."""
    return [line for line in out.splitlines() if "stored_bytes of" in line]


def test_findings_are_checked_against_the_run(shell: Shell) -> None:
    out = (shell.home / "out").read_text()
    assert "“A run of examples/batch.py illustrates the tradeoffs of compression.”" in out
    lines = facts(out)
    assert lines
    assert any(" confirmed " in line for line in lines), lines


def test_the_table_says_where_and_how_it_was_measured(shell: Shell) -> None:
    out = (shell.home / "out").read_text()
    assert "measured here: preset quick" in out and "lmdb: LMDB" in out and f"dyno {dyno.__version__}" in out
    # Published figures as printed, and ours in the same unit.
    line = next(line for line in out.splitlines() if "42760.74" in line)
    assert [word[-2:] for word in line.split() if word[0].isdigit() and word.endswith("kb")] == ["kb", "kb"]
    assert "\nRemarks\n" in out


def test_a_report_has_the_published_figures_and_findings(shell: Shell) -> None:
    ended = shell.dyno("report", shell.file)
    assert ended.status == 0, ended
    page = shell.file.with_suffix(".html").read_text()
    assert ">108131.95<" in page and "illustrates the tradeoffs of compression" in page


def test_an_interrupted_replica_prints_its_table(shell: Shell) -> None:
    file = shell.home / "part.json"
    with shell.started(*BATCH, "-o", file) as process:
        assert wait_for(lambda: file.exists() and file.read_text().count("\n") > 2)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "to continue" in err
    assert "108131.95" in out and "not complete" in out


def test_a_run_that_is_complete_is_printed_again(shell: Shell) -> None:
    before = shell.file.read_bytes()
    assert replicated(shell, "--resume") == (shell.home / "out").read_text()
    assert shell.file.read_bytes() == before


def test_experiments_are_listed_with_their_source(shell: Shell) -> None:
    ended = shell.dyno("replicate")
    assert ended.status == 0
    assert "Shane Hathaway, RelStorage 1.0 and Measurements, 2008" in " ".join(ended.out.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("relstorage-2009",), "experiment relstorage-2009 is not known"),
        (("acid-batch-2013", "--preset", "quik"), "quick"),
    ],
)
def test_what_is_not_there_is_an_error_of_one_line(shell: Shell, words: tuple[str, ...], said: str) -> None:
    ended = shell.dyno("replicate", *words)
    assert ended.status == 2
    assert said in ended.err and ended.err.count("\n") == 1
