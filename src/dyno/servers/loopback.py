"""A server that is reached by a port and by no socket: on this machine alone, and by who knows its password.

Which server it is may not be put here.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from socket import AF_INET, SO_REUSEADDR, SOCK_STREAM, SOL_SOCKET
from socket import socket as Socket
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from dyno.contracts.model import Refused
from dyno.text.passwords import mask_password

HOST, USER = "127.0.0.1", "dyno"
SECRET = "password"
"""The file in a server's directory that has it."""
FIRST, LAST = 15_000, 32_000
"""Ports below those that Linux gives to who connects: none of these is taken while the server is stopped."""
ATTEMPTS = 200
TIMEOUT_SECONDS = 2.0


@dataclass(frozen=True)
class Address:
    """Where a server is, and who is let in. What is secret is not shown."""

    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)
    secure: bool = False
    """By TLS."""

    @property
    def url(self) -> str:
        """Of a server that speaks HTTP, without what is secret."""
        return f"http{'s' if self.secure else ''}://{self.host}:{self.port}"


def session(address: Address) -> Any:
    """What makes requests of a server that speaks HTTP, by no proxy."""
    import requests

    found = requests.Session()
    found.trust_env = False
    found.auth = (address.user, address.password) if address.user else None
    return found


def of_url(url: str, port: int, secure: tuple[str, ...] = ("https",), known: tuple[str, ...] = ()) -> Address:
    """The address of a user's own server. `port`: the default port; `secure`: the schemes with TLS; `known`: the
    arguments that may follow a question mark. Raises Refused for any other argument: it may ask for TLS."""
    found = urlsplit(url)
    if unknown := [name for name, _ in parse_qsl(found.query, keep_blank_values=True) if name not in known]:
        there = f"known: {', '.join(known)}" if known else "none is known"
        raise Refused(f"{mask_password(url)}: unknown argument {unknown[0]!r}; {there}")
    return Address(
        found.hostname or HOST,
        found.port or port,
        unquote(found.username or ""),
        unquote(found.password or ""),
        found.scheme in secure,
    )


def own(home: Path) -> Address:
    """One for a server in `home`, which keeps its password. Raises Refused where every port is taken."""
    return Address(HOST, next(_free((HOST,))), USER, _password(home / SECRET))


def cluster(home: Path, nodes: int, ports: int) -> tuple[list[Address], list[int]]:
    """One for each node of a cluster that is kept in `home`, all with one port and one password, and so many further
    ports that are free on all of them. A single node is on the usual address; several are on 127.0.0.2 and up, which
    are all this machine's own on Linux."""
    hosts = [HOST] if nodes == 1 else [f"127.0.0.{2 + number}" for number in range(nodes)]
    free, found = _free(hosts), dict[int, None]()
    while len(found) <= ports:
        found[next(free)] = None
    first, *further = found
    password = _password(home / SECRET)
    return [Address(host, first, USER, password) for host in hosts], further


def _free(hosts: Sequence[str]) -> Iterator[int]:
    """Ports that are free on each of these addresses."""
    for _ in range(ATTEMPTS):
        port = random.SystemRandom().randint(FIRST, LAST)
        if all(_binds(host, port) for host in hosts):
            yield port
    raise Refused(f"no port from {FIRST} to {LAST} is free")


def _binds(host: str, port: int) -> bool:
    with closing(Socket(AF_INET, SOCK_STREAM)) as probe, suppress(OSError):
        # As servers have it: a port whose connections are closed is free.
        probe.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
        probe.bind((host, port))
        return True
    return False


def _password(file: Path) -> str:
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as new:
            new.write(os.urandom(16).hex())
    return file.read_text()


def says(address: Address, path: str) -> bool:
    """Whether it answers that path by HTTP, and well. Nobody's password is needed for it."""
    from http.client import HTTPConnection, HTTPException

    with closing(HTTPConnection(address.host, address.port, timeout=TIMEOUT_SECONDS)) as client:
        try:
            client.request("GET", path)
            return client.getresponse().status < 300
        except (OSError, HTTPException):
            return False


def listens(address: Address) -> bool:
    """Whether it takes connections."""
    with closing(Socket(AF_INET, SOCK_STREAM)) as client:
        client.settimeout(TIMEOUT_SECONDS)
        return client.connect_ex((address.host, address.port)) == 0
