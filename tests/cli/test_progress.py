"""Progress goes to standard error, and only to a terminal; the result goes to standard output afterwards.

Runs under a pseudo-terminal. How often the display changes is not tested.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from madeup import an_attempt
from rich.console import Console
from rich.progress import Progress
from shell import COMMAND, FAULTY, TESTS, Shell, small

from dyno.cli.progress import Display, Plain
from dyno.contracts.model import Trial
from dyno.options import RunRequest
from dyno.results.header import Host, Load, Processor
from dyno.runner import plan

pytestmark = pytest.mark.usefixtures("processes")

RUN = (*COMMAND, "run", "records", "-e", "memory", *small(samples=2), "-o", "r.json")
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
TABLE = re.compile(r"engine +get")


def plain(sent: str) -> str:
    return CONTROL.sub("", sent)


@pytest.fixture(scope="module")
def sent(shared_shell: Shell) -> str:
    """Everything that a run sends to a terminal of 80 columns."""
    status, sent = shared_shell.on_terminal(*RUN, columns=80)
    assert status == 0
    return sent


def test_terminal_shows_progress_and_then_the_table(shared_shell: Shell, sent: str) -> None:
    # The part before the table, which also counts trials.
    progress, _, rest = plain(sent).partition("records: records=300")
    assert rest, sent
    assert re.search(rf"\b\d+/{shared_shell.planned()}\b", progress), "trials done, of all"
    assert re.search(r"about \d:\d\d left", progress)
    assert "memory (volatile), block 1" in progress
    assert "tier volatile, not crash-safe: " in rest
    assert re.search(r"^engine +get", rest, re.MULTILINE)
    assert re.search(r"^memory +\d", rest, re.MULTILINE)
    assert plain(sent).count("Written to r.json") == 1


def test_progress_is_erased_before_the_table(sent: str) -> None:
    *_, after = sent.rpartition(" left ")
    # Finally the display's line is erased and the cursor is shown again.
    assert re.match(r"[^\r\n]*\r\n\x1b\[\?25h\r\x1b\[1A\x1b\[2K", after), after[:200]
    assert TABLE.search(plain(after))


def test_failures_are_shown_during_the_run(shell: Shell) -> None:
    shell.plugins = [FAULTY]
    run = [*COMMAND, "run", "records", "-e", "refuser,memory", *small(samples=1), "-o", "r.json"]
    status, sent = shell.on_terminal(*run)
    assert status == 1
    progress, _, _ = plain(sent).partition("records: records=300")
    assert "refuser, block 1: refused: this engine does not feel like it" in progress


def test_redirected_stdout_has_the_table_alone(shell: Shell) -> None:
    status, sent = shell.on_terminal("bash", "-c", f"exec {' '.join(RUN)} > out.txt")
    assert status == 0
    assert re.search(r"about \d:\d\d left", plain(sent))
    assert not TABLE.search(plain(sent))
    out = Path(shell.home, "out.txt").read_text()
    assert TABLE.search(out)
    assert "\x1b" not in out
    assert "left" not in out


def test_redirected_stderr_has_no_progress(shell: Shell) -> None:
    status, sent = shell.on_terminal("bash", "-c", f"exec {' '.join(RUN)} 2> err.txt")
    assert status == 0
    assert Path(shell.home, "err.txt").read_text() == "Written to r.json\n"
    assert TABLE.search(plain(sent))
    assert "left" not in plain(sent)


def test_long_run_reports_progress_lines_without_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planned = plan.make(RunRequest(suite="records", engines=["memory"], samples=3, preset="quick"))
    listener = Plain(Progress(disable=True), every_s=0)
    listener.begin(planned, [an_attempt(0, duration_ns=90 * 10**9)])
    listener.trial(planned.cells[0], Trial(0, 1), 0)
    err = capsys.readouterr().err
    assert err.startswith("1 of ") and "trials, about 0" not in err and "block 2" in err and "left" in err, err
    quiet = Plain(Progress(disable=True))
    quiet.begin(planned, [])
    quiet.trial(planned.cells[0], Trial(0, 1), 0)
    assert not capsys.readouterr().err


def test_busy_machine_is_reported_before_the_run() -> None:
    out = io.StringIO()
    bar = Progress(console=Console(file=out, width=200))
    Display(bar).machine(Host(load=Load(minutes_1=30.0), cpu=Processor(logical_cores=2)))
    assert "load average 30.0 on 2 cores" in out.getvalue()
    assert "wait a minute" in out.getvalue()


def test_engine_text_is_escaped_on_a_terminal(shell: Shell) -> None:
    """Engines' texts are neither markup nor control sequences."""
    shell.plugins = [TESTS / "plugins" / "gossip"]
    words = ("-e", "memory,talker:fails=harmful", *small(samples=1, retries=0), "-o", "r.json")
    status, sent = shell.on_terminal(*COMMAND, "run", "records", *words)
    assert status == 1, sent
    assert "block 1: error: OSError: \\x1b[31mred\\x1b]0;title" in plain(sent)
    assert "[/red]" in sent and "\x1b]0;" not in sent and "\u202e" not in sent
