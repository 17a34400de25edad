"""Repeats a published experiment like a user: the printed findings, the findings again from the run file, and refused
requests.
"""

from __future__ import annotations

import pytest
from needed import require
from shell import Shell

from dyno import registry

BATCH = ("replicate", "acid-batch-2013", "--preset", "quick", "--samples", 3)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A shell with the run file and the output of an experiment."""
    require(registry.engine("lmdb"))
    home = tmp_path_factory.mktemp("replicate")
    shell = Shell(home, home / "work")
    ended = shell.dyno(*BATCH, "-o", shell.file)
    assert ended.status == 0, ended
    (home / "out").write_text(ended.out)
    return shell


def facts(out: str) -> list[str]:
    """The lines of output that compare stored bytes, which are the same in every trial."""
    return [line for line in out.splitlines() if "stored_bytes of" in line]


def test_findings_are_checked_against_the_run(shell: Shell) -> None:
    out = (shell.home / "out").read_text()
    assert "“A run of examples/batch.py illustrates the tradeoffs of compression.”" in out
    lines = facts(out)
    assert lines
    assert all(" confirmed " in line for line in lines), lines


def test_a_run_that_is_complete_is_printed_again(shell: Shell) -> None:
    before = shell.file.read_bytes()
    ended = shell.dyno(*BATCH, "-o", shell.file, "--resume")
    assert (ended.status, ended.out) == (0, (shell.home / "out").read_text())
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
