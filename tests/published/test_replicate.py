"""Repeats a published experiment like a user: the printed findings, the findings again from the run file, and refused
requests.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import small_replicas
from click.testing import CliRunner, Result
from needed import require
from shell import Shell, wait_for
from small_replicas import SMALL

import dyno
from dyno import published, registry
from dyno.cli.commands import dyno as dyno_command
from dyno.contracts.model import UsageError

pytestmark = pytest.mark.usefixtures("processes")

BATCH = ("replicate", "acid-batch-2013", "--preset", "quick")


def replicated(shell: Shell, *more: object) -> str:
    """The output of the experiment at its small size."""
    small = replace(published.experiment("acid-batch-2013"), sizes=SMALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(published, "experiment", lambda name, cpus=None: small)
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
    return [line for line in out.splitlines() if " stored_bytes " in line]


def test_findings_are_checked_against_the_run(shell: Shell) -> None:
    out = (shell.home / "out").read_text()
    assert "“A run of examples/batch.py illustrates the tradeoffs of compression.”" in out
    lines = facts(out)
    assert lines
    assert any(" confirmed " in line for line in lines), lines


def test_table_states_preset_versions_and_published_units(shell: Shell) -> None:
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


def test_resume_of_complete_replica_prints_it_again(shell: Shell) -> None:
    before = shell.file.read_bytes()
    assert replicated(shell, "--resume") == (shell.home / "out").read_text()
    assert shell.file.read_bytes() == before


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Result]]:
    """Replicates two experiments: one small, and one of whose engines none can run here."""
    require(registry.engine("lmdb"))
    home = tmp_path_factory.mktemp("all")
    every = published.experiment
    oracle = every("relstorage-2008")
    oracle = replace(oracle, plan={**oracle.plan, "engine": ["relstorage_oracle:cache_mib=10"]})
    of = {"acid-batch-2013": replace(every("acid-batch-2013"), sizes=SMALL), "relstorage-2008": oracle}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(published, "experiment", lambda name, cpus=None: of.get(name) or every(name))
        patch.setattr(published, "names", lambda: list(of))
        patch.chdir(home)

        def invoke(*more: object) -> Result:
            words = ["replicate", "all", "--preset", "quick", "--work", home / "work", "-o", "replicas", *more]
            return CliRunner().invoke(dyno_command, list(map(str, words)))

        yield invoke


@pytest.mark.claim("All published experiments are repeated by one command, on one page")
def test_all_experiments_are_replicated_onto_one_page(everything: Callable[..., Result]) -> None:
    ended = everything()
    assert ended.exit_code == 0, ended.output
    assert "108131.95" in ended.stdout and "not run: no engine of relstorage-2008 can run here" in ended.stdout
    page = Path("replicas/index.html").read_text()
    for text in (">108131.95<", "illustrates the tradeoffs of compression", "can run here", "confirmed", "Hathaway"):
        assert text in page
    run_file = Path("replicas/acid-batch-2013.json")
    kept, whole = run_file.read_bytes(), ended.stdout
    refused = everything()
    assert isinstance(refused.exception, UsageError) and "--resume" in str(refused.exception)
    # Half of the trials, as after a kill.
    lines = kept.splitlines(keepends=True)
    run_file.write_bytes(b"".join(lines[: len(lines) // 2]))
    again = everything("--resume")
    assert again.exit_code == 0 and run_file.read_bytes().startswith(b"".join(lines[: len(lines) // 2]))
    assert run_file.read_bytes().count(b"\n") == len(lines)
    assert everything("--resume").stdout == again.stdout
    assert again.stdout.splitlines()[-1] == whole.splitlines()[-1]


def test_time_is_divided_among_the_experiments(everything: Callable[..., Result]) -> None:
    words = ("-o", "hurried", "--samples", "2")
    ended = everything(*words, "--within", "1s")
    assert ended.exit_code == 0, ended.output
    assert "Reduced, to take about 1 s in all:\n  acid-batch-2013: to 1 of 2 samples\n" in ended.stdout
    page = Path("hurried/index.html").read_text()
    assert "not complete: " in page and "relstorage-2008" in page
    run_file = Path("hurried/acid-batch-2013.json")
    first = run_file.read_bytes()
    # With enough time, the run goes on with the same plan.
    again = everything(*words, "--resume", "--within", "1h")
    assert again.exit_code == 0 and "Reduced" not in again.stdout
    assert run_file.read_bytes().startswith(first) and len(run_file.read_bytes()) > len(first)
    assert "not complete: " not in Path("hurried/index.html").read_text()


def test_preset_exceeding_the_time_is_replaced_by_quick(everything: Callable[..., Result]) -> None:
    words = ("-o", "smaller", "--samples", "1", "--within", "1s")
    ended = everything("--preset", "standard", *words)
    assert ended.exit_code == 0, ended.output
    assert "acid-batch-2013: to preset quick" in ended.stdout
    assert "measured here: preset quick" in ended.stdout
    assert everything("--preset", "standard", "--resume", *words).exit_code == 0


@pytest.mark.claim("All published experiments are repeated by one command, on one page")
def test_killed_replication_of_all_resumes(tmp_path: Path) -> None:
    require(registry.engine("lmdb"))
    shell, replicas = Shell(tmp_path, tmp_path / "work"), tmp_path / "replicas"
    first, second, page = (replicas / name for name in ("acid-batch-2013.json", "acid-2013.json", "index.html"))
    words = [sys.executable, small_replicas.__file__, "replicate", "all", "--preset", "quick", "-o", "replicas"]

    def started(*more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*words, *more],
            cwd=tmp_path,
            env=shell.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def lines(file: Path) -> int:
        return file.read_bytes().count(b"\n") if file.exists() else 0

    try:
        process = started()
        assert wait_for(lambda: lines(second) > 2)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert not page.exists()
        complete, begun = first.read_bytes(), second.read_bytes()
        begun = begun[: begun.rindex(b"\n") + 1]
        process = started("--resume")
        _, err = process.communicate(timeout=100)
        assert process.returncode == 0, err
        assert first.read_bytes() == complete and first.name not in err and second.name in err
        assert second.read_bytes().startswith(begun) and lines(second) > begun.count(b"\n")
        # Only the run files make the page: it is the same after another start, which measures nothing.
        text = page.read_text()
        page.unlink()
        process = started("--resume")
        _, err = process.communicate(timeout=100)
        assert process.returncode == 0 and ".json" not in err, err
        assert page.read_text() == text and ">108131.95<" in text and ">332,173<" in text
    finally:
        shell.kill_strays()


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
def test_unknown_experiment_or_preset_is_one_line_error(shell: Shell, words: tuple[str, ...], said: str) -> None:
    ended = shell.dyno("replicate", *words)
    assert ended.status == 2
    assert said in ended.err and ended.err.count("\n") == 1
