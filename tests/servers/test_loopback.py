"""Tests the addresses of servers on TCP ports. A server that Dyno starts has its own secret password and a free port;
the address of a user's own server is parsed.
"""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

import pytest

from dyno.contracts.model import Refused
from dyno.servers import loopback
from dyno.servers.loopback import FIRST, HOST, LAST, SECRET, Address


def test_server_password_is_stable_and_secret(tmp_path: Path) -> None:
    first, again = (loopback.allocate_address(tmp_path / "server") for _ in range(2))
    other = loopback.allocate_address(tmp_path / "other")
    assert first.password == again.password != other.password and len(first.password) == 32
    assert (tmp_path / "server" / SECRET).stat().st_mode & 0o777 == 0o600
    assert first.password not in repr(first)
    assert first.url == f"http://{HOST}:{first.port}" and FIRST <= first.port <= LAST


def test_port_in_use_is_not_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(socket.socket()) as one:
        one.bind((HOST, 0))
        one.listen()
        taken = one.getsockname()[1]
        monkeypatch.setattr(loopback, "FIRST", taken)
        monkeypatch.setattr(loopback, "LAST", taken)
        with pytest.raises(Refused, match=f"no port from {taken} to {taken} is free"):
            loopback.allocate_address(tmp_path)
        address = Address(HOST, taken)
        assert loopback.listens(address)
    assert not loopback.listens(address)
    assert not loopback.says(address, "/")


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://db.example", Address("db.example", 8_086)),
        ("https://me:a%2Fb@db.example:9/x", Address("db.example", 9, "me", "a/b", True, "/x")),
        ("http://me@[::1]:7", Address("::1", 7, "me")),
    ],
)
def test_user_server_url_is_parsed(url: str, found: Address) -> None:
    assert loopback.of_url(url, 8_086) == found


def test_listed_secure_scheme_implies_tls() -> None:
    assert loopback.of_url("clickhouses://db.example", 9_440, ("clickhouses",)).secure
