"""A run file names the commit of the git repository that the run was started in, and nothing else of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from shell import Shell, run_line, small

from dyno.host import commit

pytestmark = [
    pytest.mark.usefixtures("processes"),
    pytest.mark.skipif(shutil.which("git") is None, reason="needs git"),
]

NAMES = ("a-remote", "a-branch", "An Author", "author@example.org")


def git(shell: Shell, *words: str) -> str:
    identity = [
        part for name, value in (("name", NAMES[2]), ("email", NAMES[3])) for part in ("-c", f"user.{name}={value}")
    ]
    ended = shell.sh("git", *identity, *words)
    assert ended.status == 0, ended.err
    return ended.out.strip()


def test_run_file_and_reports_name_the_starting_commit(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shell.home)
    assert commit.current() is None
    git(shell, "init", "-q", "-b", NAMES[1])
    git(shell, "remote", "add", "origin", f"https://example.org/{NAMES[0]}")
    assert commit.current() is None
    code = shell.home / "code.py"
    code.write_text("1\n")
    git(shell, "add", "code.py")
    git(shell, "commit", "-q", "-m", "one")
    head = git(shell, "rev-parse", "HEAD")
    assert commit.current() == {"hash": head, "changed": False}
    code.write_text("2\n")
    ended = shell.dyno("run", "records", "-e", "memory", *small(samples=1), "-o", shell.file)
    assert ended.status == 0, ended.err
    first, *trials = shell.file.read_bytes().splitlines(keepends=True)
    header = json.loads(first)
    assert header["commit"] == {"hash": head, "changed": True}
    assert not any(name in json.dumps(header) for name in (*NAMES, "code.py"))
    assert f"Started from commit {head[:10]} with changes\n" in shell.dyno("show", shell.file).out
    markdown = shell.dyno("show", shell.file, "--markdown").out
    assert f"- started from commit {head[:10]} with changes\n" in markdown
    assert shell.shown()["commit"] == header["commit"]

    def show(recorded: dict[str, object] | None) -> str:
        """Shows the run as if it had started from another commit."""
        shell.file.write_bytes(b"".join([run_line({**header, "commit": recorded}), *trials]))
        return shell.dyno("show", shell.file).out

    assert f"Started from commit {head[:10]}\n" in show({"hash": head, "changed": False})
    assert "from commit" not in show(None)


def test_fsmonitor_program_of_the_repository_is_not_executed(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shell.home)
    git(shell, "init", "-q")
    program = shell.home / "watch"
    program.write_text(f"#!/bin/sh\ntouch {shell.home}/ran\n")
    program.chmod(0o755)
    git(shell, "add", "watch")
    git(shell, "commit", "-q", "-m", "one")
    git(shell, "config", "core.fsmonitor", str(program))
    recorded = commit.current()
    assert recorded is not None and recorded["changed"] is False
    assert not (shell.home / "ran").exists()


@pytest.mark.parametrize("script", [None, "exit 1", "echo refs/heads/main", "exec sleep 60"])
def test_commit_is_unknown_without_working_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None
) -> None:
    monkeypatch.setattr(commit, "SECONDS", 0.2)
    programs = tmp_path / "programs"
    programs.mkdir()
    if script is not None:
        (programs / "git").write_text(f"#!/bin/sh\n{script}\n")
        (programs / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs) if script is None else f"{programs}:/usr/bin:/bin")
    assert commit.current() is None
