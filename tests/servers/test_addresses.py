"""Tests that addresses are read from variables and files, and that error messages don't contain them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from dyno.contracts.model import UsageError
from dyno.contracts.passwords import resolve_address
from dyno.servers import user_server

ADDRESS = "redis://me:s3cret@h/0"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "address"
    path.touch(0o600)
    path.write_text(f"{ADDRESS}\r\n# a second line\n")
    return path


def test_address_is_the_first_line_of_its_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_address(f"file:{file}") == ADDRESS
    monkeypatch.chdir(file.parent)
    assert resolve_address("file:address") == ADDRESS
    file.with_name("link").symlink_to(file)
    file.chmod(0o400)
    assert resolve_address("file:link") == ADDRESS


def test_variable_is_removed_from_environment_but_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNO_TEST_ADDRESS", ADDRESS)
    assert resolve_address("env:DYNO_TEST_ADDRESS") == resolve_address("env:DYNO_TEST_ADDRESS") == ADDRESS
    assert "DYNO_TEST_ADDRESS" not in os.environ


@pytest.mark.parametrize("text", [ADDRESS, "", "env", "unix:///run/redis.sock?db=0"])
def test_text_without_env_or_file_prefix_is_literal(text: str) -> None:
    assert resolve_address(text) == text


def spoil(file: Path, how: str) -> None:
    file.unlink()
    if how == "folder":
        file.mkdir()
    elif how == "pipe":
        os.mkfifo(file, 0o600)
    elif how == "empty":
        file.touch(0o600)
        file.write_text(f"\n{ADDRESS}\n")
    elif how.isdigit():
        file.touch()
        file.chmod(int(how, 8))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("missing", "can't read {}: No such file or directory"),
        ("folder", "can't read {}: Is a directory"),
        # Opening a pipe must not wait for a writer.
        ("pipe", "{} is not a regular file"),
        ("empty", "the first line of {} is empty; expected an address"),
        *(
            (mode, "others may read {0}, which has an address: chmod 600 {0}")
            for mode in ("640", "604", "620", "777")
        ),
    ],
)
def test_unusable_or_public_address_file_is_refused(file: Path, how: str, message: str) -> None:
    spoil(file, how)
    with pytest.raises(ValueError, match=f"^{re.escape(message.format(file))}$"):
        resolve_address(f"file:{file}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("env:DYNO_TEST_EMPTY", "the environment variable DYNO_TEST_EMPTY is empty"),
        ("env:DYNO_TEST_NO_ADDRESS", "the environment variable DYNO_TEST_NO_ADDRESS is not set"),
        ("file:{}", "expected an address that begins with mysql://"),
        (ADDRESS, "expected an address that begins with mysql://"),
        ("mysql://me:s3/cret@h", "is no address; in a password / ? # : @ are written %2F %3F %23 %3A %40"),
        ("mysql://[me:s3cret@h", "is no address; in a password / ? # : @ are written %2F %3F %23 %3A %40"),
        ("mysql://me:s3cret", "is no address; in a password / ? # : @ are written %2F %3F %23 %3A %40"),
    ],
)
def test_error_messages_omit_the_address(
    file: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.setenv("DYNO_TEST_EMPTY", "")
    with pytest.raises(UsageError) as refused:
        user_server.setting("mysql").read(text.format(file), "engine mysql: option")
    assert str(refused.value) == f"engine mysql: option url: {message}"
