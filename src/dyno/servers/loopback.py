"""Addresses of servers without a Unix socket: on this machine only, and with a password."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from socket import AF_INET, SO_REUSEADDR, SOCK_STREAM, SOL_SOCKET
from socket import socket as Socket
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from dyno.contracts.model import Refused
from dyno.contracts.passwords import mask_password

if TYPE_CHECKING:
    import requests

HOST, USER = "127.0.0.1", "dyno"
SECRET = "password"
"""Name of the file in a server's directory that contains its password."""
FIRST, LAST = 15_000, 32_000
"""Range of ports for servers. Linux gives higher ones to clients, so none is taken while a server is stopped."""
ATTEMPTS = 200
TIMEOUT_SECONDS = 2.0


@dataclass(frozen=True)
class Address:
    """Address and credentials of a server. Its repr doesn't contain the password."""

    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)
    secure: bool = False
    """True if the server uses TLS."""
    path: str = ""
    """Path in the user's URL."""

    @property
    def url(self) -> str:
        """The URL of a server that speaks HTTP, without credentials."""
        return f"http{'s' if self.secure else ''}://{self.host}:{self.port}"


def session(address: Address) -> requests.Session:
    """Returns a session of `requests` for a server that speaks HTTP, without proxies."""
    import requests

    session = requests.Session()
    session.trust_env = False
    if address.user:
        session.auth = (address.user, address.password)
    else:
        session.auth = None
    return session


def of_url(url: str, port: int, secure: tuple[str, ...] = ("https",), known: tuple[str, ...] = ()) -> Address:
    """Returns the address of the user's server. `port` is the default port, `secure` are the schemes with TLS, and
    `known` are the arguments that the URL's query may have. Raises Refused for others, which may request TLS."""
    parts = urlsplit(url)
    if unknown := [name for name, _ in parse_qsl(parts.query, keep_blank_values=True) if name not in known]:
        remedy = "none is known"
        if known:
            remedy = f"known: {', '.join(known)}"
        raise Refused(f"{mask_password(url)}: unknown argument {unknown[0]!r}; {remedy}")
    return Address(
        parts.hostname or HOST,
        parts.port or port,
        unquote(parts.username or ""),
        unquote(parts.password or ""),
        parts.scheme in secure,
        parts.path,
    )


def allocate_address(home: Path) -> Address:
    """Returns an address for a server in `home`, where the password is stored. Raises Refused if no port is free."""
    return Address(HOST, next(_free((HOST,))), USER, _password(home / SECRET))


def free_port(host: str) -> int:
    """Returns a port that is free at this address of the machine. Raises Refused."""
    return next(_free((host,)))


def cluster(home: Path, nodes: int, ports: int) -> tuple[list[Address], list[int]]:
    """Returns an address for each node of a cluster in `home`, all with the same port and password, and `ports`
    further ports that are free on all addresses. A single node is on 127.0.0.1. Several nodes are on 127.0.0.2 and
    up, which are also addresses of this machine on Linux."""
    if nodes == 1:
        hosts = [HOST]
    else:
        hosts = [f"127.0.0.{2 + number}" for number in range(nodes)]
    free, chosen = _free(hosts), dict[int, None]()
    while len(chosen) <= ports:
        chosen[next(free)] = None
    first, *further = chosen
    password = _password(home / SECRET)
    return [Address(host, first, USER, password) for host in hosts], further


def _free(hosts: Sequence[str]) -> Iterator[int]:
    """Yields random ports that are free on all of these addresses."""
    for _ in range(ATTEMPTS):
        port = random.SystemRandom().randint(FIRST, LAST)
        if all(_binds(host, port) for host in hosts):
            yield port
    raise Refused(f"no port from {FIRST} to {LAST} is free")


def _binds(host: str, port: int) -> bool:
    with closing(Socket(AF_INET, SOCK_STREAM)) as probe, suppress(OSError):
        # Bind like servers do: a port with closed connections counts as free.
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
    """Returns whether an HTTP request for the path, without credentials, succeeds."""
    from http.client import HTTPConnection, HTTPException

    with closing(HTTPConnection(address.host, address.port, timeout=TIMEOUT_SECONDS)) as client:
        try:
            client.request("GET", path)
            return client.getresponse().status < 300
        except (OSError, HTTPException):
            return False


def listens(address: Address) -> bool:
    """Returns whether a server accepts connections at this address."""
    with closing(Socket(AF_INET, SOCK_STREAM)) as client:
        client.settimeout(TIMEOUT_SECONDS)
        return client.connect_ex((address.host, address.port)) == 0
