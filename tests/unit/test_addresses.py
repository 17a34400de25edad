"""An address may stand in a variable or in a file of one's own, and what is wrong with that is said without it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from dyno.contracts.model import UsageError
from dyno.servers import user_server
from dyno.text.addresses import resolve_address

ADDRESS = "redis://me:s3cret@h/0"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "address"
    found.touch(0o600)
    found.write_text(f"{ADDRESS}\r\n# a second line\n")
    return found


def test_the_first_line_of_a_file_is_an_address(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_address(f"file:{file}") == ADDRESS
    monkeypatch.chdir(file.parent)
    assert resolve_address("file:address") == ADDRESS
    file.with_name("link").symlink_to(file)
    file.chmod(0o400)
    assert resolve_address("file:link") == ADDRESS


def test_a_variable_is_taken_out_of_the_environment_and_is_known_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNO_TEST_ADDRESS", ADDRESS)
    assert resolve_address("env:DYNO_TEST_ADDRESS") == resolve_address("env:DYNO_TEST_ADDRESS") == ADDRESS
    assert "DYNO_TEST_ADDRESS" not in os.environ


@pytest.mark.parametrize("text", [ADDRESS, "", "env", "unix:///run/redis.sock?db=0"])
def test_anything_else_is_an_address_itself(text: str) -> None:
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
    ("how", "said"),
    [
        ("missing", "can't read {}: No such file or directory"),
        ("folder", "can't read {}: Is a directory"),
        # And nobody waits for who might write to it.
        ("pipe", "{} is no regular file"),
        ("empty", "the first line of {} is empty; it is to be the address"),
        *(
            (mode, "others may read {0}, which has an address: chmod 600 {0}")
            for mode in ("640", "604", "620", "777")
        ),
    ],
)
def test_a_file_that_is_none_or_not_ones_own_is_refused(file: Path, how: str, said: str) -> None:
    spoil(file, how)
    with pytest.raises(ValueError, match=f"^{re.escape(said.format(file))}$"):
        resolve_address(f"file:{file}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("env:DYNO_TEST_EMPTY", "the environment variable DYNO_TEST_EMPTY is empty"),
        ("env:DYNO_TEST_NO_ADDRESS", "the environment variable DYNO_TEST_NO_ADDRESS is not set"),
        ("file:{}", "wants an address that begins with mysql://"),
        (ADDRESS, "wants an address that begins with mysql://"),
        ("mysql://me:s3/cret@h", "is no address; in a password / ? # : @ are written %2F %3F %23 %3A %40"),
        ("mysql://[me:s3cret@h", "is no address; in a password / ? # : @ are written %2F %3F %23 %3A %40"),
        ("mysql://me:s3cret", "is no address; in a password / ? # : @ are written %2F %3F %23 %3A %40"),
    ],
)
def test_what_is_wrong_with_an_option_is_said_without_the_address(
    file: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.setenv("DYNO_TEST_EMPTY", "")
    with pytest.raises(UsageError) as refused:
        user_server.setting("mysql").read(text.format(file), "engine mysql: option")
    assert str(refused.value) == f"engine mysql: option url: {said}"
