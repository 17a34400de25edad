"""Secrets in the address of a user's own server leak into no file, no output, and no process that does not need them,
whether the address is on the command line, in a variable or in a file.

The engine of `tests/plugins/indiscreet` reveals everything it knows. `test_real_server.py` tests real client
libraries.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from shell import TESTS, Ended, Shell, is_one_line, small

pytestmark = pytest.mark.usefixtures("processes")

SECRETS = ("Tr1cky", "w0rd", "s3ss10n", "c3rtific", "fr4gment")
ADDRESS = (
    "indiscreet://me:Tr1cky%2Fw0rd@db.example:1/own?authSource=admin&authMechanismProperties=AWS_SESSION_TOKEN:s3ss10n"
    "&tlsCertificateKeyFilePassword=c3rtific&tls=true#fr4gment"
)
SHOWN = (
    "indiscreet://me:***@db.example:1/own?authSource=admin&authMechanismProperties=***"
    "&tlsCertificateKeyFilePassword=***&tls=true#***"
)
ROW = f"indiscreet:url={SHOWN}"
RUN = small(samples=1, retries=0)


@pytest.fixture
def shell(shell: Shell) -> Shell:
    shell.plugins = [TESTS / "plugins" / "indiscreet"]
    return shell


def run(shell: Shell, url: str, *words: object, where: str = "") -> Ended:
    engine = f"indiscreet:url={url}{f'+where={where}' if where else ''}"
    return shell.dyno("run", "records", "-e", engine, *RUN, "-o", shell.file, *words)


def told(shell: Shell, *ended: Ended) -> list[str]:
    """The secrets that occur in the output, or in any file in the working directory."""
    files = "".join(path.read_text(errors="replace") for path in shell.home.rglob("*.*") if path.is_file())
    whole = files + "".join(each.out + each.err for each in ended)
    return [secret for secret in SECRETS if secret.lower() in whole.lower()]


def forms(shell: Shell) -> list[Ended]:
    """Output of the run in every format, and its report as a file."""
    # Reading needs no plug-in, and so no process of its own.
    shell = Shell(shell.home, shell.work)
    shown = [
        shell.dyno("show", shell.file, *flags) for flags in ((), ("--json",), ("--samples", "--csv"), ("--markdown",))
    ]
    return [*shown, shell.dyno("report", shell.file), shell.dyno("compare", shell.file, shell.file)]


@pytest.mark.claim("A secret in an address is in no run file, report or error")
@pytest.mark.parametrize(("where", "status"), [("itself", 0), ("operation", 3), ("error", 3), ("refusal", 3)])
def test_secrets_that_an_engine_reveals_are_masked(shell: Shell, where: str, status: int) -> None:
    ended = run(shell, ADDRESS, where=where)
    assert ended.status == status, ended
    (attempt,) = shell.attempts("indiscreet")
    text = json.dumps(attempt)
    # The engine got the address where it needs it, and only secrets are masked.
    assert text.count("***") > 5
    assert "authSource=admin" in text and "db.example:1/own" in text and "tls=true" in text
    row = f"indiscreet:url={SHOWN}+where={where}"
    outputs = forms(shell)
    assert all(row in each.out for each in outputs if each.out.startswith("{"))
    assert told(shell, ended, *outputs) == []


# -- sources of an address --------------------------------------------------------------------------------------


@pytest.fixture
def kept(shell: Shell) -> Path:
    """A file with the address, outside of the directory that is searched for secrets."""
    file = shell.work.parent / "address"
    file.touch(0o600)
    file.write_text(f"{ADDRESS}\n")
    return file


@pytest.mark.claim("An address from a variable or file gives the same row, and the variable is withheld from engines")
def test_address_from_variable_or_file_gives_same_row(shell: Shell, kept: Path) -> None:
    shell.given = {"OWN_ADDRESS": ADDRESS, "OTHER": "seen"}
    plan = shell.home / "plan.toml"
    plan.write_text('suite = "records"\nengine = [{name = "indiscreet", url = "env:OWN_ADDRESS"}]\n')
    named = [
        run(shell, "env:OWN_ADDRESS", "--samples", 4, "--blocks", 1),
        run(shell, f"file:{kept}", "--samples", 4, "--blocks", 1, "--resume"),
        shell.dyno("run", plan, *RUN, "-o", shell.file, "--samples", 4, "--blocks", 1, "--resume"),
    ]
    assert [ended.status for ended in named] == [0, 0, 0], named
    assert told(shell, *named) == []
    last = run(shell, ADDRESS, "--samples", 4, "--resume")
    assert last.status == 0, last
    assert {engine for engine, _ in shell.cells() if engine.startswith("indiscreet")} == {ROW}
    environments = [attempt["settings"]["environment"].split() for attempt in shell.attempts("indiscreet")]
    assert len(environments) == 4
    assert ["OWN_ADDRESS" in names for names in environments] == [False, True, False, True]
    assert all("OTHER" in names for names in environments)


def test_two_rows_may_name_one_variable(shell: Shell) -> None:
    shell.given = {"OWN_ADDRESS": ADDRESS}
    engines = "indiscreet:url=env:OWN_ADDRESS,indiscreet:url=env:OWN_ADDRESS+where=operation"
    ended = shell.dyno("run", "records", "-e", engines, *RUN, "-o", shell.file)
    # The run fails because too many operations of the second engine fail.
    assert ended.status == 1, ended
    assert [a["settings"]["environment"].count("OWN_ADDRESS") for a in shell.attempts() if a["settings"]] == [0, 0]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("env:NOT_SET", "option url: the environment variable NOT_SET is not set"),
        ("env:WRONG", "expected an address that begins with indiscreet://"),
        ("env:NOT_ONE", "is no address; in a password / ? # : @ are written"),
        ("file:open", "others may read open, which has an address: chmod 600 open"),
        (f"{ADDRESS},c3rtific@x", "a comma of the address as %2C"),
        ("indiscreet://me:a+Tr1cky@h", "write a + in an address as %2B"),
        (f"{ADDRESS}+Tr1cky", "expected indiscreet:option=value"),
        ("host=h password=Tr1cky", "expected an address that begins with indiscreet://"),
        (f"{ADDRESS} w0rd", "Got unexpected extra argument"),
    ],
)
def test_invalid_address_is_one_line_without_secrets(shell: Shell, url: str, said: str) -> None:
    (shell.home / "open").touch()
    shell.given = {
        "WRONG": ADDRESS.replace("indiscreet", "mysql"),
        "NOT_ONE": ADDRESS.replace("me:", "me:c3rtific/"),
    }
    ended = run(shell, url, *([f"{ADDRESS} w0rd"] if "extra" in said else []))
    assert (ended.status, ended.out) == (2, ""), ended
    assert is_one_line(ended.err)
    assert said in ended.err
    assert told(shell, ended) == []
    assert not shell.file.exists()


# -- the command line -------------------------------------------------------------------------------------------


@pytest.mark.claim("A secret in an address is in no run file, report or error")
def test_password_on_command_line_draws_one_warning(shell: Shell, kept: Path) -> None:
    (warning,) = [line for line in run(shell, ADDRESS).err.splitlines() if "warning" in line]
    assert "env:NAME" in warning and "file:PATH" in warning
    assert "warning" not in run(shell, f"file:{kept}", "--overwrite").err


def test_help_names_env_and_file_address_sources(shell: Shell) -> None:
    commands: list[Any] = [("run", "--help"), ("list", "engines")]
    for words in commands:
        out = " ".join(shell.dyno(*words).out.split())
        assert "env:NAME" in out and "file:PATH" in out, words
