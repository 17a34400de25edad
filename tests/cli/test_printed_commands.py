"""Every command that Dyno prints for typing does what it says. The tests run what was printed, in a shell."""

from __future__ import annotations

import html
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from facts import parse
from madeup import reads, written
from shell import Ended, Shell, wait_for

from dyno import registry, results
from dyno.cli.resuming import WORDS, resume_command

pytestmark = pytest.mark.usefixtures("processes")

STEADY = ("selftest", "-e", "synthetic:wait_us=5000", "-p", "operations=20", "--phases", "work")
SEARCH = ("--limit", "p50<900s", "--duration", "0.2", "--warmup", "0.05", "--confirm", "0.3")
PLAN = """
suite = "sql"
engine = ["sqlite", "small=sqlite:cache_mib=1"]
samples = 2
budget = 0.2
[sql]
schema = "CREATE TABLE item (id integer, kind integer)"
[sql.tables]
item = { rows = 50, id = "serial", kind = "uniform:1..10" }
[sql.transactions.first]
script = '''
\\set k \\
  random(1, 10)
SELECT id FROM item
WHERE kind = :k ORDER BY id;
'''
"""


@pytest.fixture
def shell(shell: Shell) -> Shell:
    """A shell in whose PATH is `dyno`, with the plan of a script with line breaks."""
    home = shell.home / "a place"
    home.mkdir()
    (home / "plan.toml").write_text(PLAN)
    return Shell(home, shell.work, given={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"})


def typed(shell: Shell, line: str) -> Ended:
    """Runs a line as if it was typed."""
    ended = shell.sh("sh", "-c", line)
    assert ended.status == 0, (line, ended)
    return ended


@pytest.mark.parametrize(
    "words",
    [
        ("run", *STEADY, "--samples", "3", "-o", "the run.json", "--overwrite"),
        ("run", "plan.toml", "--samples", "3", "--resume", "-o", "r.json"),
        ("capacity", *STEADY, *SEARCH, "--overwrite"),
        ("time", "-o", "r.json", "--samples", "3", "--budget", "0.2", "--", "sleep 0.01", "sleep '0.02'"),
    ],
    ids=" ".join,
)
def test_printed_command_resumes_an_interrupted_run(shell: Shell, words: tuple[str, ...]) -> None:
    def trials() -> int:
        return sum(file.read_bytes().count(b"\n") - 1 for file in shell.home.glob("*.json"))

    with shell.started(*words) as process:
        assert wait_for(lambda: trials() >= 1), process.poll()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 130, err
    (file,) = shell.home.glob("*.json")
    before = file.read_bytes()
    assert not results.load(file).complete
    match = re.search(r"^\d+ (of \d+ )?trials are kept in .*; to continue: (dyno .*)$", err, re.MULTILINE)
    assert match, err
    typed(shell, match[2])
    assert results.load(file).complete and file.read_bytes().startswith(before)
    assert list(shell.home.glob("*.json")) == [file]


@pytest.mark.parametrize(
    "words", [("capacity", *STEADY, *SEARCH), ("run", "plan.toml", "--blocks", "1")], ids=" ".join
)
def test_command_in_a_report_repeats_the_run(shell: Shell, words: tuple[str, ...]) -> None:
    file = shell.home / "the run.json"
    untyped = Shell(shell.home, shell.work)
    ended = untyped.dyno(*words, "-o", file.name)
    if "plan.toml" in words:
        # The second block resumes a plan whose script has line breaks.
        assert {each.block for each in results.load(file).attempts} == {0}
        ended = untyped.dyno(*words, "-o", file.name, "--resume")
    assert ended.status == 0, ended
    first = results.load(file)
    assert first.complete
    commands = re.findall(r": (dyno (?:show|report) .*)$", ended.out, re.MULTILINE) or ["dyno report 'the run.json'"]
    for command in commands:
        typed(shell, command)
    text = file.with_suffix(".html").read_text()
    match = re.search(r'aria-label="The command that repeats the run"[^>]*><pre><code>(.*?)</code>', text)
    assert match
    typed(shell, html.unescape(re.sub("<[^>]*>", "", match[1])))
    (other,) = set(shell.home.glob("*.json")) - {file}
    again = results.load(other)
    assert again.complete
    assert [cell.asked for cell in again.cells] == [cell.asked for cell in first.cells]
    assert again.plan == first.plan


def test_printed_command_removes_a_directory(shell: Shell) -> None:
    work = shell.home / "the work"
    left = work / "dyno-run-it's"
    left.mkdir(parents=True)
    left.chmod(0o777)
    ended = shell.dyno("run", *STEADY, "--samples", "1", "--work", work, "-o", "r.json")
    match = re.search(r"stays, since other users may write to it; to remove it: (rm .*)$", ended.err, re.MULTILINE)
    assert match, ended
    typed(shell, match[1])
    assert not left.exists() and work.exists()


HIDE = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
hidden = {hidden}
PathFinder.find_spec = lambda name, *path: None if name.partition(".")[0] in hidden else find(name, *path)
"""


@pytest.fixture
def bare(shell: Shell) -> Shell:
    """A shell whose Dyno finds no engine's module and no program. It types in the usual one."""
    site = shell.home / "site"
    site.mkdir()
    modules = {module.partition(".")[0] for spec in registry.engines() for module in spec.installation.modules}
    modules |= {"distributed", "pycurl", "jinja2", "vl_convert", "cryptography"}
    (site / "sitecustomize.py").write_text(HIDE.format(hidden=sorted(modules - {"numpy", *sys.stdlib_module_names})))
    return Shell(shell.home, shell.work, plugins=[site], given={"PATH": "/nonexistent"})


def test_printed_install_commands_are_valid(shell: Shell, bare: Shell) -> None:
    out = " ".join(bare.dyno("list", "engines").out.split())
    commands = set(re.findall(r"dyno install [\w-]+(?: --yes)?", out))
    assert {"dyno install lmdb", "dyno install redis", "dyno install fio --yes"} <= commands
    for command in commands:
        words = shlex.split(command)[1:]
        parse(words)
        assert registry.engine(words[1])
    # These are installed, so that typing the command changes nothing.
    for name in ("lmdb", "fio"):
        if registry.engine(name).explain_unavailability() is None:
            typed(shell, next(command for command in commands if command.split()[2] == name))
    packages = set(re.findall(r"apt-get install (?:-y )?([\w.+-]+)", out))
    assert packages
    if shutil.which("apt-cache") and shell.sh("sh", "-c", "apt-cache show strace").status == 0:
        typed(shell, f"apt-get install --simulate {' '.join(packages)}")


@pytest.mark.parametrize(
    "words",
    [
        ("doctor", "--load-from", "tls://h:1"),
        ("http", "http://localhost:1/"),
        ("report", "r.json"),
    ],
    ids=" ".join,
)
def test_printed_pip_command_adds_the_extra(shell: Shell, bare: Shell, words: tuple[str, ...]) -> None:
    if words[0] == "report":
        written(reads(lmdb=[1000.0] * 3), shell.home / "r.json")
    ended = bare.dyno(*words)
    assert ended.status == 2, ended
    match = re.search(r": (\S*pip install .*)$", ended.err, re.MULTILINE)
    assert match, ended
    # The extras are installed here, and pip may not look for others.
    shell.given["PIP_NO_INDEX"] = "1"
    typed(shell, match[1])


@pytest.mark.parametrize(
    ("words", "given", "printed"),
    [
        (["replicate", "all", "--overwrite"], {}, "dyno replicate all -o all-1 --resume"),
        (["replicate", "all", "--resume", "-o", "x"], {"path": "x", "resume": True}, None),
        (
            ["run", "records", "--overwrite", "-e", "redis:url=redis://:secret@host"],
            {},
            "repeat the command with -o all-1 --resume, without --overwrite",
        ),
    ],
)
def test_printed_command_names_the_output_and_no_password(
    words: list[str], given: dict[str, object], printed: str | None
) -> None:
    with click.Context(click.Command("dyno")) as root, click.Context(click.Command(words[0]), root) as context:
        root.meta[WORDS] = words
        context.params = given
        assert resume_command(Path("all-1")) == (printed or shlex.join(["dyno", *words]))


@pytest.mark.parametrize(
    ("engine", "url"),
    [
        ("cassandra", "cassandra://u:***@h:1"),
        ("clickhouse", "clickhouse://u:***@h:1"),
        ("ferretdb", "mongodb://u:***@h:1/?tls=true"),
        ("influxdb", "http://u:***@h:1"),
        ("mariadb", "mariadb://u:***@h:1/d"),
        ("postgresql", "postgresql://u:***@h:1/a%20d?sslmode=require"),
        ("questdb", "http://u:***@h:1"),
        ("redis", "redis://u:***@h:1/2"),
        ("victoriametrics", "http://u:***@h:1"),
    ],
)
def test_store_removal_command_has_no_masked_password(engine: str, url: str) -> None:
    server = registry.engine(engine).server
    assert server is not None and server.removal is not None
    command = server.removal("dyno_1_2_3", {"url": url})
    assert "***" not in command and "dyno_1_2_3" in command
    assert subprocess.run(["sh", "-n", "-c", command]).returncode == 0
